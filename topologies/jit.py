"""Kernels as they are, or compiled by Numba where that pays. The results are the same."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

Kernel = Callable[..., Any]

CROSSOVER = 30_000
"""Operations through kernels after which a process loads compiled code. Sweeps that are
forced each way take equally long there."""
PATIENCE = 1_000_000
"""Operations through kernels after which a process waits for code that is not compiled yet."""

_work = [0]


def kernel(function: Kernel, operations: int) -> Kernel:
    """`function` itself while a process has little to do, its compiled form from then on."""
    return compiled(function) if pays(operations) else function


def pays(operations: int) -> bool:
    """Whether compiled code is worth loading for `operations` more, after all that this process has
    asked for. If kernels were never compiled, that begins, and a little work does not wait."""
    _work[0] += operations
    if not is_loaded() and _work[0] <= CROSSOVER:
        return False
    return _compilation().is_complete() or _work[0] > PATIENCE


def announce(operations: int) -> None:
    """Say that a process will do so many operations: it need not do the first of them slowly."""
    _work[0] += operations


def is_loaded() -> bool:
    """Whether this process has loaded compiled code."""
    return compiled.cache_info().currsize > 0


@cache
def compiled(function: Kernel) -> Kernel:
    """The compiled form of a kernel. It waits until there is one."""
    return _compilation().compiled(function)  # type: ignore[no-any-return]


@cache
def _compilation() -> ModuleType:
    """The module that imports Numba. Numba makes many objects that stay, so no garbage is looked
    for among them: that would take 0.2 s of CPU."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        from topologies import compilation
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
    return compilation
