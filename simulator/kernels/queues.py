"""What operations wait for: the causes of bubbles."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from simulator.kernels.path import copy, crossings, hold_time, latest, longest
from simulator.kernels.records import (
    TRANSFER,
    Flags,
    Floats,
    History,
    Index,
    Ints,
    Longs,
    Network,
    Routes,
    Times,
)

TRANSFERS, CONTENTION, COMPUTATIONS, QUEUES = range(4)
"""What fills a gap: the first three are places in `bubbles.CAUSES`. Of a queue, a part may be
contention."""
_NONE = -1
_FIRST = 64
"""Parts for which there is room at first."""
_EDGES = 6
"""Edges of an operation at most, besides two for each hop."""


class GapParts(NamedTuple):
    """The parts of gaps."""

    places: Annotated[Ints, 2]
    """The gap, the operation that fills the part, its node if it waits in a queue, and what fills
    the part, shape (parts, 4)."""
    times: Annotated[Floats, 2]
    """When the part begins and ends, shape (parts, 2)."""
    used: Longs
    """The number of parts, shape (1,)."""


class Gaps(NamedTuple):
    """Gaps of ranks to fill, a row each."""

    operation: Ints
    """The operation with which the gap ends, or what explains the end of the gap."""
    itself: Flags
    """Whether what the operation does fills the gap; otherwise only what comes before it."""
    rank: Ints
    """The rank whose gap it is."""
    begin: Floats
    """When it begins."""


def idle(history: History, gaps: Gaps, end: float) -> GapParts:
    """The causes of the gaps, up to `end`: back from predecessor to predecessor."""
    predecessors, routes = history.work.predecessors, history.work.routes
    ready, finish = history.times.ready, history.times.finish
    edge = np.empty(2 * len(routes.links) + _EDGES)
    parts = GapParts(np.empty((_FIRST, 4), np.int32), np.empty((_FIRST, 2)), np.zeros(1, np.int64))
    for k in range(len(gaps.operation)):
        i, begin, counts = gaps.operation[k], gaps.begin[k], gaps.itself[k] > 0
        while counts or ready[i] > begin:
            if not counts:
                i = latest(predecessors, finish, routes.nodes, i)
            counts = False
            more = 2 * (routes.nodes[i + 1] - routes.nodes[i]) + _EDGES
            if parts.used[0] + more > len(parts.times):
                places = np.empty((2 * parts.used[0] + more, 4), np.int32)
                times = np.empty((len(places), 2))
                copy(parts.places, places, parts.used[0])
                copy(parts.times, times, parts.used[0])
                parts = GapParts(places, times, parts.used)
            explain(history, edge, parts, gaps, k, i, end)
    used = parts.used[0]
    return GapParts(parts.places[:used], parts.times[:used], parts.used)


def explain(
    history: History, edge: Floats, parts: GapParts, gaps: Gaps, k: Index, i: Index, end: float
) -> None:
    """Add what operation `i` did in gap `k`, up to the end."""
    edges, merging = edges_of(history, i, edge)
    nodes = history.work.routes.nodes
    for e in range(edges, 0, -1):
        since, until = max(edge[e - 1], gaps.begin[k]), min(edge[e], end)
        if until <= since:
            continue
        filled = QUEUES
        if history.work.operations.kind[i] != TRANSFER:
            filled = COMPUTATIONS
        elif e % 2 == 0:
            filled = TRANSFERS
        elif history.fair and e != merging:
            filled = CONTENTION
        row = parts.used[0]
        parts.places[row, 0], parts.places[row, 1] = k, i
        parts.places[row, 2] = nodes[i + 1] - 1 if e == merging else nodes[i] + e // 2
        parts.places[row, 3] = filled
        parts.times[row, 0], parts.times[row, 1] = since, until
        parts.used[0] += 1


def edges_of(history: History, i: Index, edge: Floats) -> tuple[int, int]:
    """Fill in the times at which an operation passes from queueing to the wire and back, from ready
    on: on the way of the bytes that arrived last, then at its work at the end of the route. A
    computation has two.

    Returns the number of the last edge, and that of the edge at which the work at the end begins,
    or -1.
    """
    operations, _, routes, network, _ = history.work
    times, nbytes = history.times, operations.nbytes[i]
    first, transfers = routes.nodes[i], operations.kind[i] == TRANSFER
    hops = routes.indptr[routes.route[i] + 1] - routes.indptr[routes.route[i]] if transfers else 0
    edge[0], arrival, edges, merging = times.ready[i], -1.0, 1, _NONE
    if history.fair and hops > 0:
        arrival = flow_edges(history, i, edge)
        edges = 4
    elif hops > 0:
        arrival, edges = hop_edges(
            routes, network, times, nbytes, i, edge, history.store_and_forward
        )
    if transfers and routes.nodes[i + 1] - first > hops:
        if hops > 0:
            edge[edges] = arrival
            edges += 1
        edge[edges] = times.start[routes.nodes[i + 1] - 1]
        merging = edges
        edges += 1
    edge[edges] = times.finish[i]
    return edges, merging


def flow_edges(history: History, i: Index, edge: Floats) -> float:
    """The edges of a flow: what other ranks cause comes first. Returns when the last byte
    arrives."""
    operations, _, routes, network, _ = history.work
    times, sender, nbytes = history.times, history.sender, operations.nbytes[i]
    links = routes.links[routes.indptr[routes.route[i]] : routes.indptr[routes.route[i] + 1]]
    alone, delay = 0.0, 0.0
    for hop in range(len(links)):
        delay += network.latency[links[hop]]
        for m in network.media[network.indptr[links[hop]] : network.indptr[links[hop] + 1]]:
            times_crossed = crossings(routes, network, sender, i, hop, m)
            alone = max(alone, times_crossed * nbytes / network.bandwidth[m])
    start = times.start[routes.nodes[i]]
    took = times.sent[i] - start
    waited = took - min(took, alone)
    edge[1], edge[2], edge[3] = times.ready[i], start, start + waited * history.others[i]
    return times.sent[i] + delay


def hop_edges(
    routes: Routes,
    network: Network,
    times: Times,
    nbytes: float,
    i: Index,
    edge: Floats,
    store_and_forward: bool,
) -> tuple[float, int]:
    """The edges of a transfer on its hops. Returns when the last byte arrives, and the number of
    the edge of the bytes that arrived last."""
    links = routes.links[routes.indptr[routes.route[i]] : routes.indptr[routes.route[i] + 1]]
    head, arrival, edges = times.ready[i], -1.0, 1
    for hop in range(len(links)):
        link, start = links[hop], times.start[routes.nodes[i] + hop]
        service = hold_time(network, longest(network, link, nbytes), nbytes)
        edge[2 * hop], edge[2 * hop + 1] = head, start
        if start + service > arrival:
            arrival, edges = start + service, 2 * hop + 2
        arrival += network.latency[link]
        head = start + (service if store_and_forward else 0.0) + network.latency[link]
    return arrival, edges
