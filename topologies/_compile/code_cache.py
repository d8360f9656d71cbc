"""Compiled kernels on disk: a file each, named by the contents of its sources, in a folder for
versions of Numba, llvmlite and Python, and a CPU. What others can write is not loaded.

All kernels are compiled together by a process beside the first that needs one. It holds a lock, so
that no other process does the same work. Who needs a kernel waits for its file.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from topologies._compile import Kernel
from topologies._compile.native import Code, numba_folder
from topologies.errors import InputError

if os.name == "posix":
    import fcntl

logger = logging.getLogger("simctl")
PROGRAM = "simulator.kernels"
"""`python -m` this compiles its `KERNELS`, which are all."""
_ROOM = 2**20
"""Bytes for which all compiled kernels have room."""
_WAIT = 0.02
"""Seconds between two looks for a kernel that another process compiles."""


def holds(function: Kernel) -> bool:
    """Whether a kernel is compiled."""
    return _read(_place(function)) is not None


def code(function: Kernel) -> Code:
    """A compiled kernel, once it is there."""
    known = _read(_place(function))
    if known is not None:
        return known
    if not _writable():
        return _build(function)
    start()
    compiled = 0
    while known is None:
        with lock() as is_free:
            if is_free:
                return keep(function)
        count = sum(map(holds, _all()))
        if count > compiled:
            compiled = count
            logger.info("compiled: %d of %d", count, len(_all()))
        # The lock comes free when all kernels are compiled, and this one is there before. No wait
        # of the system ends at a file, so we look again.
        time.sleep(_WAIT)
        known = _read(_place(function))
    return known


def _build(function: Kernel) -> Code:
    from topologies._compile.builder import build

    return build(function)


def keep(function: Kernel) -> Code:
    """A kernel from its file, or compiled and written there."""
    place = _place(function)
    known = _read(place)
    if known is None:
        _announce()
        known = _build(function)
        try:
            if _writable():
                _write(place, known)
        except OSError as error:
            _warn(str(error))
    return known


@cache
def start() -> None:
    """Compile all kernels in a process beside this one, unless that is switched off or somebody is
    at it."""
    if os.name != "posix" or not _beside() or _problem(folder()):
        return
    with lock() as is_free:
        if not is_free:
            return
        import subprocess

        _announce()
        with open(folder() / "log", "w", opener=_private) as log:
            _processes.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", PROGRAM],
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[is_free],  # the lock is free again when both processes let it go
                )
            )


@cache
def _announce() -> None:
    logger.info("compiling for this machine, once: about 10 s")


_processes: list[Any] = []
"""Processes beside this one: they may live longer."""


@contextmanager
def lock() -> Iterator[int]:
    """The lock of the folder, as the number of an open file, or 0 if another process has it.
    Without locks, as on Windows, every process compiles what it needs."""
    if os.name != "posix":
        yield 1
        return
    with open(folder() / "lock", "w", opener=_private) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield 0
            return
        except OSError:  # a network's file system without locks: at worst work is done twice
            pass
        yield file.fileno()


@cache
def _all() -> tuple[Kernel, ...]:
    kernels: tuple[Kernel, ...] = import_module(f"{PROGRAM}.registry").KERNELS
    return kernels


def _beside() -> bool:
    """Whether a process may compile beside this one: `SIMCTL_COMPILE`, else not under CI."""
    choice = os.environ.get("SIMCTL_COMPILE") or ("needed" if os.environ.get("CI") else "all")
    if choice not in ("all", "needed"):
        raise InputError(f"SIMCTL_COMPILE is {choice[:40]!r}: it is all or needed")
    return choice == "all"


# Files.


def clear() -> None:
    """Remove what killed processes left unfinished."""
    for part in folder().glob("part-*"):
        part.unlink(missing_ok=True)


@cache
def folder() -> Path:
    """Where compiled code for these versions and this CPU is kept: in `$SIMCTL_CACHE_DIR`, else in
    the user's cache folder."""
    import llvmlite
    import llvmlite.binding as llvm

    root = os.environ.get("SIMCTL_CACHE_DIR")
    if not root:
        import platformdirs

        root = platformdirs.user_cache_dir("simctl", appauthor=False)
    cpu = (
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )
    name = f"numba-{_numba_version()}-llvmlite-{llvmlite.__version__}"
    return (
        Path(root).expanduser()
        / f"{name}-{sys.implementation.cache_tag}{sys.abiflags}-{_hash(repr(cpu))[:8]}"
    )


def _numba_version() -> str:
    """Read from a file, since Numba and its metadata are slow to import."""
    version = re.search(r'"version": "([^"]+)"', (numba_folder() / "_version.py").read_text())
    if version is None:
        from importlib import metadata

        return metadata.version("numba")
    return version[1]


@cache
def _place(function: Kernel) -> Path:
    """The file of a kernel. Its name has a hash of its sources, and of those that compile it."""
    modules = _with_imports(function.__module__, frozenset())
    compiler = (Path(__file__).with_name(f"{name}.py") for name in ("builder", "layouts"))
    sources = "".join((*map(_source, sorted(modules)), *map(Path.read_text, compiler)))
    name = f"{function.__module__}.{function.__name__}"
    return folder() / f"{name}-{_hash(sources)[:16]}"


def _with_imports(module: str, known: frozenset[str]) -> frozenset[str]:
    """A module, and all that it imports from packages of ours."""
    if module in known:
        return known
    known |= {module}
    top = "|".join({module.partition(".")[0], __name__.partition(".")[0]})
    for other in re.findall(rf"^from ((?:{top})\.\S+) import", _source(module), re.MULTILINE):
        known = _with_imports(other, known)
    return known


@cache
def _source(module: str) -> str:
    return Path(str(sys.modules[module].__file__)).read_text()


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _private(path: str, flags: int) -> int:
    """An `opener` of `open`. Raises PermissionError unless this user alone can write the file, and
    put files into its folder, or folders in the place of those on the way."""
    if os.name != "posix":
        return os.open(path, flags)
    way = Path(path).absolute().parent
    folder = way.resolve()
    # From the top down: what is below a folder that has passed stays as it is.
    for each in (*reversed(way.parents), way, *reversed(folder.parents), folder):
        _check_private(each, each.lstat(), is_above=each != folder)
    file = os.open(folder / Path(path).name, flags | os.O_NOFOLLOW, 0o644)
    try:
        _check_private(path, os.fstat(file))
    except PermissionError:
        os.close(file)
        raise
    return file


def _check_private(path: Path | str, state: os.stat_result, is_above: bool = False) -> None:
    """What is above may also belong to the owner of /. Of a link or a sticky folder the mode says
    nothing there: nobody can rename in /tmp what belongs to others."""
    owners = {os.geteuid(), Path("/").stat().st_uid if is_above else os.geteuid()}
    is_fixed = is_above and (not stat.S_ISDIR(state.st_mode) or state.st_mode & stat.S_ISVTX)
    others = 0 if is_fixed else stat.S_IWGRP | stat.S_IWOTH
    if state.st_uid not in owners or state.st_mode & others:
        raise PermissionError(f"another user can write {str(path)!r}, so it is not loaded")


def _read(place: Path) -> Code | None:
    """The code in a file, or None if the file is missing, damaged or not this user's alone."""
    try:
        with open(place, "rb", opener=_private) as file:
            head, _, content = file.read().partition(b"\n")
        needs, checksum = json.loads(head).values()
    except (OSError, ValueError, AttributeError) as error:
        if isinstance(error, PermissionError):
            _warn(str(error))
        return None
    return Code(tuple(needs), content) if checksum == sha256(content).hexdigest() else None


def _write(place: Path, code: Code) -> None:
    from tempfile import NamedTemporaryFile

    head = {**code._asdict(), "content": sha256(code.content).hexdigest()}
    with NamedTemporaryFile(dir=place.parent, prefix="part-", delete=False) as file:
        file.write(json.dumps(head).encode() + b"\n" + code.content)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(place)


def _writable() -> bool:
    """Whether compiled code can be kept; else a warning says so."""
    problem = _problem(folder())
    if problem:
        _warn(problem)
    return not problem


@cache
def _problem(place: Path) -> str:
    """Why nothing can be kept there: the folder or a file in it is read-only, or the disk is
    full."""
    from tempfile import TemporaryFile

    try:
        for each in (*reversed(place.parents), place):
            each.mkdir(0o755, exist_ok=True)  # whatever the umask
        for name in ("lock", "log"):
            open(place / name, "a", opener=_private).close()
        with TemporaryFile(dir=place) as file:
            file.write(bytes(_ROOM))
    except OSError as error:
        return str(error)
    return ""


@cache
def _warn(problem: str) -> None:
    warnings.warn(
        f"compiled code is not cached: {problem} (set SIMCTL_CACHE_DIR)",
        RuntimeWarning,
        stacklevel=5,
    )
