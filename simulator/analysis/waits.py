"""The waits on a critical path: which rank waits on which link, and behind which ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.analysis.contention import mean_rate
from simulator.analysis.critical_path import SEGMENT_PARTS, CriticalPath, PathSegment
from simulator.schedules.timeline import Timeline

ROUNDING = 1e-12
"""Waits below this share of the time are rounding."""


class QueueWait(NamedTuple):
    """A wait of messages of one rank behind messages of other ranks."""

    where: str
    """The medium, or the merging of a rank."""
    waiter: int
    """The rank that waits."""
    behind: tuple[int, ...]
    """The ranks of the messages in front, the longest wait first."""
    seconds: float
    """The time of the wait."""


def waits(timeline: Timeline, path: CriticalPath) -> list[QueueWait]:
    """The waits for other ranks on the critical path, the longest first; without rounding."""
    if timeline.sharing == "fifo":
        path = _summed(path.take(path.contended & (path.seconds > 0)))
    seconds_of: dict[tuple[bool, int, int], dict[int, float]] = {}
    for segment in path:
        if segment.contended and segment.seconds > 0:
            is_medium, where, waiter, seconds_by_rank = _occupants(timeline, segment)
            behind = seconds_of.setdefault((is_medium, where, waiter), {})
            for rank, seconds in seconds_by_rank.items():
                behind[rank] = behind.get(rank, 0.0) + seconds
    names = timeline.routed.topology.medium_names
    every = [
        QueueWait(
            names[where] if is_medium else f"merging on rank {where}",
            waiter,
            tuple(sorted(behind, key=lambda rank: (-behind[rank], rank))),
            sum(behind.values()),
        )
        for (is_medium, where, waiter), behind in seconds_of.items()
    ]
    real = [wait for wait in every if wait.seconds > ROUNDING * timeline.makespan]
    return sorted(real, key=lambda wait: -wait.seconds)


def _summed(path: CriticalPath) -> CriticalPath:
    """One segment for all in which the same rank waits for the same rank, in the order of the
    first of each."""
    crosses = np.isin(path.part, [SEGMENT_PARTS.index(part) for part in ("serialisation", "gap")])
    key = 2 * path.where.astype(np.int64) + crosses
    for rank in (path.waiting, path.rank):
        key = key * (int(rank.max(initial=0)) + 1) + rank
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    seconds = np.bincount(number.ravel(), path.seconds, len(first))
    return replace(path.take(first[order]), seconds=np.asarray(seconds[order], dtype=np.float64))


def _occupants(timeline: Timeline, segment: PathSegment) -> tuple[bool, int, int, dict[int, float]]:
    """Whether a contended segment waited for a medium, and not for the merging of a rank; which;
    the rank that waited; and its seconds by the rank that it waited for."""
    seconds = {segment.rank: segment.seconds}
    if segment.operation == segment.waiter:
        medium, waiter, shares = _sharers(timeline, segment.operation)
        seconds = {rank: share * segment.seconds for rank, share in shares.items()}
        return True, medium, waiter, seconds
    return segment.part in ("serialisation", "gap"), segment.where, segment.waiting, seconds


def _sharers(timeline: Timeline, flow: int) -> tuple[int, int, dict[int, float]]:
    """The medium of a flow's route on which other ranks send most meanwhile, the rank of the flow,
    and the shares of the others in these bytes."""
    uses = timeline.occupancy
    rank, mine = timeline.routed.sender[uses.node], np.flatnonzero(uses.operation == flow)
    start, end = timeline.start[flow], timeline.sent[flow]
    overlap = np.minimum(uses.start + uses.seconds, end) - np.maximum(uses.start, start)
    rows = np.flatnonzero(np.isin(uses.medium, uses.medium[mine]) & (overlap > 0))
    nbytes, rank_of_row = mean_rate(uses)[rows] * overlap[rows], rank[rows]
    by_hop = [
        np.bincount(
            rank_of_row,
            np.where((uses.medium[rows] == uses.medium[k]) & (rank_of_row != rank[k]), nbytes, 0.0),
        )
        for k in mine
    ]
    most = int(np.argmax([by_rank.sum() for by_rank in by_hop]))
    by_rank, row = by_hop[most], mine[most]
    shares = {int(k): float(by_rank[k] / by_rank.sum()) for k in np.flatnonzero(by_rank)}
    return int(uses.medium[row]), int(rank[row]), shares
