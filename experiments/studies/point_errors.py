"""Errors of single points: their reasons, and those of NCCL's own model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from experiments.calibration import nccl_comparison
from experiments.calibration.held_out import LeftOut
from experiments.calibration.observations import FitCurve, FitPoints
from topologies.topology import Flags, Floats

STEP = 4.0
"""A step takes so many times as long, for at most so many times the size."""
LEAST = 3
"""So many points of a curve show that it is off as a whole."""
SHARE = 0.5
"""A reason explains at least this share of an error."""


def curve_of(
    points: FitPoints, lefts: tuple[LeftOut, ...], number: int
) -> tuple[pd.DataFrame, list[int]]:
    """A measured curve by its number, in ascending sizes, and the numbers of its points.

    Columns: `size`, `seconds`, `off`, log(measured / predicted) where the fitted model had left the
    size out, else nan, and the `algorithm` that the fit says ran.
    """
    table = pd.DataFrame({"size": points.size, "seconds": points.seconds})
    table = table.assign(off=np.nan, algorithm="")
    for left in lefts:
        table.loc[left.fold, "off"] = left.off
        table.loc[left.fold, "algorithm"] = left.where.algorithm
    curve = table[points.curve == number].sort_values("size")
    return curve, curve.index.tolist()


def reason(curve: pd.DataFrame, place: int) -> str:
    """Reasons of the error of a point at `place`, in words. Empty if there is none.

    >>> times = {"size": [1e3, 2e3, 4e3], "seconds": [1e-5, 9e-5, 2e-5], "off": [0, 1.9, 0]}
    >>> bump = pd.DataFrame({**times, "algorithm": "ring"})
    >>> reason(bump, 1).split("; ")[:2]
    ['a bump: 6.4 times the time between its neighbours', 'a step: 9.0 times the size before']
    """
    return "; ".join(_reasons(curve, place))


def _reasons(curve: pd.DataFrame, place: int) -> Iterator[str]:
    size, seconds, off, algorithm = (curve[name].to_numpy() for name in curve)
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


def matched(curve: FitCurve, generation: str) -> float:
    """The bandwidth in bytes/s with which the model is right at the curve's largest size, or
    nearest to it."""
    largest = curve.at(curve.sizes == curve.sizes.max())
    low, high = 1e6, 1e13
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        slow = nccl_comparison.predict(largest, generation, middle)[0] > largest.seconds[0]
        low, high = (middle, high) if slow else (low, middle)
    return high


def held_out_by_nccl(points: FitPoints, generation: Mapping[str, str], protocol: str) -> Floats:
    """Errors |log(predicted / measured)| of points left out, shape (points,).

    An error is nan if a point is not left out, or NCCL has no model. Bandwidths come from the
    largest sizes that are kept:

    - "sizes" and "plateau": of the same curve;
    - "ranks": of the curve with the same label on the most ranks that are kept.
    """
    errors = np.full(len(points), np.nan)
    for c, curve in enumerate(points.curves):
        places = np.flatnonzero(points.curve == c)
        if gpu := generation.get(curve.name):
            for left, kept in _left(points, curve, protocol):
                seconds = nccl_comparison.predict(curve.at(left), gpu, matched(kept, gpu))
                errors[places[left]] = np.abs(np.log(seconds / curve.seconds[left]))
    return errors


def _left(points: FitPoints, curve: FitCurve, protocol: str) -> Iterator[tuple[Flags, FitCurve]]:
    """The sizes of a curve that are left out together, and the curve that has their bandwidth."""
    largest, most = curve.sizes == curve.sizes.max(), points.ranks.max()
    if protocol == "ranks":
        alike = [peer for peer in points.curves if peer.label == curve.label and peer.ranks < most]
        if alike and curve.ranks == most:
            yield np.ones_like(largest), max(alike, key=lambda peer: peer.ranks)
    elif len(curve.sizes) > 1:
        yield largest, curve.at(~largest)
        if protocol == "sizes":
            yield ~largest, curve
