"""Algorithms in a user's Python file, whose mistakes are one line with the place in the file."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import lru_cache, wraps
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from simulator.collectives import Algorithm, algorithms
from simulator.schedules.schedule import Schedule
from topologies.errors import InputError

_LONGEST = 200


def read_python(content: bytes, path: str) -> dict[str, Algorithm]:
    """The algorithms of a Python file, by name. The file runs.

    Raises InputError with the place if the file cannot run, or declares no algorithm. So do the
    functions of the algorithms.
    """
    module = ModuleType(f"simctl_{Path(path).stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    with _mistakes_of(path), _folder_of(path):
        exec(_compiled(content, path), vars(module))
    known: dict[str, Algorithm] = {}
    for declared in _declared(module):
        if declared.name in algorithms():
            raise InputError(
                f"{Path(path).name}: an algorithm of simctl is called {declared.name!r}: take "
                f"another name"
            )
        known[declared.name] = _guarded(declared, path)
    if not known:
        example = '@algorithm("all_reduce") over a function of ranks and nbytes'
        raise InputError(f"{Path(path).name} declares no algorithm: put {example}")
    return known


def _declared(module: ModuleType) -> list[Algorithm]:
    """The algorithms that a module names, alone or in lists, but those of simctl."""
    values = [
        each
        for value in vars(module).values()
        for each in (value if isinstance(value, list | tuple) else [value])
        if isinstance(each, Algorithm)
    ]
    return [each for each in values if algorithms().get(each.name) is not each]


def _guarded(algorithm: Algorithm, path: str) -> Algorithm:
    """The algorithm with functions whose mistakes are InputErrors. The latest schedules are
    kept."""

    @lru_cache(maxsize=2)
    def schedule(ranks: int, nbytes: float, *options: Any) -> Schedule:
        with _mistakes_of(path):
            built = algorithm.schedule(ranks, nbytes, *options)
        _check(built, ranks, f"{Path(path).name}: {algorithm.name}")
        return built

    fit = algorithm.fit
    return replace(
        algorithm,
        schedule=schedule,
        fit=None if fit is None else _calling(fit, path),
        defined=_calling(algorithm.defined, path),
        shifts=_calling(algorithm.shifts, path),
        origin=Path(path).name,
    )


def _calling(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        with _mistakes_of(path):
            return function(*arguments)

    return call


def _check(built: object, ranks: int, name: str) -> None:
    if not isinstance(built, Schedule):
        raise InputError(
            f"{name} returned {type(built).__name__} on {ranks} ranks: return builder.build()"
        )
    if built.workers != ranks:
        raise InputError(f"{name} returned a schedule of {built.workers} ranks for {ranks} ranks")


def _compiled(content: bytes, path: str) -> CodeType:
    try:
        return compile(content, path, "exec")
    except ValueError as error:  # so do Pythons before 3.11.4 refuse null bytes
        raise SyntaxError(str(error)) from None


@contextmanager
def _mistakes_of(path: str) -> Iterator[None]:
    """Turn what the file at `path` raises into an InputError: the last line, and the place. What it
    prints goes to stderr."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (KeyboardInterrupt, MemoryError):
        raise
    except SyntaxError as error:
        line = error.lineno or 1
        raise InputError(f"{Path(path).name} line {line}: {_last_line(error)}") from None
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == path
        ]
        place = f" line {lines[-1]}" if lines else ""
        raise InputError(f"{Path(path).name}{place}: {_last_line(error)}") from None


def _last_line(error: BaseException) -> str:
    """The exception as the last line of a traceback shows it."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    words = " ".join(text.split())
    words = words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
    if isinstance(error, InputError):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


@contextmanager
def _folder_of(path: str) -> Iterator[None]:
    """Let the file import others of its folder, as a script does."""
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
