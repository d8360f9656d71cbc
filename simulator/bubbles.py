"""Idle time of computing ranks, and its cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.schedule import COMPUTE
from simulator.timeline import Timeline
from topologies.topology import Floats

CAUSES = ("transfer", "queue", "slower peer", "drain")


@dataclass(frozen=True, eq=False)
class Bubbles:
    """Idle seconds of each rank's main lane, shape (ranks, 4), by cause in the order of `CAUSES`.

    A rank that never computes has no bubble: its row is zero.
    """

    seconds: Floats

    @property
    def total(self) -> Floats:
        """Idle seconds of each rank."""
        return np.asarray(self.seconds.sum(axis=1))

    @property
    def stall(self) -> Floats:
        """Idle seconds of each rank before its last computation: all causes but the drain."""
        return np.asarray(self.seconds[:, :3].sum(axis=1))


def bubbles(timeline: Timeline, lane: int = 0) -> Bubbles:
    """Attribute each gap of `lane` of every rank to what its end was waiting for."""
    schedule = timeline.schedule
    seconds = np.zeros((schedule.ranks, len(CAUSES)))
    main = np.flatnonzero((schedule.kind == COMPUTE) & (schedule.lane == lane))
    for rank in np.unique(schedule.rank[main]):
        free = 0.0
        own = main[schedule.rank[main] == rank]
        for operation in own[np.argsort(timeline.start[own], kind="stable")]:
            begin = float(timeline.start[operation])
            if begin > free:
                _attribute(timeline, int(operation), free, begin, seconds[rank])
            free = max(free, float(timeline.finish[operation]))
        seconds[rank, 3] += timeline.makespan - free
    return Bubbles(seconds)


def _attribute(timeline: Timeline, operation: int, begin: float, end: float, seconds: Floats) -> None:
    """Walk back from `operation` and add what fills (begin, end) to its causes."""
    schedule, current, now = timeline.schedule, operation, end
    while now > begin:
        if current != operation:
            now = _service(timeline, current, begin, now, seconds)
        ready = max(begin, float(timeline.ready[current]))
        if now > ready:
            seconds[1] += now - ready
            now = ready
        before = schedule.predecessors(current)
        if len(before) == 0:
            return
        current = int(before[np.argmax(timeline.finish[before])])


def _service(timeline: Timeline, operation: int, begin: float, now: float, seconds: Floats) -> float:
    """Split the time that an operation took: a computation is a slower peer, a transfer is on the wire or queued."""
    schedule, routed = timeline.schedule, timeline.routed
    start = max(begin, float(timeline.start[operation]))
    if schedule.kind[operation] == COMPUTE:
        seconds[2] += now - start
        return start
    queued = 0.0
    first, head = int(routed.node_indptr[operation]), float(timeline.start[operation])
    for hop, link in enumerate(routed.hops(operation)):
        queued += _overlap(head, float(timeline.node_start[first + hop]), begin, now)
        head = float(timeline.node_start[first + hop] + routed.topology.latency[link])
    seconds[0] += now - start - queued
    seconds[1] += queued
    return start


def _overlap(start: float, end: float, begin: float, now: float) -> float:
    return max(0.0, min(end, now) - max(start, begin))
