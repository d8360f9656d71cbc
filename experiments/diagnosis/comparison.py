"""Two or more measurements of the same thing: which set-up is slower, at which sizes, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.diagnosis.samples import Samples, samples
from experiments.diagnosis.shape import runs
from experiments.measurements import Curve
from experiments.measurements.setups import labels, noted
from experiments.output import counted
from topologies.topology import Floats
from topologies.units import format_bytes

BEYOND = 1.25
"""Times of the same size that differ by less are alike: 99 in 100 sizes measured twice are nearer."""
CONSECUTIVE = 3
"""So many sizes in a row must differ: one or two are noise."""


@dataclass(frozen=True)
class Difference:
    """`slower` takes `factor` times as long as `faster` in the geometric mean over all common sizes. `ranges` are the
    sizes in bytes, first and last, at which it is slower beyond noise, with the median factor there."""

    slower: Curve
    faster: Curve
    factor: float
    ranges: tuple[tuple[float, float, float], ...]

    @property
    def text(self) -> str:
        """The difference in words."""
        where = ", ".join(f"{factor:.3g} times at {_span(low, high)}" for low, high, factor in self.ranges)
        slow, fast = labels(self.slower, self.faster)
        return f"{_subject(self.slower)}: {slow} is slower than {fast}: {where}"


def compare(curves: Sequence[Curve]) -> tuple[Difference, ...]:
    """Each set-up that is slower than the fastest one of the same machine, collective, ranks and algorithm."""
    groups: dict[tuple[object, ...], list[Curve]] = {}
    for curve in curves:
        if curve.points:
            groups.setdefault(_same(curve), []).append(curve)
    return tuple(found for group in groups.values() if len(group) > 1 for found in _slower(group))


def _same(curve: Curve) -> tuple[object, ...]:
    about = curve.family, curve.device, curve.library, curve.algorithm, curve.protocol, curve.dtype
    return curve.collective, curve.kind, curve.ranks, curve.nodes, *about, *noted(curve)


def _slower(group: Sequence[Curve]) -> Iterator[Difference]:
    columns = [samples(curve) for curve in group]
    shared = sorted(set.intersection(*(set(one.size.tolist()) for one in columns)))
    if len(shared) < CONSECUTIVE:
        return
    sizes = np.array(shared)
    times = np.array([np.log(_at(one, sizes)) for one in columns])
    best = int(np.argmin(times.mean(axis=1)))
    for k, curve in enumerate(group):
        ranges = tuple(_ranges(sizes, times[k] - times[best])) if k != best else ()
        if ranges:
            yield Difference(curve, group[best], float(np.exp((times[k] - times[best]).mean())), ranges)


def _at(one: Samples, sizes: Floats) -> Floats:
    return np.asarray(one.seconds[np.searchsorted(one.size, sizes)])


def _ranges(sizes: Floats, slower: Floats) -> Iterator[tuple[float, float, float]]:
    for run in runs(slower > np.log(BEYOND)):
        if len(run) >= CONSECUTIVE:
            yield float(sizes[run[0]]), float(sizes[run[-1]]), float(np.exp(np.median(slower[run])))


def _span(low: float, high: float) -> str:
    return f"{format_bytes(low)} to {format_bytes(high)}"


def _subject(curve: Curve) -> str:
    return f"{curve.collective}, {counted(curve.ranks, 'rank')}" if curve.ranks else curve.collective
