"""How many bytes a second can leave or reach a set of devices, and how fast many pairs of devices
can exchange bytes at once: joint capacities of links, and flows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from topologies._flow_kernels import Arcs, least_flow
from topologies.columns import distinct, distinct_rows, sums
from topologies.errors import InputError
from topologies.jit import kernel
from topologies.routing import distances
from topologies.topology import Flags, Floats, Ints, Longs, Topology

UNITS = 2**30
"""Steps in which flows are counted. A capacity matters if it is at least the limit over so many.
The steps decide which cut is found, and its bandwidth is then summed from exact capacities."""
BETTER = 1e-9
Matrix = Any
"""A scipy.sparse.csr_array."""


class Cut(NamedTuple):
    """A set of devices, shape (devices,), and the most bytes/s that can leave it."""

    inside: Flags
    bandwidth: float


def capacities(topology: Topology, group: Ints, groups: int) -> Floats:
    """Bytes/s through all links of each group. Link k is in `group[k]`, or in no group if that is
    -1.

    A link counts at the shared medium with the most users that it crosses, and a medium counts once
    a group. No flow is higher.
    """
    if not topology.shared_names:
        members = group >= 0
        return sums(group[members], topology.bandwidth[members], groups)
    owner = topology.crossing_links
    members = group[owner] >= 0
    owner, medium = owner[members], topology.link_media[members]
    shares, place = distinct_rows(group[owner], medium)
    users = np.bincount(place)
    order = np.lexsort((topology.medium_bandwidth[medium], -users[place], owner))
    links, first = np.unique(owner[order], return_index=True)
    through = np.bincount(place[order[first]], topology.bandwidth[links], len(shares))
    limited = np.minimum(through, topology.medium_bandwidth[medium[shares]])
    return sums(group[owner[shares]], limited, groups)


def max_flow(topology: Topology, sources: npt.ArrayLike, sinks: npt.ArrayLike) -> Cut:
    """The most that devices `sources` can send to devices `sinks` together, and the cut that proves
    it.

    If no medium limits the flow, or a device is in both, the bandwidth is infinite and only the
    sources are inside.

    >>> from topologies.shapes import ring
    >>> max_flow(ring(8, bandwidth=1e9), [0], [4]).bandwidth / 1e9
    2.0
    """
    first, last = np.ravel(sources).astype(np.int32), np.ravel(sinks).astype(np.int32)
    network, inside = FlowNetwork(topology), np.zeros(len(topology.device_names), dtype=np.bool_)
    inside[first] = True
    best, limit = Cut(inside, np.inf), network.most
    while cut := network.cut(np.where(inside, limit, 0.0), last, limit):
        if cut.bandwidth >= limit * (1 - BETTER):
            break
        best, limit = cut, cut.bandwidth
    return best


def tightest_cut(
    topology: Topology,
    weight: Floats,
    sinks: npt.ArrayLike,
    *,
    reverse: bool = False,
    above: float = 0.0,
) -> Cut | None:
    """Of all sets of devices that leave some of `sinks` out, the one whose `weight` is most beside
    what can leave it.

    None if no ratio, in weight a byte/s, is higher than `above`. With `reverse` it is what can
    reach the set that counts. A source feeds each device at x times its weight, and each sink must
    be reached by all of it: x falls to the ratio of every cut in the way (Dinkelbach's iteration),
    so that each sink is asked once. L. Zhao et al., "ForestColl", 2024, show that schedules meet
    the cut of an all-gather, whose weights are the shards.
    """
    network, total = FlowNetwork(topology, reverse=reverse), float(weight.sum())
    best = None
    share = 1 / above if above > 0 else network.most / float(weight[weight > 0].min())
    for sink in np.ravel(sinks).astype(np.int32)[:, None]:
        while cut := network.cut(weight * share, sink, total * share):
            carried = float(weight[cut.inside].sum())
            if cut.bandwidth >= carried * share * (1 - BETTER):
                break
            best, share = cut, cut.bandwidth / carried
    return best


class FlowNetwork:
    """Capacities as a graph for flows: the devices, two nodes a shared medium with β between them,
    a source, a sink.

    A link is an edge, or leads through the nodes of the media that it shares. There, what came by
    one link may go on by another, which no transfer does: where links of different ends share a
    medium, a cut may count more than it carries.
    """

    def __init__(self, topology: Topology, *, reverse: bool = False) -> None:
        ends = (topology.target, topology.source) if reverse else (topology.source, topology.target)
        self.devices = len(topology.device_names)
        source = self.devices + 2 * len(topology.shared_names)
        tail, head, capacity = flow_edges(topology, *ends)
        every = np.arange(self.devices)
        tails = np.concatenate((tail, np.full_like(every, source)))
        heads, nodes = np.concatenate((head, every)), source + 1
        edges = tails * nodes + heads
        key = distinct(np.concatenate((edges, heads * nodes + tails)))
        self.arcs, place = arcs(key, nodes), np.searchsorted(key, edges)
        self.capacity = np.bincount(place[: len(tail)], capacity, len(key))
        self.supplies = place[len(tail) :]
        self.most = 1.0 + 2 * float(capacity[np.isfinite(capacity)].sum())

    def cut(self, supply: Floats, sinks: Ints, limit: float) -> Cut | None:
        """The least cut between the source, which feeds device d with `supply[d]`, and the sinks,
        as a set of devices; None if there is none under `limit`, to which the supply that it cuts
        off counts."""
        if limit <= 0:
            return None
        capacity = self.capacity.copy()
        capacity[self.supplies] = supply
        steps = np.rint(np.minimum(capacity, limit) * (UNITS / limit)).astype(np.int64)
        inside = np.zeros(len(self.arcs.first) - 1, dtype=np.int8)
        sink, *drains = np.array_split(sinks.astype(np.int64), [1])
        ends = np.array([len(inside) - 1]), drains[0]
        find = kernel(least_flow, len(steps))
        if find(self.arcs, steps, ends, sink, (-1, UNITS), inside) >= UNITS:
            return None
        crossing = np.repeat(inside, np.diff(self.arcs.first)) > inside[self.arcs.head]
        within = inside[: self.devices].astype(np.bool_)
        return Cut(within, float(self.capacity[crossing].sum()))


def arcs(key: Longs, nodes: int) -> Arcs:
    """The arcs whose tail · nodes + head is in `key`: ascending, with that of each opposite arc.

    >>> arcs(np.array([1, 3, 5, 7]), 3).head.tolist(), arcs(np.array([1, 3, 5, 7]), 3).back.tolist()
    ([1, 0, 2, 1], [1, 0, 3, 2])
    """
    tail, head = np.divmod(key, nodes)
    first = np.searchsorted(tail, np.arange(nodes + 1))
    back = np.searchsorted(key, head * nodes + tail)
    return Arcs(*(column.astype(np.int32) for column in (first, head, back)))


def flow_edges(topology: Topology, source: Ints, target: Ints) -> tuple[Longs, Longs, Floats]:
    """Tail, head and capacity of every edge: from device to device, or by way of the nodes of
    shared media.

    Of the media of a link come first those that few sources share, last those that few targets do.
    """
    links, devices = topology.links, len(topology.device_names)
    wire = topology.medium_bandwidth[:links]
    if not topology.shared_names:
        return source.astype(np.int64), target.astype(np.int64), wire
    medium = topology.link_media - links
    link, medium = topology.crossing_links[medium >= 0], medium[medium >= 0]
    spread = _distinct(medium, source[link], topology) - _distinct(medium, target[link], topology)
    order = np.lexsort((spread[medium], link))
    link, node = link[order], devices + 2 * medium[order]
    owner = np.concatenate((np.arange(links), link))
    tail = np.concatenate((source, node + 1))[np.argsort(owner, kind="stable")]
    leads_to = np.concatenate((link, np.arange(links)))
    head = np.concatenate((node, target))[np.argsort(leads_to, kind="stable")]
    entry = devices + 2 * np.arange(len(topology.shared_names))
    return (
        np.concatenate((tail, entry)).astype(np.int64),
        np.concatenate((head, entry + 1)).astype(np.int64),
        np.concatenate((wire[np.sort(owner)], topology.medium_bandwidth[links:])),
    )


def _distinct(medium: Ints, device: Ints, topology: Topology) -> Longs:
    pairs = distinct(medium.astype(np.int64) * len(topology.device_names) + device)
    return np.bincount(pairs // len(topology.device_names), minlength=len(topology.shared_names))


def congestion(topology: Topology, sources: Longs, targets: Longs) -> float:
    """Seconds a byte if each source rank sends to its target rank at the same time, along the
    topology's routes.

    It is infinite if a rank has no route to its target.
    """
    try:
        _, links = topology.routes(sources, targets)
    except InputError:
        return np.inf
    return float((topology.uses(links) / topology.medium_bandwidth).max(initial=0.0))


def concurrent_flow(topology: Topology, devices: Ints, demand: Floats) -> float:
    """The least seconds in which `demand[i, j]` bytes get from `devices[i]` to `devices[j]`, for
    all i and j at once.

    A linear program with one flow a source (F. Shahrokhi, D. W. Matula, "The maximum concurrent
    flow problem", JACM 1990). The prices of media that come with its solution go through
    :func:`stretch`: so the answer is a lower limit to the last digit, whatever the solver's
    tolerance. Infinite where there is no way.

    >>> from topologies.shapes import ring
    >>> machine = ring(4, bandwidth=1.0)
    >>> concurrent_flow(machine, machine.placement, np.ones((4, 4)) - np.eye(4))
    2.0
    """
    hops = stretch(topology, devices, demand, np.ones(len(topology.medium_bandwidth)))
    if hops == 0 or not np.isfinite(hops):
        return hops
    return max(hops, stretch(topology, devices, demand, _prices(topology, devices, demand)))


def stretch(topology: Topology, devices: Ints, demand: Floats, prices: Floats) -> float:
    """A lower limit in seconds on moving `demand[i, j]` bytes from `devices[i]` to `devices[j]`,
    for all i and j.

    Let every byte pay `prices[m]` to cross medium m. Each byte pays at least for its cheapest
    route. A medium earns at most β times its price a second. With prices of 1 this counts bytes
    times links. With the best prices it equals the concurrent flow, of which it is the dual.
    """
    limiting = np.isfinite(topology.medium_bandwidth)
    prices = np.where(limiting, prices, 0.0)
    price = np.bincount(topology.crossing_links, prices[topology.link_media], topology.links)
    length = np.asarray(price, dtype=np.float64)
    away = distances(replace(topology, latency=length, placement=devices))
    paid = float(demand[demand > 0] @ away[demand > 0])
    capacity = float(prices[limiting] @ topology.medium_bandwidth[limiting])
    return paid / capacity if capacity > 0 else paid


def _prices(topology: Topology, devices: Ints, demand: Floats) -> Floats:
    """The price of each medium where T is least.

    Source s sends `x[s, k]` over link k. What enters a device less what leaves it is its demand.
    All x over a medium, divided by its β, are at most T.
    """
    from scipy.optimize import linprog

    sources = np.flatnonzero(demand.any(axis=1))
    deficit = np.zeros((len(sources), len(topology.device_names)))
    deficit[:, devices] = demand[sources] / demand.max()
    deficit[np.arange(len(sources)), devices[sources]] -= deficit.sum(axis=1)
    limiting = np.flatnonzero(np.isfinite(topology.medium_bandwidth))
    slowness = topology.medium_bandwidth[limiting].min() / topology.medium_bandwidth[limiting]
    balance = _balance(topology, len(sources))
    load = _load(topology, limiting, slowness, len(sources))
    time = np.arange(load.shape[1]) == load.shape[1] - 1
    solved = linprog(
        time, load, np.zeros(len(limiting)), balance, deficit.ravel(), method="highs-ds"
    )
    prices = np.zeros(len(topology.medium_bandwidth))
    prices[limiting] = np.maximum(-solved.ineqlin.marginals, 0.0) * slowness
    return prices


def _balance(topology: Topology, sources: int) -> Matrix:
    """What enters each device less what leaves it, a row for every source and device, a column for
    every x and T."""
    from scipy.sparse import csr_array

    links, devices = topology.links, len(topology.device_names)
    first = devices * np.arange(sources)[:, None]
    row = np.concatenate([(first + end).ravel() for end in (topology.target, topology.source)])
    column = np.tile(np.arange(sources * links), 2)
    value = np.repeat((1.0, -1.0), sources * links)
    return csr_array((value, (row, column)), shape=(sources * devices, sources * links + 1))


def _load(topology: Topology, limiting: Longs, slowness: Floats, sources: int) -> Matrix:
    """The bytes that cross each medium, weighted, less T: a row for each of `limiting`, a column
    for every x and T."""
    from scipy.sparse import csr_array

    crossings = np.isin(topology.link_media, limiting)
    row, every = np.searchsorted(limiting, topology.link_media[crossings]), np.arange(len(limiting))
    column = (
        topology.links * np.arange(sources)[:, None] + topology.crossing_links[crossings]
    ).ravel()
    time = np.full(len(limiting), sources * topology.links)
    value = np.concatenate((np.tile(slowness[row], sources), np.full(len(limiting), -1.0)))
    ends = np.concatenate((np.tile(row, sources), every)), np.concatenate((column, time))
    return csr_array((value, ends), shape=(len(limiting), sources * topology.links + 1))
