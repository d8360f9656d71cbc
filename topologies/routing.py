"""Routes between ranks: least latency, then fewest hops, then as the topology's `paths` says."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from topologies import _kernels
from topologies.columns import places_in_groups, ranges, starts
from topologies.errors import InputError
from topologies.jit import kernel
from topologies.topology import Floats, Ints, Longs, Numbers, Routes, Topology

SMALL = 200
FEW = 8
"""Sources of a target up to which each is looked for by itself, from both ends."""
OF_A_PAIR = 64
"""What the search for a pair takes, in operations of a kernel."""
_TICKS_PER_SECOND = 1024e15
_MOST_TICKS = 2.0**60
"""Latencies are added as whole numbers, fine enough for 1 fs and for 2^-25 s: equal routes are
really equal. Machines whose latencies add up to more than a second are measured in coarser
ticks."""


def find_routes(
    topology: Topology, sources: Numbers, targets: Numbers, channels: Numbers
) -> Routes:
    """The links from each source rank to its target rank, in CSR form. Raises InputError if there
    is none.

    Ends that have one way out or in, and neighbours of whom none is nearer, need no search.
    """
    for ranks in (sources, targets):
        if len(ranks) and not 0 <= ranks.min() <= ranks.max() < topology.ranks:
            rank = ranks[(ranks < 0) | (ranks >= topology.ranks)][0]
            raise InputError(
                f"rank {rank} has no device: {topology.name} has {topology.ranks} ranks"
            )
    graph = _graph(_Wires(topology))
    heads: list[Ints] = []
    tails: list[Ints] = []
    starts, goals = topology.placement[sources], topology.placement[targets]
    starts = graph.walk(starts, goals, graph.only_way_out, topology.target, heads)
    goals = graph.walk(goals, starts, graph.only_way_in, topology.source, tails)
    direct = graph.direct(starts, goals)
    open_pairs = np.flatnonzero((starts != goals) & (direct < 0))
    salts = _salts(topology, sources[open_pairs], targets[open_pairs], channels[open_pairs])
    indptr, links = graph.search(starts[open_pairs], goals[open_pairs], salts)
    lost = open_pairs[indptr[1:] == indptr[:-1]]
    if len(lost):
        ends = f"from rank {sources[lost[0]]} to rank {targets[lost[0]]}"
        raise InputError(f"no route {ends} in {topology.name}: connect them")
    return _joined([*heads, direct], open_pairs, indptr, links, tails[::-1])


def _joined(
    heads: list[Ints], middle: Longs, indptr: Ints, links: Ints, tails: list[Ints]
) -> Routes:
    """Single links of every route (-1: none) before and after the links that were searched for some
    routes."""
    singles = [*heads, *tails]
    owner = [np.flatnonzero(column >= 0) for column in singles]
    columns = [column[rows] for column, rows in zip(singles, owner, strict=True)]
    owner.insert(len(heads), np.repeat(middle, np.diff(indptr)))
    columns.insert(len(heads), links)
    owners = np.concatenate(owner)
    order = np.argsort(owners, kind="stable")
    return _indptr(owners, len(heads[0])), np.concatenate(columns).astype(np.int32)[order]


def _salts(topology: Topology, sources: Numbers, targets: Numbers, channels: Numbers) -> Longs:
    """What chooses among equal routes within the sender's node, into the receiver's, and between,
    shape (pairs, 3)."""
    salts = np.zeros((len(sources), 3), dtype=np.int64)
    if topology.paths in ("first", "link"):
        return salts
    mixed = np.zeros(len(sources), dtype=np.uint64)
    for column in (topology.placement[sources], topology.placement[targets], channels):
        # splitmix64's constants
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
    salts[:] = (mixed >> np.uint64(2)).astype(np.int64)[:, None]
    if topology.paths == "rail":
        rail = rails(topology)
        salts[:, :2] = (rail[targets] + channels // (rail.max(initial=0) + 1))[:, None]
    return salts


def rails(topology: Topology) -> Longs:
    """The number of each rank's device among those of its kind in its node, in device order."""
    return _graph(_Wires(topology)).rails[topology.placement]


class _Wires:
    """A topology that equals others with the very same links: ranks may be on other devices."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        columns = topology.source, topology.target, topology.latency, topology.node
        self._key = topology.paths, *map(id, (*columns, topology.device_kinds))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Wires) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=2)
def _graph(wires: _Wires) -> _Graph:
    """The adjacency of a topology. The latest are remembered."""
    return _Graph(wires.topology)


class _Graph:
    """Adjacency of a topology, in device order."""

    def __init__(self, topology: Topology) -> None:
        self.topology, self.devices = topology, len(topology.device_names)
        self.only_way_out = _only(topology.source, self.devices)
        self.only_way_in = _only(topology.target, self.devices)

    @cached_property
    def rails(self) -> Longs:
        """The number of each device among those of its kind in its node."""
        kind = self.topology.device_kinds.codes
        node = self.topology.node.astype(np.int64)
        return places_in_groups(node * (kind.max(initial=0) + 1) + kind)

    @cached_property
    def ticks(self) -> Longs:
        """The latency of each link in ticks."""
        latency = self.topology.latency
        scale = _TICKS_PER_SECOND
        while float(latency.max(initial=0.0)) * scale * self.devices > _MOST_TICKS:
            scale /= 1024
        return np.rint(latency * scale).astype(np.int64)

    def walk(self, devices: Ints, goals: Ints, only: Ints, end: Ints, links: list[Ints]) -> Ints:
        """Follow the only way from `devices` until there are several, or the goal is reached; adds
        a column a step."""
        for _ in range(self.devices):
            step = np.where(devices == goals, np.int32(-1), only[devices])
            if not (step >= 0).any():
                break
            links.append(step)
            devices = np.where(step >= 0, end[step], devices)
        return devices

    def direct(self, starts: Ints, ends: Ints) -> Ints:
        """The link between the two, where no other leaves with less latency, so that no detour is
        shorter; or -1."""
        link = np.full(len(starts), -1, dtype=np.int32)
        distinct = np.flatnonzero(starts != ends)
        chosen, key = self.nearest if len(distinct) else (link, link)
        if len(key):
            pair_key = starts[distinct].astype(np.int64) * self.devices + ends[distinct]
            place = np.minimum(np.searchsorted(key, pair_key), len(key) - 1)
            link[distinct] = np.where(key[place] == pair_key, chosen[place], -1)
        return link

    @cached_property
    def nearest(self) -> tuple[Longs, Longs]:
        """The links than which no other leaves the same device with less latency, by their ends,
        and a number for their ends."""
        topology, ticks = self.topology, self.ticks
        least = np.full(self.devices, np.iinfo(np.int64).max)
        np.minimum.at(least, topology.source, ticks)
        chosen = np.flatnonzero(ticks == least[topology.source])
        key = topology.source[chosen].astype(np.int64) * self.devices + topology.target[chosen]
        order = np.argsort(key)
        return chosen[order], key[order]

    def search(self, begins: Ints, ends: Ints, salts: Longs) -> Routes:
        """The routes of the pairs, in CSR form, by a search from every target towards its
        sources."""
        if not len(begins):
            return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.int32)
        order = np.argsort(ends, kind="stable")
        targets, first = np.unique(ends[order], return_index=True)
        if len(begins) <= FEW * len(targets):
            order = first = np.arange(len(begins))
            targets, operations = ends, OF_A_PAIR * len(begins)
        else:
            operations = len(targets) * self.topology.links + len(order)
        groups = np.append(first, len(order)).astype(np.int64)
        shortest = kernel(_kernels.shortest, operations)
        to, sources = targets.astype(np.int32), begins[order].astype(np.int32)
        indptr, links = shortest(self.ways, to, groups, sources, salts[order])
        back = np.argsort(order, kind="stable")
        hops = np.diff(indptr)[back]
        return starts(hops), links[ranges(indptr[back], hops)[1]]

    @cached_property
    def ways(self) -> _kernels.Ways:
        """The links of every device, as searches take them."""
        topology, devices = self.topology, self.devices
        order_by = np.arange(topology.links) if topology.paths == "link" else topology.target
        leaving = np.lexsort((order_by, topology.source))
        place = np.empty(topology.links, dtype=np.int64)
        place[leaving] = np.arange(topology.links)
        entering = np.lexsort((topology.source, topology.target))
        return _kernels.Ways(
            np.stack((_indptr(topology.source, devices), _indptr(topology.target, devices))),
            np.stack((topology.target[leaving], topology.source[entering])),
            np.stack((np.arange(topology.links), place[entering])),
            self.ticks[leaving],
            leaving.astype(np.int32),
            topology.node,
        )


def _indptr(row: Numbers, rows: int) -> Ints:
    """Where each of so many rows begins among entries that are sorted by row; and their number."""
    return starts(np.bincount(row, minlength=rows))


def _only(ends: Ints, devices: int) -> Ints:
    link = np.full(devices, -1, dtype=np.int32)
    link[ends] = np.arange(len(ends), dtype=np.int32)
    link[np.bincount(ends, minlength=devices) != 1] = -1
    return link


def distances(topology: Topology, sources: Ints | None = None) -> Floats:
    """Least latency in seconds from some ranks (by default all) to all, shape (sources, ranks); inf
    where none."""
    devices = len(topology.device_names)
    starts = topology.placement if sources is None else topology.placement[sources]
    if devices <= SMALL:
        # Floyd and Warshall's, a row at a time: at this size quicker than an import.
        every = np.full((devices, devices), np.inf)
        np.fill_diagonal(every, 0.0)
        np.minimum.at(every, (topology.source, topology.target), topology.latency)
        for via in range(devices):
            np.minimum(every, every[:, via : via + 1] + every[via], out=every)
        return np.asarray(every[starts][:, topology.placement])
    least, order = np.empty((len(starts), devices)), np.argsort(topology.source, kind="stable")
    links = _indptr(topology.source, devices), topology.target[order], topology.latency[order]
    search = kernel(_kernels.distances, len(starts) * topology.links)
    search(*links, starts.astype(np.int32), least)
    return least[:, topology.placement]
