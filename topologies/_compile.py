"""Kernels as they are, or compiled by Numba on first use and cached across processes."""

import logging
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile
from types import FunctionType
from typing import Any

logger = logging.getLogger("simctl")
CROSSOVER = 120_000
"""Operations through kernels after which a process loads the compiler: `python -m
experiments.benchmarks crossover`."""

Kernel = Callable[..., Any]

_work = [0]


def kernel(function: Kernel, operations: int) -> Kernel:
    """`function` itself while a process has little to do, its compiled form from then on. The
    results are the same."""
    return compiled(function) if pays(operations) else function


def pays(operations: int) -> bool:
    """Whether compiled code is worth loading for `operations` more, after all that this process has
    asked for."""
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

    folder = cache_folder(numba.__version__)
    linked = _linked(function)
    if not _writable(folder):
        result: Kernel = numba.njit(linked)
        return result
    _announce(folder)
    settings: Any = numba.config
    before = settings.CACHE_DIR
    try:
        settings.CACHE_DIR = str(folder / _fields(function))
        result = numba.njit(cache=True)(linked)
    finally:
        settings.CACHE_DIR = before
    return result


def _linked(function: Kernel) -> Kernel:
    """The function with the compiled forms of the functions of its file that it calls."""
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        helper = scope.get(name)
        if isinstance(helper, FunctionType) and helper.__module__ == function.__module__:
            scope[name] = _compiled_helper(helper)
    return FunctionType(function.__code__, scope, function.__name__)


@cache
def _compiled_helper(function: Kernel) -> Kernel:
    """Part of the kernels that call it. It borrows its arrays and makes none: counting references
    to every array of a record would take most of the time."""
    import numba

    options: Any = dict.fromkeys(("no_cpython_wrapper", "no_cfunc_wrapper", "forceinline"), True)
    options["_nrt"] = False
    result: Kernel = numba.njit(**options)(_linked(function))
    return result


def _fields(function: Kernel) -> str:
    """A name for the fields of the records that a kernel's file imports, and of the records in the
    same modules.

    Numba identifies records by their classes and the types of their fields. Without this name its
    cache would not notice a field that is moved or renamed.
    """
    modules = {value.__module__ for value in function.__globals__.values() if _is_record(value)}
    fields = [
        (module, name, value._fields)
        for module in sorted(modules)
        for name, value in sorted(vars(sys.modules[module]).items())
        if _is_record(value)
    ]
    return sha256(repr(fields).encode()).hexdigest()[:16]


def _is_record(value: object) -> bool:
    return isinstance(value, type) and hasattr(value, "_fields")


def cache_folder(numba_version: str) -> Path:
    """`$SIMCTL_CACHE_DIR`, else the user's cache folder, under a name with our version and
    Numba's."""
    import platformdirs

    root = os.environ.get("SIMCTL_CACHE_DIR") or platformdirs.user_cache_dir(
        "simctl", appauthor=False
    )
    return (
        Path(root).expanduser()
        / f"simctl-{metadata.version('simctl-collectives')}-numba-{numba_version}"
    )


@cache
def _writable(folder: Path) -> bool:
    """Whether compiled code can be kept there; Numba would put it beside the source instead."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return True
    except OSError as error:
        warnings.warn(
            f"compiled code is not cached: {error} (set SIMCTL_CACHE_DIR)",
            RuntimeWarning,
            stacklevel=4,
        )
        return False


@cache
def _announce(folder: Path) -> None:
    if not any(folder.glob("**/*.nbi")):
        logger.info("compiling for this machine, once: up to 20 s")
