"""Idle time of computing ranks, and its cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulator.schedule import COMPUTE
from simulator.timeline import Timeline
from topologies.topology import Floats

CAUSES = ("transfer", "queue", "slower peer", "drain")
TRANSFER, QUEUE, SLOWER_PEER, DRAIN = range(4)


@dataclass(frozen=True, eq=False)
class Bubbles:
    """Idle seconds of each rank's main lane, shape (ranks, 4), by cause in the order of `CAUSES`: on the wire, being
    copied or merged; ready, but a medium or the merging lane was taken; a computation elsewhere was running, or about
    to (another rank's, or another lane's); nothing left to do.

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
        return np.asarray(self.seconds[:, :DRAIN].sum(axis=1))


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
        seconds[rank, DRAIN] += timeline.makespan - free
    return Bubbles(seconds)


def _attribute(timeline: Timeline, operation: int, begin: float, end: float, seconds: Floats) -> None:
    """Walk back from the start of `operation`, predecessor by predecessor, and add what fills (begin, end)."""
    schedule, current = timeline.schedule, operation
    while timeline.ready[current] > begin:
        before = schedule.predecessors(current)
        current = int(before[np.argmax(timeline.finish[before])])
        for cause, since, until in _pieces(timeline, current):
            seconds[cause] += max(0.0, min(until, end) - max(since, begin))


_Piece = tuple[int, float, float]
"""A cause and its interval."""


def _pieces(timeline: Timeline, i: int) -> Iterator[_Piece]:
    """What an operation waited for from ready to finish, the last first."""
    schedule, first = timeline.schedule, int(timeline.routed.node_indptr[i])
    last, ready, finish = (
        int(timeline.routed.node_indptr[i + 1]) - 1,
        float(timeline.ready[i]),
        float(timeline.finish[i]),
    )
    if schedule.kind[i] == COMPUTE:
        yield SLOWER_PEER, ready, finish
        return
    hops = timeline.routed.hops(i)
    if last - first >= len(hops):
        merged = float(timeline.node_start[last])
        yield TRANSFER, merged, finish
        finish = timeline.arrival(i) if len(hops) else ready
        yield QUEUE, finish, merged
    if len(hops):
        crossing = _flowing if timeline.sharing == "fair" else _crossing
        yield from crossing(timeline, i, ready, finish)


def _crossing(timeline: Timeline, i: int, ready: float, arrival: float) -> Iterator[_Piece]:
    """The way of the bytes that arrived last: queues before them count, others were not noticed."""
    first, until = int(timeline.routed.node_indptr[i]), arrival
    for hop in range(timeline.slowest_hop(i)[0], -1, -1):
        start = float(timeline.node_start[first + hop])
        before = timeline.head(i, hop) if hop else ready
        yield TRANSFER, start, until
        yield QUEUE, before, start
        until = before


def _flowing(timeline: Timeline, i: int, ready: float, arrival: float) -> Iterator[_Piece]:
    """What a flow would take alone comes last: the time beyond that it has waited for others."""
    start, waited = float(timeline.start[i]), timeline.flow(i).waited
    yield TRANSFER, start + waited, arrival
    yield QUEUE, start, start + waited
    yield TRANSFER, ready, start
