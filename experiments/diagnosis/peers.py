"""Steps that most curves share: they are the library's choice, and no sign of a sick machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

from experiments.diagnosis.comparison import machine, same
from experiments.diagnosis.curve_diagnosis import Diagnosis
from experiments.diagnosis.findings import FALLS, SHARED_STEP, Finding, FindingKind
from experiments.diagnosis.shape import steps
from experiments.measurements import Curve

FEWEST_PEERS = 2
"""Peers that must share a step."""
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
    """For each curve, the steps of all curves with the same key."""
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
        if sharing >= FEWEST_PEERS and 2 * sharing > len(peers):
            text = f"{finding.text}; {sharing} of {len(peers)} other curves share it"
            return finding._replace(alarm=False, text=text)
    return finding


def _has(peer: Marks, sizes: set[float]) -> bool:
    """Whether a curve has the step at half of these sizes or more."""
    return 2 * sum(peer[size] for size in sizes) >= len(sizes)
