"""Idle time of computing ranks, and its cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.analysis.contention import contended, history
from simulator.kernels import queues
from simulator.kernels.queues import Gaps
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Timeline
from topologies.jit import kernel
from topologies.topology import Flags, Floats, Ints

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
    computing, gaps, free = all_gaps(timeline, lane)
    seconds, _ = fill(timeline, gaps, end)
    return with_drain(seconds, computing, free, min(timeline.makespan, end))


def all_gaps(timeline: Timeline, lane: int) -> tuple[Flags, Gaps, Floats]:
    """Whether each rank computes on a lane, the gaps of these ranks up to the last operation in
    which each takes part, and when each has nothing left to do."""
    computing = computing_ranks(timeline, lane)
    last = np.where(computing, last_operations(timeline), np.int32(-1))
    return computing, *gaps_of(timeline, lane, last)


def computing_ranks(timeline: Timeline, lane: int) -> Flags:
    """Whether each rank computes on a lane."""
    schedule = timeline.schedule
    computing = np.zeros(schedule.ranks, dtype=np.bool_)
    computing[schedule.rank[(schedule.kind == COMPUTE) & (schedule.lane == lane)]] = True
    return computing


def gaps_of(timeline: Timeline, lane: int, last: Ints) -> tuple[Gaps, Floats]:
    """The gaps of a lane of every rank, and when each rank has nothing left to do.

    That is after all that it computes, and after its operation `last`, or -1 for none.
    """
    schedule = timeline.schedule
    main = np.flatnonzero((schedule.kind == COMPUTE) & (schedule.lane == lane))
    main = main[np.argsort(timeline.start[main], kind="stable")].astype(np.int32)
    rank = schedule.rank[main]
    order = np.argsort(rank, kind="stable")
    until, same = timeline.finish[main[order]], rank[order][1:] == rank[order][:-1]
    while (shorter := np.flatnonzero(same & (until[1:] < until[:-1]))).size:
        until[shorter + 1] = until[shorter]
    begin = np.zeros(len(main))
    begin[order] = np.where(np.append(False, same), np.roll(until, 1), 0.0) if len(main) else 0.0
    free = np.zeros(schedule.ranks)
    np.maximum.at(free, rank, timeline.finish[main])
    idle = timeline.ready[main] > begin
    takes_part = np.flatnonzero(last >= 0).astype(np.int32)
    ends = takes_part[timeline.finish[last[takes_part]] > free[takes_part]]
    gaps = Gaps(
        np.concatenate((main[idle], last[ends])),
        np.repeat(np.array([0, 1], dtype=np.int8), [idle.sum(), len(ends)]),
        np.concatenate((rank[idle], ends)),
        np.concatenate((begin[idle], free[ends])),
    )
    free[ends] = timeline.finish[last[ends]]
    return gaps, free


def fill(timeline: Timeline, gaps: Gaps, end: float) -> tuple[Floats, Ints]:
    """Seconds of the gaps of each rank by cause, without drain, up to `end`; and where the walk
    back from each gap stopped too early (:func:`simulator.kernels.queues.idle`)."""
    ranks = timeline.schedule.ranks
    seconds, queue, stops = kernel(queues.idle, len(timeline.schedule))(
        history(timeline), gaps, ranks, float(end), False
    )
    gap, _, node, _ = np.ascontiguousarray(queue.places.T)
    rank = gaps.rank[gap]
    since, until = np.ascontiguousarray(queue.times.T)
    contention = np.minimum(until - since, contended(timeline, node, since, until))
    seconds[:, TRANSFER] += np.bincount(rank, until - since - contention, ranks)
    seconds[:, CONTENTION] += np.bincount(rank, contention, ranks)
    return seconds, stops


def with_drain(seconds: Floats, computing: Flags, free: Floats, end: float) -> Bubbles:
    """The bubbles with what is left from when each rank is `free` to the `end`."""
    drain = np.where(computing, np.maximum(end - free, 0.0), 0.0)
    return Bubbles(np.column_stack((seconds, drain)))


def last_operations(timeline: Timeline) -> Ints:
    """The operation that finishes last of those that each rank runs, sends or receives, shape
    (ranks,)."""
    schedule, order = timeline.schedule, np.argsort(timeline.finish, kind="stable").astype(np.int32)
    last = np.full(schedule.ranks, -1, dtype=np.int32)
    taking_part = np.stack((schedule.rank[order], timeline.routed.peer[order]), axis=1)
    last[taking_part.ravel()] = np.repeat(order, 2)
    return last
