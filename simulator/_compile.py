"""Kernels as they are, or compiled by Numba on first use and cached across processes."""

import logging
import os
import warnings
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

logger = logging.getLogger("simctl")
CROSSOVER = 120_000
"""Operations through kernels after which a process loads the compiler: `python -m experiments.benchmarks crossover`."""

Kernel = Callable[..., Any]
_work = [0]


def kernel(function: Kernel, operations: int) -> Kernel:
    """`function` itself while a process has little to do, its compiled form from then on. The results are the same."""
    return compiled(function) if pays(operations) else function


def pays(operations: int) -> bool:
    """Whether compiled code is worth loading for `operations` more, after all that this process has asked for."""
    if is_loaded():
        return True
    _work[0] += operations
    return _work[0] > CROSSOVER


def is_loaded() -> bool:
    """Whether a kernel has been compiled in this process."""
    return compiled.cache_info().currsize > 0


@cache
def compiled(function: Kernel) -> Kernel:
    """The Numba form of a kernel, from the cache folder where one can be written."""
    import numba

    _announce(numba.__version__)
    settings: Any = numba.config
    before = settings.CACHE_DIR
    try:
        settings.CACHE_DIR = str(cache_folder(numba.__version__))
        result: Kernel = numba.njit(cache=True)(function)
    except (RuntimeError, OSError) as error:
        _warn_once(f"compiled code is not cached: {str(error).splitlines()[0]} (set SIMCTL_CACHE_DIR)")
        result = numba.njit(function)
    finally:
        settings.CACHE_DIR = before
    return result


def cache_folder(numba_version: str) -> Path:
    """`$SIMCTL_CACHE_DIR`, else the user's cache folder, under a name with our version and Numba's."""
    import platformdirs

    root = os.environ.get("SIMCTL_CACHE_DIR") or platformdirs.user_cache_dir("simctl", appauthor=False)
    return Path(root) / f"simctl-{metadata.version('simctl-collectives')}-numba-{numba_version}"


@cache
def _announce(numba_version: str) -> None:
    if not any(cache_folder(numba_version).glob("**/*.nbi")):
        logger.info("compiling for this machine, once: up to 20 s")


@cache
def _warn_once(note: str) -> None:
    warnings.warn(note, RuntimeWarning, stacklevel=3)
