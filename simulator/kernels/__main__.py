"""`python -m simulator.kernels`: compile for this machine what is not compiled yet, before anybody
waits for it. Commands start it too, with the lock of :mod:`topologies._compile.code_cache`."""

from simulator.kernels.registry import KERNELS
from topologies._compile.together import compile_all

if __name__ == "__main__":
    compile_all(KERNELS)
