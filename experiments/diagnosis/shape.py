"""A healthy curve: time does not fall as size grows, and bandwidth does not fall for long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.diagnosis.findings import (
    ATTACHED,
    BANDWIDTH_SHARE,
    BOTH_SIDES,
    FALLS,
    LOST_BANDWIDTH,
    ONE_SIDE,
)
from experiments.measurements import Curve, Point
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Longs

NOISE = 0.02
"""Relative noise of a mean over iterations where nothing is known of it: in place and out of place,
healthy logs of nccl-tests differ by 0.5% to 3.5% (the medians of 40 curves)."""


@dataclass(frozen=True)
class CurveColumns:
    """The points of a curve by ascending size, as columns of shape (points,)."""

    size: Floats
    """Bytes."""
    seconds: Floats
    noise: Floats
    wrong: Flags
    in_place: Floats
    """Seconds of the same size in place; NaN if not measured."""
    host: bool

    @property
    def rate(self) -> Floats:
        """algbw in bytes/s."""
        return self.size / self.seconds


def curve_columns(curve: Curve) -> CurveColumns:
    """The columns of a curve: its points out of place, or those in place if it has no others.

    A barrier's size of 0 bytes is counted as 1. One rank copies out of place and does nothing in
    place, so its times in place are not compared. Raises InputError for a curve without a point.
    """
    points = curve.points or curve.in_place
    if not points:
        raise InputError(f"{curve.source}: no times to judge")
    comparable = curve.points and curve.ranks != 1
    in_place = {point.size: point.time_s for point in curve.in_place} if comparable else {}
    return CurveColumns(
        np.array([max(point.size, 1) for point in points], dtype=float),
        np.array([point.time_s for point in points]),
        np.array([_noise(point) for point in points]),
        np.array([bool(point.wrong) for point in points]),
        np.array([in_place.get(point.size, np.nan) for point in points]),
        curve.on_host,
    )


def _noise(point: Point) -> float:
    # the most noise that excuses a point: a measurement that varies by more says nothing, and that
    # is worth a word
    return min(max(NOISE, point.cv or 0.0), 0.25)


NEAR_SIZES = 8.0
"""How many times larger the size after a run may be than the size before it, unless time falls
inside. Over more, a slower algorithm of the library's own choice looks like a run, too."""


def limit(columns: CurveColumns) -> Floats:
    """The most that the logarithm of a healthy time is off, shape (points,).

    Noise beyond the usual counts twice.
    """
    return np.asarray(np.log(BOTH_SIDES) + 2 * (columns.noise - NOISE))


def descents(columns: CurveColumns) -> Floats:
    """log of time over the least time of a larger message, shape (points,); 0 for the largest."""
    least = np.minimum.accumulate(columns.seconds[::-1])[::-1]
    return np.append(np.log(columns.seconds[:-1] / least[1:]), 0.0)


def excesses(columns: CurveColumns, allowed: Floats) -> Floats:
    """log of time over what both sides of a run of sizes allow, shape (points,), 0 for points that
    are in no such run.

    `allowed` is the logarithm by which a time may be off, shape (points,). A run is slow if each of
    its sizes takes longer than all three of these say:

    - the trend on its left (over one step or two, what allows more),
    - the trend on its right; a protocol that starts slow follows this one,
    - the straight line between its sides; the knee of one α and β follows this one.
    """
    x, y = np.log(columns.size), np.log(columns.seconds)
    excess = np.zeros(len(x))
    jumps_up = np.flatnonzero(np.diff(y) > allowed[1:]) + 1
    for first, last in _windows(
        x, jumps_up[jumps_up < len(x) - 1], descents(columns) > np.log(FALLS)
    ):
        run = np.arange(first, last + 1)
        over = y[run] - _allowed(x, y, run)
        if (over > allowed[run]).all():
            excess[run] = np.maximum(excess[run], over)
    return excess


def _windows(x: Floats, starts: Longs, falls: Flags) -> Iterator[tuple[int, int]]:
    """First and last place of each run from `starts`: its sides are near enough, or time falls."""
    for first in starts.tolist():
        # no run has more sizes than these
        for last in range(first, min(first + 12, len(x) - 1)):
            if (
                x[last + 1] - x[first - 1] < np.log(NEAR_SIZES) + 0.01
                or falls[first : last + 1].any()
            ):
                yield first, last


def _allowed(x: Floats, y: Floats, run: Longs) -> Floats:
    left, right = int(run[0]) - 1, int(run[-1]) + 1
    slope_before = max(
        (_slope(x, y, start, left) for start in range(max(left - 2, 0), left)), default=1.0
    )
    slope_after = min(
        (_slope(x, y, right, end) for end in range(right + 1, min(right + 3, len(x)))), default=0.0
    )
    share = (np.exp(x[run]) - np.exp(x[left])) / (np.exp(x[right]) - np.exp(x[left]))
    chord = np.log(np.exp(y[left]) + share * max(np.exp(y[right]) - np.exp(y[left]), 0.0))
    trends = (
        y[left] + slope_before * (x[run] - x[left]),
        y[right] - slope_after * (x[right] - x[run]),
    )
    return np.asarray(np.maximum(np.maximum(*trends), chord))


def _slope(x: Floats, y: Floats, start: int, end: int) -> float:
    """d log T / d log V between two points, within what is healthy: from 0 to 1."""
    return float(np.clip((y[end] - y[start]) / (x[end] - x[start]), 0.0, 1.0))


def slow_runs(columns: CurveColumns) -> list[Longs]:
    """The runs of sizes that take longer than larger sizes, or than both sides allow.

    Neighbours that are slow by ATTACHED belong to a run.
    """
    allowed = limit(columns)
    down, over = descents(columns), excesses(columns, allowed)
    slow = (down > allowed) | (over > 0)
    near = slow | (down > np.log(ATTACHED))
    return [run for run in runs(near) if slow[run].any()]


def steps(columns: CurveColumns, factor: float) -> Flags:
    """Whether each size has a step of `factor`, shape (points,).

    A step: it takes that many times as long as a larger size, as both sides allow, or as the
    bandwidth of smaller sizes says.
    """
    over = excesses(columns, np.full(len(columns.size), np.log(factor)))
    return np.asarray(
        (descents(columns) > np.log(factor)) | (over > 0) | (losses(columns) > factor)
    )


def runs(marked: Flags) -> list[Longs]:
    """The places of consecutive marked points."""
    places = np.flatnonzero(marked)
    return np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else []


def fallen(columns: CurveColumns) -> tuple[Longs, float]:
    """The largest sizes at which bandwidth stays a factor of BOTH_SIDES below the best of smaller
    ones, and the factor at the last of them."""
    lost = losses(columns)
    low = lost > BOTH_SIDES
    start = len(low) - int(np.argmin(low[::-1])) if not low.all() else 0
    return np.arange(start, len(low)), float(lost[-1])


def losses(columns: CurveColumns) -> Floats:
    """The best bandwidth of smaller sizes, or of the same one, over that of each size, shape
    (points,)."""
    return np.asarray(np.maximum.accumulate(columns.rate) / columns.rate)


def sunken(columns: CurveColumns) -> list[Longs]:
    """The runs of sizes with less bandwidth, against smaller sizes, than a healthy protocol has."""
    lost, best = losses(columns), np.maximum.accumulate(columns.rate)
    matters = (best >= BANDWIDTH_SHARE * columns.rate.max()) & (not columns.host)
    allowed = np.where(matters, ONE_SIDE, LOST_BANDWIDTH) * np.exp(2 * (columns.noise - NOISE))
    return [run for run in runs(lost > BOTH_SIDES) if (lost[run] > allowed[run]).any()]


def drops(columns: CurveColumns) -> Longs:
    """The sizes of `fallen`, if there are two of them, or a single one that is off by ONE_SIDE.

    On the host, caches and the allocator lower bandwidth, too: there bandwidth must fall by
    ONE_SIDE within a doubling of size.
    """
    places, factor = fallen(columns)
    if columns.host:
        steep = np.log(columns.rate[:-1] / columns.rate[1:]) > np.log(ONE_SIDE)
        sudden = steep & (columns.size[1:] < 2.1 * columns.size[:-1])
        return places if np.isin(np.flatnonzero(sudden) + 1, places).any() else places[:0]
    return places if len(places) > 1 or factor > ONE_SIDE else places[:0]


def jumps(columns: CurveColumns) -> Longs:
    """The sizes at which time grows BOTH_SIDES times as much as size does."""
    steps = np.diff(np.log(columns.seconds)) - np.diff(np.log(columns.size))
    return np.flatnonzero(steps > np.log(BOTH_SIDES)) + 1
