"""A machine as a graph with bandwidths between nodes, its least cuts, and the bandwidth of a tree:
the greatest at which all trees fit between the links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies._flow_kernels import least_flow
from topologies.jit import kernel
from topologies.topology import Flags, Floats, Topology

Longs = npt.NDArray[np.int64]
LARGEST_CAPACITY = 2**20
"""The most units of a capacity: more than all trees of a machine together."""


def least_cut(
    capacity: Longs,
    sources: Sequence[int],
    sinks: Longs,
    most: int,
    *,
    drains: Sequence[int] = (),
    enough: int = -1,
) -> tuple[int, Flags]:
    """The least number of units that can flow from some nodes to one of the `sinks` together with
    `drains`, at most `most`, and the nodes on the side of the sources, shape (nodes,).

    Sinks are asked in order, until the flow is no more than `enough`. The one with the least flow
    moves to the front. No sink may be the only one that is a source.

    >>> least_cut(np.array([[0, 3, 0], [0, 0, 2], [0, 0, 0]]), [0], np.array([2]), 9)[0]
    2
    """
    inside = np.zeros(len(capacity), dtype=np.int8)
    ends = np.array(sources, dtype=np.int64), np.array(drains, dtype=np.int64)
    find = kernel(least_flow, len(capacity) * len(sinks))
    return find(capacity, ends, sinks, (enough, most), inside), inside.astype(np.bool_)


def with_source(capacity: Longs, supply: Longs) -> Longs:
    """The capacities with one node more, which feeds each node with `supply`."""
    joined = np.zeros((len(capacity) + 1, len(capacity) + 1), dtype=np.int64)
    joined[:-1, :-1], joined[-1, :-1] = capacity, supply
    return joined


def wiring(topology: Topology) -> Floats:
    """Bytes/s from node to node, shape (nodes, nodes): the devices, and two nodes for each medium
    that links share.

    Where a path through the nodes of these media would not be a link, there are devices alone, and
    each link has an equal part of its media.

    >>> from topologies.shapes import line
    >>> wiring(line(2, bandwidth=1.0)).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    shared = _shared(topology)
    if _is_complete(topology, shared):
        return _through_media(topology, shared)
    users = np.bincount(topology.link_media, minlength=len(topology.medium_bandwidth))
    part = (topology.medium_bandwidth / np.maximum(users, 1))[topology.link_media]
    bandwidth = np.zeros((len(topology.device_names),) * 2)
    bandwidth[topology.source, topology.target] = np.minimum.reduceat(
        part, topology.link_indptr[:-1]
    )
    return bandwidth


def _shared(topology: Topology) -> list[list[int]]:
    """The shared media of each link: first those that few sources use, last those that few targets
    use."""
    users: dict[int, tuple[set[int], set[int]]] = {}
    crossed = [topology.media_of(link)[1:].tolist() for link in range(topology.links)]
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for media, pair in zip(crossed, ends, strict=True):
        for medium in media:
            for devices, device in zip(users.setdefault(medium, (set(), set())), pair, strict=True):
                devices.add(device)
    spread = {medium: len(senders) - len(others) for medium, (senders, others) in users.items()}
    return [sorted(media, key=lambda medium: spread[medium]) for media in crossed]


def _is_complete(topology: Topology, shared: list[list[int]]) -> bool:
    """Whether what enters a medium on one link may leave it to the end of any other."""
    crossing: dict[int, set[tuple[int, int]]] = {}
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for media, pair in zip(shared, ends, strict=True):
        for medium in media:
            crossing.setdefault(medium, set()).add(pair)
    return all(
        (sender, receiver) in pairs or sender == receiver
        for pairs in crossing.values()
        for sender in {sender for sender, _ in pairs}
        for receiver in {receiver for _, receiver in pairs}
    )


def _through_media(topology: Topology, shared: list[list[int]]) -> Floats:
    devices, links = len(topology.device_names), topology.links
    media = len(topology.shared_names)
    bandwidth = np.zeros((devices + 2 * media,) * 2)
    first = devices + 2 * np.arange(media)
    bandwidth[first, first + 1] = topology.medium_bandwidth[links:]
    for link, crossed in enumerate(shared):
        stops = [devices + 2 * (medium - links) for medium in crossed]
        tails = [int(topology.source[link]), *(stop + 1 for stop in stops)]
        heads = [*stops, int(topology.target[link])]
        bandwidth[tails[0], heads[0]] += topology.medium_bandwidth[link]
        for tail, head in zip(tails[1:], heads[1:], strict=True):
            bandwidth[tail, head] = np.inf
    return bandwidth


QUOTIENT_ERROR = 1e-12
"""The relative error of a quotient of two bandwidths."""


class TreeUnit(NamedTuple):
    """The trees of a machine, counted."""

    bandwidth: float
    """Bytes/s of a tree."""
    trees: Longs
    """The trees from each node, shape (nodes,)."""
    capacity: Longs
    """The trees for which there is room from node to node, shape (nodes, nodes)."""


def unit(bandwidth: Floats, trees: Longs, sinks: Flags, most: float) -> TreeUnit:
    """The greatest bandwidth, at most `most`, of so many `trees` from each node to all `sinks`.

    A cut has room for ⌊β/y⌋ trees of bandwidth y on each link. A cut that has too little room
    for the trees from its nodes tells the next lower y to try (Newton's method, exact in its last
    step). It is 0 if no link leads out of some roots.
    """
    total, y = int(trees.sum()), most
    while True:
        capacity = whole(bandwidth, y, total)
        room, inside = _from_roots(capacity, trees, np.flatnonzero(sinks)[::-1].copy())
        if room >= total:
            return TreeUnit(y, trees, capacity)
        y = min(_of_cut(bandwidth, inside, int(trees[inside].sum())), y * (1 - QUOTIENT_ERROR))
        if y == 0.0:
            return TreeUnit(y, trees, np.zeros_like(capacity))


def whole(bandwidth: Floats, y: float, unlimited: int) -> Longs:
    """How often y goes into each bandwidth; `unlimited` times into one without limit.

    >>> whole(np.array([0.0, 1.0, 2.5, np.inf]), 1.0, 9).tolist()
    [0, 1, 2, 9]
    """
    times = np.where(np.isinf(bandwidth), unlimited, np.floor(bandwidth / y * (1 + QUOTIENT_ERROR)))
    return np.minimum(times, LARGEST_CAPACITY).astype(np.int64)


def is_spanned(capacity: Longs, trees: Longs, sinks: Flags) -> bool:
    """Whether so many trees from each node reach all `sinks`."""
    return _from_roots(capacity, trees, np.flatnonzero(sinks))[0] >= int(trees.sum())


def _from_roots(capacity: Longs, trees: Longs, sinks: Longs) -> tuple[int, Flags]:
    """The room for trees to a sink that has too little, and the nodes on the side of the roots."""
    total = int(trees.sum())
    graph = with_source(capacity, trees)
    room, inside = least_cut(graph, [len(capacity)], sinks, total, enough=total - 1)
    return room, inside[:-1]


def _of_cut(bandwidth: Floats, inside: Flags, trees: int) -> float:
    """The greatest bandwidth of a tree at which so many leave the nodes `inside`."""
    crossing = bandwidth[np.ix_(inside, ~inside)].ravel()
    crossing = crossing[crossing > 0]
    needed = trees - LARGEST_CAPACITY * int(np.isinf(crossing).any())
    if not len(crossing) or needed <= 0:
        return 0.0 if not len(crossing) else np.inf
    rooms = crossing[:, None] / np.arange(1, trees + 1)
    return float(np.partition(rooms.ravel(), -trees)[-trees])
