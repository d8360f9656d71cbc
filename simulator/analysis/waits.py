"""The waits on a critical path: which rank waits on which link, and behind which ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from simulator.analysis.contention import mean_rate
from simulator.analysis.critical_path import Segment
from simulator.schedules.timeline import Timeline


class Wait(NamedTuple):
    """A wait of messages of one rank behind messages of other ranks."""

    where: str
    """The medium, or the merging of a rank."""
    waiter: int
    """The rank that waits."""
    behind: tuple[int, ...]
    """The ranks of the messages in front, the longest wait first."""
    seconds: float
    """The time of the wait."""


def waits(timeline: Timeline, path: Iterable[Segment]) -> list[Wait]:
    """The waits for other ranks on the critical path, the longest first."""
    schedule = timeline.schedule
    seconds_of: dict[tuple[str, int], dict[int, float]] = {}
    for segment in path:
        if segment.contended and segment.seconds > 0:
            where, seconds_by_rank = _occupants(timeline, segment)
            behind = seconds_of.setdefault((where, int(schedule.rank[segment.waiter])), {})
            for rank, seconds in seconds_by_rank.items():
                behind[rank] = behind.get(rank, 0.0) + seconds
    longest_first = [
        Wait(
            where,
            waiter,
            tuple(sorted(behind, key=lambda rank: (-behind[rank], rank))),
            sum(behind.values()),
        )
        for (where, waiter), behind in seconds_of.items()
    ]
    return sorted(longest_first, key=lambda wait: -wait.seconds)


def _occupants(timeline: Timeline, segment: Segment) -> tuple[str, dict[int, float]]:
    """Where a contended segment waited, and its seconds by the rank that it waited for."""
    names, sender = (
        timeline.routed.topology.medium_names,
        int(timeline.schedule.rank[segment.operation]),
    )
    if segment.operation == segment.waiter:
        medium, shares = _sharers(timeline, segment.operation)
        return names[medium], {rank: share * segment.seconds for rank, share in shares.items()}
    if segment.part in ("serialisation", "gap"):
        return names[segment.where], {sender: segment.seconds}
    return f"merging on rank {segment.where}", {sender: segment.seconds}


def _sharers(timeline: Timeline, flow: int) -> tuple[int, dict[int, float]]:
    """The medium of a flow's route on which other ranks send most meanwhile, and their shares of
    these bytes."""
    uses, rank = timeline.occupancy, timeline.schedule.rank
    start, end = timeline.start[flow], timeline.sent[flow]
    overlap = np.minimum(uses.start + uses.seconds, end) - np.maximum(uses.start, start)
    shared = np.isin(uses.medium, uses.medium[uses.operation == flow]) & (overlap > 0)
    rows = np.flatnonzero(shared & (rank[uses.operation] != rank[flow]))
    nbytes = mean_rate(uses)[rows] * overlap[rows]
    medium = int(np.argmax(np.bincount(uses.medium[rows], nbytes)))
    mine = uses.medium[rows] == medium
    by_rank = np.bincount(rank[uses.operation[rows[mine]]], nbytes[mine])
    return medium, {
        sharer: float(by_rank[sharer] / by_rank.sum())
        for sharer in np.flatnonzero(by_rank).tolist()
    }
