"""Algorithms in files: Python functions of a user, and programs for other tools."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from simulator.collectives import Algorithm
from topologies.errors import InputError, nearest_name
from topologies.readers.contents import contents

LIMIT = 16 * 2**20
"""Bytes of a file, at most. The largest published programs have 1.4 MB."""
SUFFIXES = (".py",)
"""The endings of files with algorithms."""


def read_algorithm(text: str) -> Algorithm:
    """The algorithm in FILE, or the one that is called NAME in FILE:NAME.

    Raises InputError with the place if the file cannot be read, or has no such algorithm.
    """
    path, name = _place(text)
    content = contents(path, LIMIT)
    if len(content) > LIMIT:
        raise InputError(f"{path.name} has more than {LIMIT} bytes: no algorithm is larger")
    return algorithm_in(content, str(path), name)


@lru_cache(maxsize=16)
def algorithm_in(content: bytes, path: str, name: str) -> Algorithm:
    """The algorithm in a file with this content, which another process may not have."""
    known = _read(content, path)
    if not name and len(known) > 1:
        raise InputError(
            f"{path} has {len(known)} algorithms: write {path}:NAME with one of {', '.join(known)}"
        )
    if name and name not in known:
        hint = nearest_name(name, known, f"there are {', '.join(known)}")
        raise InputError(f"{path} has no algorithm {name[:80]!r}: {hint}")
    algorithm = known[name] if name else next(iter(known.values()))
    recipe = algorithm_in, (content, path, name)
    return replace(algorithm, origin=Path(path).name, recipe=recipe)


def _place(text: str) -> tuple[Path, str]:
    """The file and the name in FILE:NAME."""
    path, colon, name = text.rpartition(":")
    if colon and Path(path).suffix.lower() in SUFFIXES:
        return Path(path), name
    return Path(text), ""


def _read(content: bytes, path: str) -> dict[str, Algorithm]:
    from experiments.algorithm_files.python_file import read_python

    suffix = Path(path).suffix.lower()
    if suffix == ".py":
        return read_python(content, path)
    raise InputError(f"{path}: an algorithm's file ends in {', '.join(SUFFIXES)}")
