"""Reasons of the worst errors, from the measured curve and from the fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from experiments.calibration.held_out import LeftOut
from experiments.calibration.observations import FitPoints
from topologies.topology import Floats

STEP = 4.0
"""A step takes so many times as long, for at most so many times the size."""
LEAST = 3
"""So many points of a curve show that it is off as a whole."""
SHARE = 0.5
"""A reason explains at least this share of an error."""


class LeftOutCurve(NamedTuple):
    """The points of a curve, in ascending sizes. Arrays have the shape (points,)."""

    size: Floats
    seconds: Floats
    off: Floats
    """log(measured / predicted) where the size was left out, by the fitted model. nan elsewhere."""
    algorithm: tuple[str, ...]
    """The algorithm that the fit says ran."""


def curve_of(
    points: FitPoints, lefts: tuple[LeftOut, ...], number: int
) -> tuple[LeftOutCurve, list[int]]:
    """A measured curve by its number, and the numbers of its points."""
    off = np.full(len(points), np.nan)
    algorithm = np.full(len(points), "", dtype=object)
    for left in lefts:
        off[left.fold], algorithm[left.fold] = left.off, left.where.algorithm
    mine = np.flatnonzero(points.curve == number)
    mine = mine[np.argsort(points.size[mine])]
    columns = points.size[mine], points.seconds[mine], off[mine], tuple(algorithm[mine].tolist())
    return LeftOutCurve(*columns), mine.tolist()


def reason(curve: LeftOutCurve, place: int) -> str:
    """Reasons of the error of a point at `place`, in words. Empty if there is none.

    >>> size = np.array([1e3, 2e3, 4e3])
    >>> seconds, off = np.array([1e-5, 9e-5, 2e-5]), np.array([0, 1.9, 0])
    >>> bump = LeftOutCurve(size, seconds, off, ("ring",) * 3)
    >>> reason(bump, 1).split("; ")[:2]
    ['a bump: 6.4 times the time between its neighbours', 'a step: 9.0 times the size before']
    """
    return "; ".join(_reasons(curve, place))


def _reasons(curve: LeftOutCurve, place: int) -> Iterator[str]:
    size, seconds, off, algorithm = curve
    last, needed = len(size) - 1, SHARE * abs(off[place])
    if 0 < place < last:
        near = [place - 1, place + 1]
        between = np.exp(np.interp(np.log(size[place]), np.log(size[near]), np.log(seconds[near])))
        bump = np.log(seconds[place] / between)
        if abs(bump) >= needed and bump * off[place] > 0:
            yield f"a bump: {np.exp(bump):.2g} times the time between its neighbours"
    if place and size[place] <= STEP * size[place - 1]:
        ratio = seconds[place] / seconds[place - 1]
        if ratio > STEP:
            yield f"a step: {ratio:.1f} times the size before"
    if place and seconds[place] < seconds[:place].max():
        yield "no longer than a smaller size"
    if place < last and seconds[place] > seconds[place + 1 :].min():
        yield "longer than a larger size"
    if place in (0, last):
        yield f"the end of the curve: its {'largest' if place else 'smallest'} size"
    known = off[~np.isnan(off)]
    middle = float(np.median(known)) if len(known) >= LEAST else 0.0
    if middle * off[place] > 0 and abs(middle) >= needed:
        slower = "slower" if middle > 0 else "faster"
        yield f"the whole curve is {slower}: by {np.exp(abs(middle)) - 1:.0%} in the median"
    for neighbour in (place - 1, place + 1):
        if 0 <= neighbour <= last and algorithm[neighbour] != algorithm[place]:
            yield f"another algorithm: {algorithm[place]}, and {algorithm[neighbour]} nearby"
            break
