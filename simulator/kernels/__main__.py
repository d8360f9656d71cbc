"""`python -m simulator.kernels`: compile for this machine what is not compiled yet, before anybody
waits for it. Commands start it too, with the lock of :mod:`topologies._compile.code_cache`."""

from simulator.kernels.registry import KERNELS
from topologies._compile.code_cache import clear, keep

if __name__ == "__main__":
    clear()
    for number, function in enumerate(KERNELS, 1):
        keep(function)
        name = f"{function.__module__}.{function.__name__}"
        print(f"{name}: {number} of {len(KERNELS)}", flush=True)  # noqa: T201
