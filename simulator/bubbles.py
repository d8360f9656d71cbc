"""Idle time of computing ranks, and its cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator import _kernels
from simulator.schedule import COMPUTE
from simulator.timeline import Timeline
from topologies._compile import kernel
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
    """Attribute each gap of `lane` of every rank to what its end was waiting for.

    From the start of the computation that ends a gap the walk goes back from predecessor to predecessor, the last that
    finished, until one that was ready when the gap began. On the way of a transfer count the queues before the hops
    that its last bytes noticed; under fair sharing what it would take alone comes last, and the time beyond that is
    queueing.
    """
    schedule, routed, topology = timeline.schedule, timeline.routed, timeline.routed.topology
    main = np.flatnonzero((schedule.kind == COMPUTE) & (schedule.lane == lane))
    main = main[np.argsort(timeline.start[main], kind="stable")].astype(np.int32)
    waited, free = kernel(_kernels.idle, len(schedule))(
        main, schedule.rank, schedule.kind, schedule.nbytes, schedule.indptr, schedule.indices,
        timeline.ready, timeline.finish, timeline.node_start, timeline.sent,
        routed.route, routed.route_indptr, routed.route_links, topology.latency, topology.link_indptr,
        topology.link_media, topology.medium_bandwidth, topology.medium_gap,
        routed.node_indptr, schedule.ranks, timeline.sharing == "fair", timeline.store_and_forward,
    )  # fmt: skip
    drain = np.where(np.isin(np.arange(schedule.ranks), schedule.rank[main]), timeline.makespan - free, 0.0)
    return Bubbles(np.column_stack((waited, drain)))
