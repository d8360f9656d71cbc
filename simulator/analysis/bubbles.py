"""Idle time of computing ranks, and its cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.analysis.contention import contended, history
from simulator.kernels import queues
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Timeline
from topologies._compile import kernel
from topologies.topology import Floats, Ints

CAUSES = ("transfer", "contention", "slower peer", "drain")
TRANSFER, CONTENTION, SLOWER_PEER, DRAIN = range(4)


@dataclass(frozen=True, eq=False)
class Bubbles:
    """Idle seconds of each rank's main lane, shape (ranks, 4), by cause in the order of `CAUSES`:

    - transfer: a message was on the wire, was copied or merged, or waited behind messages of its
      own sender.
    - contention: a message was ready, but its link, port or merging lane served messages of other
      senders.
    - slower peer: another computation was running or about to, of another rank or of another lane.
    - drain: nothing left to compute, to send or to receive.

    A rank that never computes has no bubble: its row is zero.
    """

    seconds: Floats

    @property
    def total(self) -> Floats:
        """Idle seconds of each rank."""
        return np.asarray(self.seconds.sum(axis=1))


def bubbles(timeline: Timeline, lane: int = 0, end: float = np.inf) -> Bubbles:
    """Attribute each gap of `lane` of every rank to its cause, up to `end` seconds.

    From the start of the computation that ends a gap, the walk goes back from predecessor to
    predecessor. It takes the predecessor that finished last, until one was ready when the gap
    began. After a rank's last computation the walk starts at the last operation in which the rank
    takes part, and the drain begins where that ends.

    On the way of a transfer, the queues count before the hops that its last bytes noticed. Under
    fair sharing, the part that other ranks cause comes first.
    """
    schedule = timeline.schedule
    main = np.flatnonzero((schedule.kind == COMPUTE) & (schedule.lane == lane))
    main = main[np.argsort(timeline.start[main], kind="stable")].astype(np.int32)
    computing = np.isin(np.arange(schedule.ranks), schedule.rank[main])
    last = np.where(computing, last_operations(timeline), np.int32(-1))
    seconds, queue, free = kernel(queues.idle, len(schedule))(
        history(timeline), main, last, float(end)
    )
    rank, node = np.ascontiguousarray(queue.places.T)
    since, until = np.ascontiguousarray(queue.times.T)
    contention = np.minimum(until - since, contended(timeline, node, since, until))
    seconds[:, TRANSFER] += np.bincount(rank, until - since - contention, schedule.ranks)
    seconds[:, CONTENTION] += np.bincount(rank, contention, schedule.ranks)
    drain = np.where(computing, np.maximum(min(timeline.makespan, end) - free, 0.0), 0.0)
    return Bubbles(np.column_stack((seconds, drain)))


def last_operations(timeline: Timeline) -> Ints:
    """The operation that finishes last of those that each rank runs, sends or receives, shape
    (ranks,)."""
    schedule, order = timeline.schedule, np.argsort(timeline.finish, kind="stable").astype(np.int32)
    last = np.full(schedule.ranks, -1, dtype=np.int32)
    taking_part = np.stack((schedule.rank[order], schedule.peer[order]), axis=1)
    last[taking_part.ravel()] = np.repeat(order, 2)
    return last
