"""Compares measurements of the same thing: which set-up is slower, where, and how much."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.diagnosis.curve_columns import CurveColumns, curve_columns
from experiments.diagnosis.shape import runs
from experiments.measurements import UNKNOWN, Curve
from experiments.measurements.curve import COLLECTIVE
from experiments.measurements.setups import labels
from experiments.output import counted
from topologies.topology import Floats
from topologies.units import format_bytes

NOISE_FACTOR = 1.25
"""Times of the same size that differ by less are alike: 99 in 100 sizes measured twice are
nearer."""
CONSECUTIVE_SIZES = 3
"""So many sizes in a row must differ: one or two are noise."""


@dataclass(frozen=True)
class Difference:
    """One set-up is slower than another."""

    slower: Curve
    """The slower curve."""
    faster: Curve
    """The fastest curve of the same thing."""
    factor: float
    """How many times as long it takes: the geometric mean over common sizes."""
    ranges: tuple[tuple[float, float, float], ...]
    """First size, last size (bytes) and median factor of each range that is slower beyond noise."""

    @property
    def text(self) -> str:
        """The difference in words."""
        where = ", ".join(
            f"{factor:.3g} times at {_span(low, high)}" for low, high, factor in self.ranges
        )
        slow, fast = labels(self.slower, self.faster)
        return f"{_subject(self.slower)}: {slow} is slower than {fast}: {where}"


def compare(curves: Sequence[Curve]) -> tuple[Difference, ...]:
    """Each set-up that is slower than the fastest one of the same machine, collective, ranks and
    algorithm.

    These curves are not compared:

    - curves without a collective or ranks,
    - curves of a process that ran as a job of its own,
    - tables of one log that names no hosts: they may be of several machines.
    """
    groups: dict[tuple[object, ...], list[Curve]] = {}
    for curve in curves:
        if curve.points and curve.ranks and curve.collective != UNKNOWN and not curve.alone:
            groups.setdefault(same(curve), []).append(curve)
    comparable = (_of_one_machine(group) for group in groups.values())
    return tuple(pair for group in comparable if len(group) > 1 for pair in _slower(group))


def same(curve: Curve) -> tuple[object, ...]:
    """What two curves of the same thing on the same machine have in common."""
    software = curve.library, curve.algorithm, curve.protocol, curve.dtype
    return (
        curve.collective,
        curve.kind,
        curve.ranks,
        curve.nodes,
        *software,
        *machine(curve),
        curve.label,
    )


def machine(curve: Curve) -> tuple[object, ...]:
    """What two curves of one machine have in common. Of a host, the first word counts."""
    clusters = {word[0] for host in curve.hosts if (word := re.search("[A-Za-z]+", host))}
    series = curve.family or (curve.machine, curve.topology)
    return series, curve.device, curve.backend, *sorted(clusters)


def _of_one_machine(group: Sequence[Curve]) -> list[Curve]:
    """Without tables of one log that may be of several machines."""
    tables = Counter(curve.log for curve in group if curve.log)
    return [curve for curve in group if curve.hosts or tables[curve.log] < 2]


def _slower(group: Sequence[Curve]) -> Iterator[Difference]:
    group_columns = [curve_columns(curve) for curve in group]
    shared = sorted(set.intersection(*(set(columns.size.tolist()) for columns in group_columns)))
    if len(shared) < CONSECUTIVE_SIZES:
        return
    sizes = np.array(shared)
    times = np.array([np.log(_at(columns, sizes)) for columns in group_columns])
    best = int(np.argmin(times.mean(axis=1)))
    for k, curve in enumerate(group):
        ranges = tuple(_ranges(sizes, times[k] - times[best])) if k != best else ()
        if ranges:
            yield Difference(
                curve, group[best], float(np.exp((times[k] - times[best]).mean())), ranges
            )


def _at(columns: CurveColumns, sizes: Floats) -> Floats:
    return np.asarray(columns.seconds[np.searchsorted(columns.size, sizes)])


def _ranges(sizes: Floats, slower: Floats) -> Iterator[tuple[float, float, float]]:
    for run in runs(slower > np.log(NOISE_FACTOR)):
        if len(run) >= CONSECUTIVE_SIZES:
            yield float(sizes[run[0]]), float(sizes[run[-1]]), float(np.exp(np.median(slower[run])))


def _span(low: float, high: float) -> str:
    return f"{format_bytes(low)} to {format_bytes(high)}"


def _subject(curve: Curve) -> str:
    kind = "" if curve.kind == COLLECTIVE else f", {curve.kind}"
    ranks = f", {counted(curve.ranks, 'rank')}" if curve.ranks else ""
    return f"{curve.collective}{kind}{ranks}"
