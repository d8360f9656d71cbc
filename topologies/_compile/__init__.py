"""Kernels as they are, or compiled: where loading compiled code pays, and where it is there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

Kernel = Callable[..., Any]


CROSSOVER = 6_000
"""Operations through kernels after which a process loads compiled code: `python -m
experiments.studies crossover`."""
PATIENCE = 1_000_000
"""Operations through kernels after which a process waits for code that is not compiled yet."""

_work = [0]


def kernel(function: Kernel, operations: int) -> Kernel:
    """`function` itself while a process has little to do, its compiled form from then on. The
    results are the same."""
    return compiled(function) if pays(operations, function) else function


def pays(operations: int, *functions: Kernel) -> bool:
    """Whether compiled code is worth loading for `operations` more, after all that this process has
    asked for. Where some of `functions` have never been compiled on this machine, that begins, and
    a little work does not wait for it."""
    _work[0] += operations
    if not is_loaded() and _work[0] <= CROSSOVER:
        return False
    if all(map(_is_ready, functions)):
        return True
    from topologies._compile import code_cache

    code_cache.start()
    return _work[0] > PATIENCE


def is_loaded() -> bool:
    """Whether this process has loaded compiled code."""
    return compiled.cache_info().currsize > 0


def is_compiling() -> bool:
    """Whether a process beside this one compiles kernels."""
    code_cache = sys.modules.get(f"{__name__}.code_cache")
    return code_cache is not None and any(each.poll() is None for each in code_cache._processes)


@cache
def compiled(function: Kernel) -> Kernel:
    """The compiled form of a kernel. It waits until there is one."""
    from topologies._compile import code_cache
    from topologies._compile.native import Native

    result = Native(function, code_cache.code(function))
    _ready.add(function)
    return result


_ready: set[Kernel] = set()


def _is_ready(function: Kernel) -> bool:
    if function in _ready:
        return True
    from topologies._compile import code_cache

    if code_cache.holds(function):
        _ready.add(function)
    return function in _ready
