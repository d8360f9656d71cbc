"""Measured curves that a sweep can be compared with."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import log2
from pathlib import Path
from typing import NamedTuple

from experiments.measurements import UNKNOWN, Curve, Point, read
from experiments.measurements.curve import COLLECTIVE
from simulator.collectives import Collective
from topologies.errors import InputError
from topologies.units import format_bytes


class MeasuredCurve(NamedTuple):
    """The measured times of a collective on some ranks."""

    name: str
    """The file, as a legend shows it."""
    ranks: int
    busbw: float
    """The factor from algbw to busbw."""
    points: tuple[Point, ...]
    """By ascending size."""
    algorithm: str = ""
    """The algorithm that was forced, if the file says so."""


def measured_curves(
    log: Path, collectives: Collection[Collective], ranks: Collection[int], sizes: Collection[float]
) -> tuple[list[MeasuredCurve], list[str]]:
    """The curves of a log that are within a sweep, and the other curves in words.

    Raises InputError if no curve is of one of the collectives, numbers of ranks and sizes.
    """
    of_file = [curve for curve in read(log).curves if curve.kind == COLLECTIVE and curve.ranks]
    if not of_file:
        raise InputError(f"--measured {log}: no curve of a collective that says how many ranks")
    known = {collective.name: collective for collective in collectives}
    if len(known) == 1:
        known[UNKNOWN] = next(iter(known.values()))
    low, high = min(sizes), max(sizes)
    names = {name for name in known if name != UNKNOWN}
    curves = [curve for curve in of_file if curve.collective in known]
    _check(log, of_file, curves, f"{_few(names)}: choose with --algo")
    of_ranks = [curve for curve in curves if curve.ranks in ranks]
    _check(log, curves, of_ranks, f"{_few(map(str, sorted(ranks)))} ranks: choose with --p")
    fitting = [curve for curve in of_ranks if _within(curve, low, high)]
    if not fitting:
        sizes = {point.size for curve in of_ranks for point in curve.points or curve.in_place}
        near = min(sizes, key=lambda size: abs(log2(size / low))) if sizes else low
        raise InputError(
            f"--measured {log}: no point of {_span(low, high)}, the nearest is "
            f"{format_bytes(near)}: choose with --size"
        )
    chosen = [
        MeasuredCurve(
            Path(curve.source).name,
            curve.ranks or 0,
            known[curve.collective].busbw(curve.ranks or 0),
            _within(curve, low, high),
            curve.algorithm,
        )
        for curve in fitting
    ]
    return chosen, [_words(curve) for curve in of_file if curve not in fitting]


def _check(log: Path, before: Iterable[Curve], after: list[Curve], swept: str) -> None:
    if not after:
        raise InputError(f"--measured {log}: it has {_few(map(_words, before))}; not {swept}")


def _within(curve: Curve, low: float, high: float) -> tuple[Point, ...]:
    return tuple(point for point in curve.points or curve.in_place if low <= point.size <= high)


def _words(curve: Curve) -> str:
    points = curve.points or curve.in_place
    sizes = f", {_span(points[0].size, points[-1].size)}" if points else ""
    return f"{curve.collective} of {curve.ranks} ranks{sizes}"


def _span(low: float, high: float) -> str:
    return " to ".join(dict.fromkeys(map(format_bytes, (low, high))))


def _few(names: Iterable[str]) -> str:
    """Up to four of the names."""
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:4]) + (" ..." if len(listed) > 4 else "")
