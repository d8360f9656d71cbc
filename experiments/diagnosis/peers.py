"""Steps that most curves share: the library's choice, and no sign of a sick machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from experiments.diagnosis.comparison import machine, same
from experiments.diagnosis.findings import FALLS, SHARED, Finding
from experiments.diagnosis.report import Diagnosis
from experiments.diagnosis.shape import steps
from experiments.measurements import Curve
from topologies.topology import Flags

FEWEST = 2
"""Peers that share a step: one is no majority."""
_STEPS = ("slow start", "bump", "plateau drops", "costly switch")
Group = Callable[[Curve], tuple[object, ...]]


def among(results: Sequence[Diagnosis]) -> list[Diagnosis]:
    """The curves, judged again beside each other: a step below SHARED at a size where most peers have one is a note.

    Peers are curves of the same thing, else of the same collective, else of the same machine.
    """
    marks = [_marks(one) for one in results]
    groups: tuple[Group, ...] = (same, lambda curve: (curve.collective, *machine(curve)), machine)
    return [_judged(one, [_peers(results, marks, k, group) for group in groups]) for k, one in enumerate(results)]


def _marks(one: Diagnosis) -> dict[float, bool]:
    """Whether time has a step at each size, in bytes."""
    found: Flags = steps(one.samples, FALLS)
    return dict(zip(one.samples.size.tolist(), found.tolist(), strict=True))


def _peers(
    results: Sequence[Diagnosis], marks: Sequence[dict[float, bool]], own: int, group: Group
) -> list[dict[float, bool]]:
    """The steps of the other curves of a curve's group."""
    key = group(results[own].curve)
    return [found for k, found in enumerate(marks) if k != own and group(results[k].curve) == key]


def _judged(one: Diagnosis, groups: Sequence[Sequence[dict[float, bool]]]) -> Diagnosis:
    judged = (_judged_finding(one, finding, groups) for finding in one.findings)
    found = tuple(sorted(judged, key=lambda finding: not finding.alarm))
    return replace(one, findings=found)


def _judged_finding(one: Diagnosis, finding: Finding, groups: Sequence[Sequence[dict[float, bool]]]) -> Finding:
    if not finding.alarm or finding.kind not in _STEPS or finding.factor >= SHARED:
        return finding
    sizes = set(one.samples.size[list(finding.places)].tolist())
    for peers in groups:
        having = [_has(peer, sizes & peer.keys()) for peer in peers if sizes & peer.keys()]
        if sum(having) >= FEWEST and 2 * sum(having) > len(having):
            text = f"{finding.text}; {sum(having)} of {len(having)} other curves share it"
            return finding._replace(alarm=False, text=text)
    return finding


def _has(peer: dict[float, bool], sizes: set[float]) -> bool:
    """Whether a curve has the step at half of these sizes or more."""
    return 2 * sum(peer[size] for size in sizes) >= len(sizes)
