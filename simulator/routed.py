"""A schedule laid onto a topology: the route of every transfer, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.schedule import TRANSFER, Schedule
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology


@dataclass(frozen=True, eq=False)
class Routed:
    """What the engines run. Operation i takes the links of route `route[i]`; a local one takes the empty route 0.

    Its nodes are `node_indptr[i]` to `node_indptr[i + 1]`: one a hop, and one for the reduction at its end; one for a
    local operation or a computation. `reduction` and `copy` are seconds a byte, per rank.
    """

    schedule: Schedule
    topology: Topology
    route: Ints
    route_indptr: Ints
    route_links: Ints
    node_indptr: Ints
    reduction: Floats
    copy: Floats

    def hops(self, operation: int) -> Ints:
        """The links that an operation crosses."""
        route = self.route[operation]
        return self.route_links[self.route_indptr[route] : self.route_indptr[route + 1]]


def route(schedule: Schedule, topology: Topology) -> Routed:
    """Find the route of every transfer. Raises InputError if a rank has no device or cannot reach its peer."""
    if schedule.ranks > topology.ranks:
        raise InputError(f"the schedule has {schedule.ranks} ranks, {topology.name} only {topology.ranks}: add devices")
    pairs, route_of = _pairs(schedule)
    indptr, links = topology.routes(pairs // schedule.ranks, pairs % schedule.ranks)
    indptr = np.concatenate((np.zeros(1, np.int32), indptr))
    hops = np.diff(indptr)[route_of]
    nodes = np.where(hops == 0, 1, hops + (schedule.reduces == 1)).astype(np.int32)
    node_indptr = np.zeros(len(schedule) + 1, dtype=np.int32)
    np.cumsum(nodes, out=node_indptr[1:])
    placed = topology.placement[: schedule.ranks]
    return Routed(
        schedule,
        topology,
        route_of,
        indptr,
        links,
        node_indptr,
        topology.reduction[placed],
        topology.copy[placed],
    )


def _pairs(schedule: Schedule) -> tuple[Ints, Ints]:
    """The distinct pairs (sender * ranks + receiver) of remote transfers, and 1 + their index for every operation."""
    ranks = schedule.ranks
    key = (
        schedule.rank * ranks + schedule.peer
        if ranks < 2**15
        else schedule.rank.astype(np.int64) * ranks + schedule.peer
    )
    used = np.zeros(ranks * ranks + 1, dtype=np.int32)
    used[key] = schedule.kind == TRANSFER
    used[np.arange(ranks, dtype=np.int64) * (ranks + 1)] = 0
    pairs = np.flatnonzero(used)
    used[pairs] = np.arange(1, len(pairs) + 1)
    route_of = used[key]
    route_of[schedule.kind != TRANSFER] = 0
    return pairs.astype(np.int32 if ranks < 2**15 else np.int64), route_of
