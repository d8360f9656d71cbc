"""Who waits on which link behind whom, on a critical path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from simulator.contention import mean_rate
from simulator.critical_path import Segment
from simulator.timeline import Timeline


class Wait(NamedTuple):
    """The `seconds` that messages of rank `waiter` wait on `where`, a medium or a rank's merging, behind messages of
    the ranks `behind`, the longest wait first."""

    where: str
    waiter: int
    behind: tuple[int, ...]
    seconds: float


def waits(timeline: Timeline, path: Iterable[Segment]) -> list[Wait]:
    """Who waits for other ranks on the critical path, on which link and behind whom; the longest wait first."""
    schedule = timeline.schedule
    found: dict[tuple[str, int], dict[int, float]] = {}
    for segment in path:
        if segment.contended and segment.seconds > 0:
            behind = found.setdefault((_place(timeline, segment), int(schedule.rank[segment.waiter])), {})
            for rank, seconds in _occupants(timeline, segment).items():
                behind[rank] = behind.get(rank, 0.0) + seconds
    longest_first = [
        Wait(where, waiter, tuple(sorted(behind, key=lambda rank: (-behind[rank], rank))), sum(behind.values()))
        for (where, waiter), behind in found.items()
    ]
    return sorted(longest_first, key=lambda wait: -wait.seconds)


def _place(timeline: Timeline, segment: Segment) -> str:
    if segment.part in ("serialisation", "gap"):
        return timeline.routed.topology.medium_names[segment.where]
    return f"merging on rank {segment.where}"


def _occupants(timeline: Timeline, segment: Segment) -> dict[int, float]:
    """Seconds of a contended segment by the rank that caused them."""
    if segment.operation != segment.waiter:
        return {int(timeline.schedule.rank[segment.operation]): segment.seconds}
    held, i = timeline.occupancy, segment.operation
    start, end = timeline.start[i], timeline.sent[i]
    mine = held.medium[held.operation == i]
    shared = np.flatnonzero(np.isin(held.medium, mine) & (held.start < end) & (held.start + held.seconds > start))
    sender = timeline.schedule.rank[held.operation[shared]]
    overlap = np.minimum(held.start + held.seconds, end)[shared] - np.maximum(held.start, start)[shared]
    nbytes = np.bincount(sender, mean_rate(held)[shared] * overlap)
    nbytes[timeline.schedule.rank[i]] = 0.0
    ranks = np.flatnonzero(nbytes)
    return dict(zip(ranks.tolist(), (nbytes[ranks] / (nbytes.sum() or 1.0) * segment.seconds).tolist(), strict=True))
