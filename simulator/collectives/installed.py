"""Algorithms of installed packages, which declare them as entry points `simctl.algorithms`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from simulator.collectives.collective import Algorithm
from topologies.errors import InputError


@cache
def installed_algorithms() -> dict[str, Algorithm]:
    """The algorithms of installed packages, by name.

    An entry point names an algorithm, or several in a list. Raises InputError if it names something
    else, cannot be imported, or has a name that is taken.
    """
    known: dict[str, Algorithm] = {}
    for entry in sorted(entry_points(group="simctl.algorithms")):
        for algorithm in _algorithms(entry):
            _check_name(algorithm.name, known, _place(entry))
            known[algorithm.name] = algorithm
    return known


def _algorithms(entry: EntryPoint) -> list[Algorithm]:
    from simulator.collectives import find

    try:
        value = entry.load()
    except Exception as error:
        line = " ".join(str(error).split())[:200]
        raise InputError(f"{_place(entry)}: {type(error).__name__}: {line}") from None
    several = list(value) if isinstance(value, list | tuple) else [value]
    if not several or not all(isinstance(each, Algorithm) for each in several):
        raise InputError(
            f"{_place(entry)} is no algorithm: put @algorithm(COLLECTIVE) over its function"
        )
    return [replace(each, origin=_place(entry), recipe=(find, (each.name,))) for each in several]


def _check_name(name: str, known: dict[str, Algorithm], place: str) -> None:
    from simulator.collectives import algorithms

    if name in known or name in algorithms():
        raise InputError(f"{place}: another algorithm is called {name!r} already: rename it")


def _place(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "a package"
    return f"{package}'s entry point {entry.name!r}"
