"""Algorithms in files: Python functions of a user, and programs for other tools."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

from simulator.collectives import Algorithm, Collective, algorithms
from simulator.cost_models import CostModel
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import Schedule
from topologies.errors import InputError, naming, nearest_name
from topologies.readers.contents import contents, decoded

MOST_PIECES = 1024
"""Pieces of a chunk."""
LIMIT = 16 * 2**20
"""Bytes of a file, at most. The largest published programs have 1.4 MB."""
SUFFIXES = (".py", ".xml", ".json", ".goal")
"""The endings of files with algorithms."""


def read_algorithm(text: str) -> Algorithm:
    """The algorithm in FILE, or the one that is called NAME in FILE:NAME.

    Raises InputError with the place if the file cannot be read, or has no such algorithm.
    """
    path, content = contents_of(text)
    return algorithm_in(content, str(path), _place(text)[1])


def contents_of(text: str) -> tuple[Path, bytes]:
    """The file in FILE or FILE:NAME, and its bytes. Raises InputError if it cannot be read."""
    path, _ = _place(text)
    larger = f"{path.name} has more than {LIMIT} bytes: no algorithm is larger"
    return path, contents(path, LIMIT, larger)


@lru_cache(maxsize=16)
def algorithm_in(content: bytes, path: str, name: str) -> Algorithm:
    """The algorithm in a file with this content, which another process may not have."""
    known = _read(content, path, name)
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
    path, colon, name = text.rpartition(":")
    if colon and Path(path).suffix.lower() in SUFFIXES:
        return Path(path), name
    return Path(text), ""


def _read(content: bytes, path: str, option: str) -> dict[str, Algorithm]:
    """The algorithms of a file, by name. A file with one algorithm may have an option."""
    name, suffix = Path(path).name, Path(path).suffix.lower()
    if suffix == ".py":
        from experiments.algorithm_files.python_file import read_python

        return read_python(content, path)
    if suffix == ".xml":
        from experiments.algorithm_files import msccl_lowering, msccl_program

        msccl = msccl_program.read_program(decoded(content, name), name)
        with naming(name):
            read = msccl_lowering.algorithm_of(msccl, _count(option, "loops"))
        return {option: _placed(read, name)}
    if suffix == ".json":
        from experiments.algorithm_files import mscclpp, mscclpp_plan

        with naming(name):
            plan = mscclpp_plan.read_plan(decoded(content, name), "plan")
            algorithm = mscclpp.algorithm_of(plan)
        return {"": _placed(algorithm, name)}
    if suffix == ".goal":
        from experiments.algorithm_files import goal

        program = goal.read_goal(decoded(content, name), name)
        with naming(name):
            return {option: goal.algorithm_of(program, name, option)}
    raise InputError(f"{path}: an algorithm's file ends in {', '.join(SUFFIXES)}")


def _count(option: str, key: str) -> int:
    """The number of an option like loops=4; 1 without an option."""
    name, _, value = option.partition("=")
    if option and (name != key or not value.isdecimal() or not 1 <= int(value[:6]) <= MOST_PIECES):
        raise InputError(f"option {option[:80]!r}: write {key}=4, from 1 to {MOST_PIECES}")
    return int(value[:6]) if option else 1


def _placed(algorithm: Algorithm, name: str) -> Algorithm:
    def schedule(ranks: int, nbytes: float) -> Schedule:
        with naming(name):
            return algorithm.schedule(ranks, nbytes)

    return replace(algorithm, schedule=schedule)


def free_name(name: str, ending: str) -> str:
    """A name that no algorithm of simctl has, and that may stand in a list.

    >>> free_name("ring", "xml"), free_name("my ring: 2", "xml")
    ('ring.xml', 'my_ring__2')
    """
    plain = re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII)[:63] or ending
    return f"{plain}.{ending}" if plain in algorithms() else plain


def of_file(
    name: str,
    collective: Collective,
    write: Callable[[], Schedule],
    summary: str,
    ranks: int,
    cost: CostModel = NO_FORMULA,
) -> Algorithm:
    """The algorithm of a file for its number of ranks. The schedule is written once, and scaled."""
    whole = cache(write)

    def schedule(workers: int, nbytes: float) -> Schedule:
        return whole().scaled(nbytes)

    return Algorithm(
        name, collective, schedule, cost, summary, defined=lambda workers: workers == ranks
    )
