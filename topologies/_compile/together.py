"""All kernels compiled by two processes, which take them in turn."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from importlib import import_module

from topologies._compile import Kernel
from topologies._compile.code_cache import clear, holds, keep


def compile_all(kernels: Sequence[Kernel]) -> None:
    """Compile the kernels that are missing, in this order. If a process dies, the other does its
    work."""
    missing = [number for number, function in enumerate(kernels) if not holds(function)]
    if not missing:
        return
    gc.disable()  # Numba makes objects that stay: to look for garbage takes a tenth of the time
    clear()
    import_module("topologies._compile.builder")  # for both processes
    numbers, end = os.pipe()
    os.write(end, bytes(missing))
    os.close(end)
    child = os.fork() if hasattr(os, "fork") and os.cpu_count() != 1 else -1
    _compile(kernels, numbers)
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
        for function in kernels:
            keep(function)


def _compile(kernels: Sequence[Kernel], numbers: int) -> None:
    """Compile the kernels whose numbers are the bytes in a pipe."""
    while number := os.read(numbers, 1):
        function = kernels[number[0]]
        keep(function)
        name = f"{function.__module__}.{function.__name__}"
        print(f"{name}: {number[0] + 1} of {len(kernels)}", flush=True)  # noqa: T201
