"""Curves of the same thing: which set-up is slower, and steps that most curves share."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.diagnosis.curve_diagnosis import Diagnosis
from experiments.diagnosis.findings import FALLS, SHARED_STEP, Finding, FindingKind
from experiments.diagnosis.shape import CurveColumns, curve_columns, runs, steps
from experiments.measurements import UNKNOWN, Curve
from experiments.measurements.curve import COLLECTIVE
from experiments.measurements.curve_checks import labels
from experiments.output import counted
from topologies.topology import Floats
from topologies.units import format_bytes

CONSECUTIVE_SIZES = 3
"""So many sizes in a row must differ: one or two are noise."""


@dataclass(frozen=True)
class Difference:
    """One set-up is slower than another."""

    slower: Curve
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
    # times of the same size that differ by less are alike: 99 in 100 sizes measured twice are
    # nearer
    for run in runs(slower > np.log(1.25)):
        if len(run) >= CONSECUTIVE_SIZES:
            yield float(sizes[run[0]]), float(sizes[run[-1]]), float(np.exp(np.median(slower[run])))


def _span(low: float, high: float) -> str:
    return f"{format_bytes(low)} to {format_bytes(high)}"


def _subject(curve: Curve) -> str:
    kind = "" if curve.kind == COLLECTIVE else f", {curve.kind}"
    ranks = f", {counted(curve.ranks, 'rank')}" if curve.ranks else ""
    return f"{curve.collective}{kind}{ranks}"


Marks = dict[float, bool]
"""Whether time has a step at each size, in bytes."""


def among(results: Sequence[Diagnosis]) -> list[Diagnosis]:
    """The diagnoses, in which an alarm becomes a note if most peers have a step at the same size.

    The step must be below SHARED. Peers are curves of the same thing, or of the same collective, or
    of the same machine.
    """
    curves, marks = (
        [diagnosis.curve for diagnosis in results],
        [_marks(diagnosis) for diagnosis in results],
    )
    groups = [_grouped(list(map(key, curves)), marks) for key in (same, _same_collective, machine)]
    return [_judged(*row) for row in zip(results, marks, zip(*groups, strict=True), strict=True)]


def _same_collective(curve: Curve) -> tuple[object, ...]:
    return curve.collective, *machine(curve)


def _marks(diagnosis: Diagnosis) -> Marks:
    columns = diagnosis.columns
    return dict(zip(columns.size.tolist(), steps(columns, FALLS).tolist(), strict=True))


def _grouped(keys: Sequence[Hashable], marks: Sequence[Marks]) -> list[list[Marks]]:
    groups: dict[Hashable, list[Marks]] = defaultdict(list)
    for key, curve in zip(keys, marks, strict=True):
        groups[key].append(curve)
    return [groups[key] for key in keys]


def _judged(diagnosis: Diagnosis, marks: Marks, groups: Sequence[Sequence[Marks]]) -> Diagnosis:
    findings = (
        _judged_finding(diagnosis, finding, marks, groups) for finding in diagnosis.findings
    )
    return replace(
        diagnosis, findings=tuple(sorted(findings, key=lambda finding: not finding.alarm))
    )


def _judged_finding(
    diagnosis: Diagnosis, finding: Finding, marks: Marks, groups: Sequence[Sequence[Marks]]
) -> Finding:
    """The finding; a note if most curves of a group share it. The curve itself, that of `marks`,
    does not count."""
    if (
        not finding.alarm
        or finding.kind
        not in (
            FindingKind.SLOW_START,
            FindingKind.BUMP,
            FindingKind.PLATEAU_DROPS,
            FindingKind.COSTLY_SWITCH,
        )
        or finding.factor >= SHARED_STEP
    ):
        return finding
    sizes = set(diagnosis.columns.size[list(finding.places)].tolist())
    for group in groups:
        peers = [peer for peer in group if peer is not marks and sizes & peer.keys()]
        sharing = sum(_has(peer, sizes & peer.keys()) for peer in peers)
        if sharing >= 2 and 2 * sharing > len(peers):
            text = f"{finding.text}; {sharing} of {len(peers)} other curves share it"
            return finding._replace(alarm=False, text=text)
    return finding


def _has(peer: Marks, sizes: set[float]) -> bool:
    """Whether a curve has the step at half of these sizes or more."""
    return 2 * sum(peer[size] for size in sizes) >= len(sizes)
