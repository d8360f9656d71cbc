"""Kernels compiled by Numba, and the folder of its cache: imported when a process loads them."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numba
import numpy as np
import platformdirs
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name
from numba.core.runtime import rtsys

from topologies.errors import InputError
from topologies.jit import Kernel

logger = logging.getLogger("simctl")


def compiled(function: Kernel) -> Kernel:
    """The compiled form of a kernel, for what its annotations say: a call with another type raises
    TypeError."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder())
    try:
        code = numba.njit(cache=_is_usable(), no_cfunc_wrapper=True)(_linked(function))
    finally:
        numba.config.CACHE_DIR = before

    def load(signature: Any, target: Any) -> Any:
        rtsys.initialize(target)
        return code._cache._load_overload(signature, target)

    if _is_usable():
        # Numba imports its whole compiler before it looks into its cache, which takes longer than
        # all else. Compiled code needs the runtime for arrays alone.
        code._cache.load_overload = load
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    code.compile(tuple(numba.typeof(_sample(hint)) for hint in hints.values()))
    code.disable_compile()
    return code  # type: ignore[no-any-return]


def _linked(function: Kernel) -> Kernel:
    scope, package = dict(function.__globals__), function.__module__.rpartition(".")[0]
    for name in function.__code__.co_names:
        called = scope.get(name)
        if isinstance(called, FunctionType) and called.__module__.rpartition(".")[0] == package:
            scope[name] = _part(called)
    return FunctionType(function.__code__, scope, function.__name__)


@cache
def _part(function: Kernel) -> Kernel:
    """A function that kernels call. It borrows its arrays: to count references to every array of a
    record (`_nrt`) would take 20 times as long as all else."""
    jit = numba.njit(_nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    return jit(_linked(function))  # type: ignore[no-any-return]


def _sample(hint: Any) -> Any:
    origin, of = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _sample(of[0]).reshape((0,) * of[1])
    if origin is np.ndarray:
        return np.zeros(0, get_args(of[1])[0])
    if origin is tuple:
        return tuple(map(_sample, of))
    if hasattr(hint, "_fields"):
        return hint(*map(_sample, get_type_hints(hint, include_extras=True).values()))
    return 0 if int in of else hint()


def is_complete() -> bool:
    """Whether all kernels are compiled. If not, a process beside this one begins with it, unless
    one is at it or that is switched off."""
    if not _is_usable() or (folder() / "complete").exists():
        return _is_usable()
    choice = os.environ.get("SIMCTL_COMPILE") or ("needed" if os.environ.get("CI") else "all")
    if choice not in ("all", "needed"):
        raise InputError(f"SIMCTL_COMPILE is {choice[:40]!r}: it is all or needed")
    if choice == "all" and _is_first(folder() / "lock"):
        logger.info("compiling for this machine, once: about 20 s")
        line = [sys.executable, "-P", "-m", "simulator.kernels"]
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with (folder() / "log").open("wb") as log:
            subprocess.Popen(
                line,
                env=os.environ | path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
    return False


def _is_first(lock: Path) -> bool:
    """Whether this process makes the lock. After five minutes its owner has been killed."""
    if lock.exists() and time.time() - lock.stat().st_mtime > 300:
        lock.unlink(missing_ok=True)
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def compile_all(kernels: Sequence[Kernel]) -> None:
    """Compile kernels, two at a time, and remove code that was not used for a month."""
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_compile, kernels))
    (folder() / "complete").touch()
    for used in folder().parent.glob("compiled-*/writable"):
        if time.time() - used.stat().st_mtime > 30 * 86400:
            shutil.rmtree(used.parent, ignore_errors=True)


def _compile(function: Kernel) -> None:
    compiled(function)


@cache
def folder() -> Path:
    """Where compiled code for these kernels, versions and CPU is kept: in `$SIMCTL_CACHE_DIR`, else
    in the user's cache folder.

    Numba looks at the file of a kernel for changes, not at those of the functions that it calls.
    """
    # Numba does not load code of files that were moved or written anew.
    files = [
        (str(file), file.stat().st_mtime, file.read_bytes())
        for pattern in ("topologies/*kernels.py", "topologies/comp*.py", "simulator/kernels/*.py")
        for file in sorted(Path(__file__).parents[1].glob(pattern))
    ]
    cpu = get_host_cpu_name(), get_host_cpu_features().flatten()
    key = sha256(repr((files, numba.__version__, sys.version, cpu)).encode()).hexdigest()
    root = os.environ.get("SIMCTL_CACHE_DIR") or platformdirs.user_cache_dir("simctl", False)
    return Path(root).expanduser().absolute() / f"compiled-{key[:16]}"


@cache
def _is_usable() -> bool:
    """Whether code can be kept in the folder; else a warning says so. What another user can write
    is not run."""
    try:
        folder().mkdir(0o700, parents=True, exist_ok=True)
        state = folder().lstat()
        if os.name == "posix" and (state.st_uid != os.geteuid() or state.st_mode & 0o022):
            raise PermissionError(f"another user can write {str(folder())!r}")
        (folder() / "writable").touch()
    except OSError as error:
        problem = f"compiled code is not cached: {error} (set SIMCTL_CACHE_DIR)"
        warnings.warn(problem, RuntimeWarning, stacklevel=4)
        return False
    return True
