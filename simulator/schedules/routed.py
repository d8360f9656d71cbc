"""A schedule laid onto a topology: the route of every transfer, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from simulator.kernels.records import Csr, FlowRoutes, Network, Ranks, Routes, Work
from simulator.schedules.folded_routes import check_few_routes, check_order, fold_routes
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Shifts
from topologies.columns import owners, spread, starts
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Ints, Longs, Topology


@dataclass(frozen=True, eq=False)
class Routed:
    """A schedule with the routes of its transfers: the input of the engines.

    An operation has nodes: one for each hop and one for the reduction at its end. A local operation
    or a computation has one node.

    Of a folded schedule the topology has one link and one medium of each orbit.
    """

    schedule: Schedule
    topology: Topology
    route: Ints
    """The route of each operation. A local operation has the empty route 0."""
    route_indptr: Ints
    """Route r takes the links `route_links[route_indptr[r]:route_indptr[r + 1]]`."""
    route_links: Ints
    """The links of all routes."""
    node_indptr: Ints
    """Operation i has the nodes `node_indptr[i]` to `node_indptr[i + 1]`."""
    reduction: Floats
    """γ of each rank, in seconds a byte."""
    copy: Floats
    """Seconds a byte of a local copy at each rank."""
    whole: Topology | None = None
    """Of a folded schedule: the topology before it was folded."""
    grid: float = 0.0
    """What rounds seconds to whole ticks (see :func:`in_ticks`)."""
    shift: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """Of a folded schedule: what takes each of `route_links` to the link of the machine there."""
    standing: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """Of a folded schedule: the medium that stands for each medium of the machine, or -1."""
    fair: bool = False
    """Of a folded schedule: whether its ranks stand for others under fair sharing only."""

    @property
    def machine(self) -> Topology:
        """The topology with all of its links."""
        return self.topology if self.whole is None else self.whole

    @cached_property
    def peer(self) -> Ints:
        """The rank that stands for the receiver of each operation."""
        schedule = self.schedule
        if schedule.fold is None:
            return schedule.peer
        return schedule.fold.shifts.folded(schedule.peer).astype(np.int32)

    @cached_property
    def sender(self) -> Ints:
        """Who has each node, of all ranks, where the representative of its link or lane is used."""
        schedule, count = self.schedule, np.diff(self.node_indptr)
        if schedule.fold is None:
            return np.repeat(schedule.rank, count)
        shifts, hops = schedule.fold.shifts, np.diff(self.route_indptr)
        # All transfers with a route have the same sender: it is looked up for each of its links.
        rank = np.zeros(len(hops), dtype=np.int64)
        rank[self.route] = schedule.rank
        crossing = shifts.back(np.repeat(rank, hops), self.shift)
        operation, place = spread(count)
        crosses = place < hops[self.route][operation]
        entry = self.route_indptr[self.route[operation[crosses]]] + place[crosses]
        last = operation[~crosses]
        sender = np.empty(len(operation), dtype=np.int32)
        sender[crosses] = crossing[entry]
        sender[~crosses] = shifts.back(schedule.rank[last], shifts.element(schedule.peer[last]))
        return sender

    def hops(self, operation: int) -> Ints:
        """The links that an operation crosses."""
        route = self.route[operation]
        return self.route_links[self.route_indptr[route] : self.route_indptr[route + 1]]

    def scaled(self, nbytes: float) -> Routed:
        """The same routes for V = `nbytes`. Everything that does not depend on V is computed once
        for all sizes."""
        _ = self.schedule.steps, self.schedule.successors
        return replace(self, schedule=self.schedule.scaled(nbytes))

    @cached_property
    def work(self) -> Work:
        """The columns for kernels."""
        schedule, topology = self.schedule, self.topology
        return Work(
            schedule.operations._replace(peer=self.peer),
            Csr(schedule.indptr, schedule.indices),
            Routes(self.route, self.route_indptr, self.route_links, self.node_indptr),
            Network(
                topology.latency,
                topology.link_indptr,
                topology.link_media,
                topology.medium_bandwidth,
                topology.medium_gap,
                self.grid,
            ),
            Ranks(reduction=self.reduction, copy=self.copy, lanes=schedule.lanes),
        )


def route(
    schedule: Schedule, topology: Topology, *, merges: bool = False, fair: bool = False
) -> Routed:
    """Find the route of every transfer. Raises InputError if a rank has no device or cannot reach
    its peer, or if ranks of a folded schedule do not stand for others.

    With `merges` they still stand for others if reductions take time that take none here. With
    `fair` they do so under fair sharing, where no medium serves a transfer before another.
    """
    if schedule.ranks > topology.ranks:
        raise InputError(
            f"the schedule has {schedule.ranks} ranks, {topology.name} only {topology.ranks}: "
            f"add devices"
        )
    _check_switches(schedule, topology)
    pairs, route_of = _pairs(schedule)
    ends = _ends(schedule, pairs)
    placed = topology.placement[: schedule.ranks]
    costs = topology.reduction[placed], topology.copy[placed]
    folded = None
    if schedule.fold is None:
        indptr, links = topology.routes(*ends)
    else:
        folded = fold_routes(schedule.fold, topology, *ends)
        lanes = merges or bool(np.any(costs))
        check_order(schedule, route_of, folded, media=not fair, lanes=lanes)
        _, indptr, links, *_ = folded
    indptr = np.concatenate((np.zeros(1, np.int32), indptr))
    hops = np.diff(indptr)[route_of]
    nodes = hops + (schedule.reduces == 1)
    nodes[hops == 0] = 1
    routed = Routed(schedule, topology, route_of, indptr, links, starts(nodes), *costs)
    if folded is None:
        return routed
    return replace(
        routed,
        topology=folded.topology,
        whole=topology,
        shift=folded.shift,
        standing=folded.media,
        fair=fair,
    )


def in_ticks(routed: Routed, tick: float) -> Routed:
    """`routed` with all durations rounded to multiples of `tick`, a power of two.

    Then sums are exact up to 2**53 ticks, and times do not depend on when a part of the run begins.
    """
    schedule, topology = routed.schedule, routed.topology
    rounded = replace(schedule, seconds=whole_ticks(schedule.seconds, tick))
    vars(rounded)["successors"] = schedule.successors
    result = replace(
        routed,
        schedule=rounded,
        topology=replace(topology, latency=whole_ticks(topology.latency, tick)),
        grid=_grid(tick),
    )
    return alike(routed, result)


def alike(routed: Routed, changed: Routed) -> Routed:
    """`changed`, which has the ranks and routes of `routed`: it takes over what follows from
    these."""
    for name in ("peer", "sender"):
        if name in vars(routed):
            vars(changed)[name] = vars(routed)[name]
    return changed


def whole_ticks(seconds: Floats, tick: float) -> Floats:
    """Seconds rounded to multiples of `tick`."""
    if not seconds.any():
        return seconds
    rounded = seconds + _grid(tick)
    rounded -= _grid(tick)
    return rounded


def _grid(tick: float) -> float:
    return 1.5 * 2.0**52 * tick


def check_few(schedule: Schedule, topology: Topology, shifts: Shifts) -> None:
    """Raises NotSymmetric if some routes of a folded schedule tell that on this machine it cannot
    be folded by `shifts`, which are some of those of its fold."""
    assert schedule.fold is not None
    sender, receiver, channel = _ends(schedule, _pairs(schedule)[0])
    check_few_routes(schedule.fold, shifts, topology, sender, receiver, channel)


def _ends(schedule: Schedule, pairs: Longs) -> tuple[Longs, Longs, Longs]:
    """Sender, receiver and channel of each of :func:`_pairs`."""
    channel, pair = np.divmod(pairs, schedule.ranks**2)
    return *np.divmod(pair, schedule.ranks), channel


def _check_switches(schedule: Schedule, topology: Topology) -> None:
    for rank in range(schedule.ranks - schedule.switches, schedule.ranks):
        device = int(topology.placement[rank])
        if not topology.in_network[device]:
            raise InputError(
                f"rank {rank} reduces in {topology.device_names[device]}: no switch that can"
            )


TABLE_PAIRS = 2**26
"""Ranks squared times channels up to which a table of all is the quickest way to number those that
are used, if there are not many more than operations."""
SMALL_TABLE_PAIRS = 2**20
"""Ranks squared times channels up to which it always is."""


def _pairs(schedule: Schedule) -> tuple[Longs, Ints]:
    """The distinct (channel, sender, receiver) of remote transfers as one number each, and 1 + the
    index of its own for every operation."""
    remote, ranks, channels = schedule.remote, schedule.ranks, int(schedule.lane.max(initial=0)) + 1
    whole = np.dtype(np.int32 if channels * ranks**2 < 2**31 else np.int64)
    key = schedule.rank.astype(whole) * np.asarray(ranks, whole) + schedule.peer
    if channels > 1:
        key += schedule.lane.astype(whole) * np.asarray(ranks**2, whole)
    moved = key if remote.all() else key[remote]
    route_of = np.zeros(len(schedule), dtype=np.int32)
    if channels * ranks**2 > min(TABLE_PAIRS, max(SMALL_TABLE_PAIRS, 8 * len(schedule))):
        known, number = np.unique(moved, return_inverse=True)
        route_of[remote] = number + 1
        return known.astype(np.int64), route_of
    table = np.zeros(channels * ranks**2, dtype=np.int32)
    table[moved] = 1
    pairs: Longs = np.flatnonzero(table)
    table[pairs] = np.arange(1, len(pairs) + 1)
    if moved is key:
        return pairs, table[key]
    route_of[remote] = table[moved]
    return pairs, route_of


def flow_routes(routed: Routed) -> FlowRoutes:
    """The routes of `routed` as flows see them."""
    topology, links, routes = routed.topology, routed.route_links, len(routed.route_indptr) - 1
    route = owners(routed.route_indptr)
    latency = np.bincount(route, topology.latency[links], routes)
    place, media = topology.crossings(links)
    route = route[place]
    gap = np.zeros(routes)
    np.maximum.at(gap, route, topology.medium_gap[media])
    limits = np.isfinite(topology.medium_bandwidth[media])
    indptr = np.zeros(routes + 1, dtype=np.uint32)
    np.cumsum(np.bincount(route[limits], minlength=routes), out=indptr[1:])
    return FlowRoutes(gap, latency.astype(np.float64), indptr, media[limits].astype(np.uint32))


def limiting(routes: FlowRoutes, bandwidth: Floats) -> FlowRoutes:
    """The same routes without media that never limit a flow more than the medium beside them: one
    with no more bandwidth, which all flows cross just after them, or all just before them.

    >>> routes = FlowRoutes(*np.zeros((2, 2)), np.array([0, 3, 5]), np.array([0, 1, 2, 0, 3]))
    >>> limiting(routes, np.array([2.0, 1.0, 1.0, 1.0])).media.tolist()
    [0, 2, 0, 3]
    """
    for step in (1, -1, 1):
        routes = _without(routes, _exceeded(routes, bandwidth, step))
    return routes


def _exceeded(routes: FlowRoutes, bandwidth: Floats, step: int) -> Flags:
    """Whether each medium has at least the bandwidth of the medium that always follows it, or with
    step -1 of the medium that always precedes it."""
    media, count = routes.media.astype(np.int64), len(bandwidth)
    route = owners(routes.indptr)
    follows = np.full(len(media), count)
    here, beside = (slice(-1), slice(1, None))[::step]
    follows[here] = np.where(route[here] == route[beside], media[beside], count)
    neighbour = np.full(count, count)
    neighbour[media] = follows
    differs = np.bincount(media, follows != neighbour[media], count) > 0
    least = np.append(bandwidth, np.inf)[neighbour]
    return np.asarray((bandwidth >= least) & ~differs & (neighbour < count))


def _without(routes: FlowRoutes, dropped: Flags) -> FlowRoutes:
    keep = ~dropped[routes.media]
    kept = np.concatenate((np.zeros(1, np.uint32), np.cumsum(keep, dtype=np.uint32)))
    return routes._replace(indptr=kept[routes.indptr], media=routes.media[keep])
