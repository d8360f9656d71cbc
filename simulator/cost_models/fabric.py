"""The machine in a formula: a latency, a gap, a bandwidth, and how messages share ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.routed import Routed
from topologies.columns import distinct, distinct_rows
from topologies.link import Link
from topologies.topology import Floats, Ints, Longs

Ports = Literal["peer", "switch", "one", "bus", "blocking"]
"""How the messages of a schedule share media:

- peer: not at all, for every pair of ranks has its link;
- switch: messages of a sender share a link, and so do messages to a receiver, on its other side;
- one: the same with one link from sender to receiver, which a message occupies at both ends;
- bus: all share one medium;
- blocking: in another way, for which there is no formula, or through ports of other speeds.
"""


@dataclass(frozen=True, kw_only=True)
class Fabric(Link):
    """A machine as one link: its α is that of a whole route."""

    reduction: float
    """γ in seconds a byte."""
    ports: Ports
    uniform: bool
    """Whether all routes of the schedule are alike."""

    def send(self, nbytes: float) -> float:
        """Seconds for which a message occupies its port: g + n/β."""
        return self.gap + nbytes / self.bandwidth


class Crossings(NamedTuple):
    """The media that take time, and the routes that cross them: a row for each crossing."""

    route: Longs
    medium: Ints
    sender: Longs
    receiver: Longs
    shift: Longs
    """Of a folded schedule: what takes the medium that stands for its orbit to the one crossed. The
    ends are those of the route that crosses the former."""

    def take(self, rows: npt.NDArray[np.integer | np.bool_]) -> Crossings:
        """Some of the rows."""
        return Crossings._make(column[rows] for column in self)

    def distinct(self) -> Crossings:
        """The same by medium and then by route, each crossing once."""
        return self.take(distinct_rows(self.medium, self.route, self.shift)[0])

    def groups(self) -> MediumRoutes:
        """The routes that cross each medium. The rows must be :meth:`distinct`."""
        medium, first, size = np.unique(self.medium, return_index=True, return_counts=True)
        sender, receiver = (
            np.minimum.reduceat(end, first) == np.maximum.reduceat(end, first)
            if len(first)
            else np.zeros(0, dtype=np.bool_)
            for end in (self.sender, self.receiver)
        )
        return MediumRoutes(medium, first, size, sender, receiver)


class MediumRoutes(NamedTuple):
    """The routes that cross a medium: a row for each medium."""

    medium: Ints
    first: Longs
    """The first row of the medium among the crossings."""
    size: Longs
    """The number of routes."""
    same_sender: npt.NDArray[np.bool_]
    same_receiver: npt.NDArray[np.bool_]


def observe(routed: Routed) -> Fabric:
    """The fabric of a schedule on its topology. Its link is the route of the least latency. Of
    several such routes it is the fastest."""
    hops, links = np.diff(routed.route_indptr[1:]), routed.route_links
    if not len(links):
        return Fabric(bandwidth=np.inf, reduction=0.0, ports="blocking", uniform=False)
    topology, route = routed.topology, np.repeat(np.arange(len(hops)), hops)
    link, media = topology.crossings(links)
    starts = np.flatnonzero(np.diff(route, prepend=-1))
    media_starts = np.flatnonzero(np.diff(route[link], prepend=-1))
    latency = _sums(topology.latency[links], starts, hops[hops > 0])
    gap = np.maximum.reduceat(topology.medium_gap[media], media_starts)
    bandwidth = np.minimum.reduceat(topology.medium_bandwidth[media], media_starts)
    parameters = np.stack((latency, gap, bandwidth), axis=1)
    best = parameters[np.lexsort((gap, -bandwidth, latency))[0]]
    alike = bool((hops > 0).all() and np.allclose(parameters, parameters[0], rtol=1e-12, atol=0))
    costs = {*zip(routed.reduction.tolist(), routed.copy.tolist(), strict=True)}
    uniform = alike and len(costs) == 1 and next(iter(costs))[1] == 0
    timed = np.isfinite(topology.medium_bandwidth[media]) | (topology.medium_gap[media] > 0)
    ends = _ends(routed)[route[link]].T
    shift, fold = np.zeros(len(link), dtype=np.int64), routed.schedule.fold
    if fold is not None:
        shift = routed.shift[link].astype(np.int64)
        ends = fold.shifts.back(ends, shift)
    crossings = Crossings(route[link], media, ends[0], ends[1], shift)
    entered = np.isin(link, starts)
    ports = _ports(routed, crossings.take(timed), crossings.take(timed & entered), best)
    latency_s, gap_s, bandwidth_Bps = best.tolist()
    reduction = float(routed.reduction.max())
    return Fabric(
        bandwidth_Bps, latency_s, gap_s, reduction=reduction, ports=ports, uniform=uniform
    )


def _sums(values: Floats, starts: Longs, counts: Ints) -> Floats:
    """The sum of each run of values, added up in the order in which numpy adds up one alone."""
    total = np.empty(len(starts))
    for count in distinct(counts):
        chosen = counts == count
        total[chosen] = values[starts[chosen, None] + np.arange(count)].sum(axis=1)
    return total


def _ports(routed: Routed, crossings: Crossings, entered: Crossings, best: Floats) -> Ports:
    """`crossings` are of all links, `entered` of the first link of each route; `best` has α, g and
    β of the best route."""
    distinct, entered, topology = crossings.distinct(), entered.distinct(), routed.topology
    if len(distinct.route) < len(crossings.route):
        return "blocking"
    groups, at_once = distinct.groups(), entered.groups()
    shared = groups.size > 1
    if not shared.any():
        return "peer"
    media = groups.medium[shared]
    gap, bandwidth = topology.medium_gap[media], topology.medium_bandwidth[media]
    if (gap != best[1]).any() or (bandwidth != best[2]).any():
        return "blocking"
    routes = (len(routed.route_indptr) - 2) * routed.schedule.members
    if not (groups.same_sender | groups.same_receiver)[shared].all():
        return "bus" if shared.sum() == 1 and (at_once.size == routes).any() else "blocking"
    if not _all_share(routed, distinct, groups):
        return "blocking"
    receiving = _members(
        routed, distinct, groups, shared & groups.same_receiver & ~groups.same_sender
    )
    entering = _members(routed, entered, at_once, at_once.size > 1)
    return "one" if receiving & entering else "switch"


def _all_share(routed: Routed, crossings: Crossings, groups: MediumRoutes) -> bool:
    """Whether all routes that leave a rank share a medium, and so do all that enter one, wherever
    these are several."""
    ends = _standing(routed, _ends(routed))
    for side, same in ((0, groups.same_sender), (1, groups.same_receiver)):
        number = np.bincount(ends[:, side])
        rank = _standing(routed, (crossings.sender, crossings.receiver)[side][groups.first])
        sharing = rank[same & (groups.size == number[rank])]
        if not np.isin(np.flatnonzero(number > 1), sharing).all():
            return False
    return True


def _members(
    routed: Routed, crossings: Crossings, groups: MediumRoutes, chosen: npt.NDArray[np.bool_]
) -> set[tuple[bytes, bytes]]:
    """The routes of some groups, each group as bytes: those of a folded schedule, and by what they
    are shifted against the first."""
    fold, members = routed.schedule.fold, set()
    for first, size in zip(groups.first[chosen], groups.size[chosen], strict=True):
        rows = slice(first, first + size)
        shift = crossings.shift[rows]
        against = shift if fold is None else fold.shifts.back(shift, shift[:1])
        members.add((crossings.route[rows].tobytes(), against.tobytes()))
    return members


def _standing(routed: Routed, ranks: Longs) -> Longs:
    """The ranks that stand for some."""
    fold = routed.schedule.fold
    return ranks if fold is None else fold.shifts.folded(ranks)


def _ends(routed: Routed) -> Longs:
    ends = np.zeros((len(routed.route_indptr) - 1, 2), dtype=np.int64)
    ends[routed.route, 0], ends[routed.route, 1] = routed.schedule.rank, routed.schedule.peer
    return ends[1:]
