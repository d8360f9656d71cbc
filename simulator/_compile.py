"""Kernels as they are, or compiled by Numba on first use and cached across processes."""

import os
import warnings
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

CROSSOVER = 30_000
"""Operations above which loading the compiler pays: measured by `python -m experiments.benchmarks crossover`."""

Kernel = Callable[..., Any]


def kernel(function: Kernel, operations: int) -> Kernel:
    """`function` itself for little work, its compiled form for much, or for any once the compiler is loaded."""
    if operations > CROSSOVER or is_loaded():
        return compiled(function)
    return function


def is_loaded() -> bool:
    """Whether a kernel has been compiled in this process: from then on compiling is cheaper than not."""
    return compiled.cache_info().currsize > 0


@cache
def compiled(function: Kernel) -> Kernel:
    """The Numba form of a kernel, from the cache folder where one can be written."""
    import numba

    before = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = str(cache_folder(numba.__version__))
        result: Kernel = numba.njit(cache=True)(function)
    except (RuntimeError, OSError) as error:
        _warn_once(f"compiled code is not cached: {str(error).splitlines()[0]} (set SIMCTL_CACHE_DIR)")
        result = numba.njit(function)
    finally:
        numba.config.CACHE_DIR = before
    return result


def cache_folder(numba_version: str) -> Path:
    """`$SIMCTL_CACHE_DIR`, else the user's cache folder, under a name with our version and Numba's."""
    import platformdirs

    root = os.environ.get("SIMCTL_CACHE_DIR") or platformdirs.user_cache_dir("simctl", appauthor=False)
    return Path(root) / f"simctl-{metadata.version('simctl-collectives')}-numba-{numba_version}"


@cache
def _warn_once(note: str) -> None:
    warnings.warn(note, RuntimeWarning, stacklevel=3)
