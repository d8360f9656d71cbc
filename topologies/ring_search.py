"""Rings for a machine: through every node along its fastest links, and across the network once a
node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import NamedTuple

import numpy as np

from topologies.columns import entries, spread
from topologies.errors import InputError
from topologies.routing import distances
from topologies.topology import Floats, Ints, Longs, Routes, Topology

Load = Callable[[Ints], Floats]
"""From the orders of rings to the load of every medium."""
Box = tuple[int, ...]
"""The places of a node in a box, in row-major order: its extents. A shift is one along each axis,
and goes round."""


def alike(orders: Ints, groups: list[Ints], load: Load) -> tuple[Ints, Box]:
    """As many rings as a node has ranks, each of which is the first of `orders` after another shift
    of the places of every node, where these load the media alike; else the same, and ().

    A simulation of such rings needs fewer ranks.
    """
    size, ranks = len(groups[0]), orders.shape[1]
    in_order = size * len(groups) == ranks and np.array_equal(np.concatenate(groups), range(ranks))
    if len(groups) == 1 or len(orders) != size or not in_order:
        return orders, ()
    before = np.sort(load(orders))
    for box in _boxes(size):
        rings = orders[0] - orders[0] % size + shifted(box)[:, orders[0] % size]
        if np.array_equal(np.sort(load(rings)), before):
            return rings.astype(np.int32), box
    return orders, ()


def shifted(box: Box) -> Ints:
    """Where each shift takes each place, shape (shifts, places). Shift k takes place 0 to place k.

    >>> shifted((2, 2)).tolist()
    [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
    """
    places = np.array(np.unravel_index(np.arange(prod(box)), box))
    moved = (places[:, :, None] + places[:, None, :]) % np.array(box)[:, None, None]
    return np.asarray(np.ravel_multi_index(tuple(moved), box), dtype=np.int32)


def _boxes(size: int) -> Iterator[Box]:
    yield (size,)
    if size > 2 and size % 2 == 0:
        yield size // 2, 2


PAIRS = 128
"""Ranks of a node up to which the distances of all pairs are computed. Beyond, the rank order is
used."""
CHANNELS = 16
GAIN = 1e-3
"""Another channel is added if all channels together get faster by more than this share."""


@dataclass(frozen=True, eq=False)
class Rings:
    """Rings for the machine. `orders[c]` lists the ranks round ring c, shape (channels, ranks).

    Each ring carries an equal share. `bandwidth` is what all rings together pass on from rank to
    rank, in bytes/s. The slowest medium limits it: its β over the share that crosses it.
    """

    orders: Ints
    bandwidth: float
    box: Box = ()
    """The places of a node, if each ring is the first one shifted in every node: ring c by place c
    (:func:`topologies.ring_search.alike`)."""


class Stage(NamedTuple):
    """Steps of every pattern from ranks of one group to ranks of another."""

    starts: Ints
    ends: Ints
    pairs: Longs
    """The place of a step's ends among all pairs of both groups, shape (steps, patterns)."""


def find_rings(topology: Topology, ranks: int, channels: int | None = None) -> Rings:
    """Rings over the first `ranks` ranks: up to :data:`CHANNELS`, or as many as the caller wants.

    Each ring in turn takes the order whose links carry least so far. This is a greedy packing of
    Hamiltonian cycles, as in the channel search of NCCL. If one ring in rank order is faster, it is
    the answer. Where the first ring, shifted in every node, makes rings that load the media alike,
    they are the answer.

    >>> from topologies.clusters import cluster
    >>> find_rings(cluster("dgx1"), 8).bandwidth / 1e9
    120.0
    """
    if not 2 <= ranks <= topology.ranks:
        raise InputError(
            f"ranks is {ranks}: {topology.name} has {topology.ranks}, a ring takes 2 or more"
        )
    if channels is not None and not 1 <= channels <= 64:
        raise InputError(f"channels is {channels}: 1 to 64")
    groups = _groups(topology, ranks)
    patterns = _patterns(topology, groups)
    most = min(_ceiling(topology, max(groups, key=len)), _way_out(topology, groups))
    best = Rings(np.zeros((0, ranks), dtype=np.int32), 0.0)
    for other in _second_nodes(topology, groups):
        rings = _packed(topology, groups, patterns, other, most, channels)
        if rings.bandwidth > best.bandwidth * (1 + GAIN):
            best = rings
        if best.bandwidth >= most:
            break
    alone = in_rank_order(topology, ranks)
    if not channels and alone > best.bandwidth * (1 + GAIN):
        return Rings(np.arange(ranks, dtype=np.int32)[None], alone)
    orders, box = alike(best.orders, groups, lambda rings: _loads(topology, rings))
    return Rings(orders, best.bandwidth, box)


def in_rank_order(topology: Topology, ranks: int) -> float:
    """What one ring in rank order passes on from rank to rank, in bytes/s.

    >>> from topologies.clusters import cluster
    >>> in_rank_order(cluster("dgx1"), 2) / 1e9
    20.0
    """
    return _together(topology, 1, _uses(topology, np.arange(ranks, dtype=np.int32), 0))


def _second_nodes(topology: Topology, groups: list[Ints]) -> list[Ints | None]:
    """The nodes to which rings are judged to lead on from the first: the last, which may have fewer
    ranks, and before it the next, if that is nearer.

    Most crossings are to a near node. To a far node they share links by chance, if a hash chooses
    the spine. Rings that avoid each other there leave a node by one rail and enter the next by
    another, and take spines at each crossing.
    """
    if len(groups) == 1:
        return [None]
    near, far = (int(_legs(topology, groups[0][:1], groups[k][:1], 0)[0][-1]) for k in (1, -1))
    return [groups[1], groups[-1]] if near < far else [groups[-1]]


def _packed(
    topology: Topology,
    groups: list[Ints],
    patterns: Longs,
    second: Ints | None,
    most: float,
    channels: int | None,
) -> Rings:
    uses, orders = np.zeros(len(topology.medium_bandwidth)), list[Ints]()
    best = Rings(np.zeros((0, sum(map(len, groups))), dtype=np.int32), 0.0)
    stages = _stages(groups, second, patterns)
    for channel in range(channels or CHANNELS):
        pattern = patterns[_next(topology, stages, patterns, uses, channel)]
        orders.append(
            np.concatenate([group[pattern[pattern < len(group)]] for group in groups]).astype(
                np.int32
            )
        )
        uses += _uses(topology, orders[-1], channel)
        rings = Rings(np.array(orders), _together(topology, len(orders), uses))
        if channels or rings.bandwidth > best.bandwidth * (1 + GAIN):
            best = rings
        if not channels and best.bandwidth >= most:
            break
    return best


def _together(topology: Topology, channels: int, uses: Floats) -> float:
    """Bytes/s that all these rings pass on: the β of the fullest medium over the share that crosses
    it."""
    load = float((uses / topology.medium_bandwidth).max())
    return channels / load if load else np.inf


def _loads(topology: Topology, orders: Ints) -> Floats:
    uses = [_uses(topology, order, channel) for channel, order in enumerate(orders)]
    return np.asarray(np.sum(uses, axis=0) / topology.medium_bandwidth)


def _ceiling(topology: Topology, group: Ints) -> float:
    """What the slowest rank of a node sends over all links that its routes to the others begin
    with, in bytes/s."""
    if not 1 < len(group) <= PAIRS:
        return np.inf
    size, (indptr, links) = len(group), _legs(topology, group, group, 0)
    if np.count_nonzero(np.diff(indptr) == 0) > size:  # two ranks share a device
        return np.inf
    begun = indptr[:-1].reshape(size, size)[~np.eye(size, dtype=np.bool_)].reshape(size, -1)
    return min(float(topology.bandwidth[np.unique(links[row])].sum()) for row in begun)


def _way_out(topology: Topology, groups: list[Ints]) -> float:
    """What the routes from one node to the next can carry together at their narrowest place, in
    bytes/s."""
    if len(groups) == 1 or len(groups[0]) > PAIRS:
        return np.inf
    indptr, links = _legs(topology, groups[0], groups[1], 0)
    hops = np.diff(indptr)
    _, place = spread(hops)
    widths = (
        float(topology.bandwidth[np.unique(links[place == hop])].sum())
        for hop in range(int(hops.min()))
    )
    return min(widths, default=np.inf)


def _groups(topology: Topology, ranks: int) -> list[Ints]:
    """The ranks of every node, in the order in which the nodes come; devices of no node are
    together."""
    node = topology.node[topology.placement[:ranks]]
    _, first = np.unique(node, return_index=True)
    return [np.flatnonzero(node == node[k]).astype(np.int32) for k in np.sort(first)]


def _patterns(topology: Topology, groups: list[Ints]) -> Longs:
    """Orders of the ranks of a node to choose from, by their number within it, shape (orders, ranks
    of a node)."""
    size, start = max(map(len, groups)), len(groups) == 1
    # Every order of up to 8 ranks is tried. Of more, rotations of the rank order and of the order
    # by nearest rank are.
    if size <= 8:
        rest = np.array(list(permutations(range(int(start), size))), dtype=np.int64)
        return np.insert(rest, 0, 0, axis=1) if start else rest
    rank_order = np.arange(size)
    if size > PAIRS:
        return rank_order[None]
    group = max(groups, key=len)
    nearest = _nearest(topology, group)
    orders = [rank_order, rank_order[::-1], nearest, nearest[::-1]]
    return np.unique(
        [np.roll(order, -shift) for order in orders for shift in range(1 if start else size)],
        axis=0,
    )


def _nearest(topology: Topology, group: Ints) -> Longs:
    """An order that starts at the first rank and always goes on to the nearest rank that is
    left."""
    away = distances(topology, group)[:, group]
    order, free = [0], np.ones(len(group), dtype=np.bool_)
    while len(order) < len(group):
        free[order[-1]] = False
        order.append(int(np.argmin(np.where(free, away[order[-1]], np.inf))))
    return np.array(order)


def _next(
    topology: Topology, stages: Sequence[Stage], patterns: Longs, uses: Floats, channel: int
) -> int:
    """The pattern that burdens the fullest media least, looked at on a node and a second."""
    if len(patterns) == 1:
        return 0
    routes = [_legs(topology, stage.starts, stage.ends, channel) for stage in stages]
    # A medium is assumed to carry two further rings. Else the search takes a slow medium only
    # because no ring has crossed it yet.
    weight = (uses + 2) / topology.medium_bandwidth
    cost = np.zeros(len(patterns))
    for stage, (indptr, links) in zip(stages, routes, strict=True):
        total = np.concatenate(([0.0], np.cumsum(weight[links])))
        cost += (total[indptr[1:]] - total[indptr[:-1]])[stage.pairs].sum(axis=0)
    shortlist = np.argsort(np.round(cost / (np.min(cost) or 1.0), 9), kind="stable")[:64]
    return int(shortlist[np.argmin(_fullest(topology, stages, routes, shortlist, uses))])


def _stages(groups: list[Ints], second: Ints | None, patterns: Longs) -> list[Stage]:
    """The steps of every pattern: through a node and back to its start, or through two nodes in
    turn. Of a node that has fewer ranks the pattern takes those that are there."""
    node = max(groups, key=len)
    next_node, next_patterns = node, patterns
    if second is not None:
        next_node = second
        next_patterns = patterns[patterns < len(second)].reshape(len(patterns), -1)

    def stage(starts: Ints, ends: Ints, start: Longs, end: Longs) -> Stage:
        return Stage(starts, ends, np.ascontiguousarray((start * len(ends) + end).T))

    through = stage(node, node, patterns[:, :-1], patterns[:, 1:])
    onward = stage(node, next_node, patterns[:, -1:], next_patterns[:, :1])
    if second is None:
        return [through, onward]
    return [
        through,
        onward,
        stage(next_node, next_node, next_patterns[:, :-1], next_patterns[:, 1:]),
        stage(next_node, node, next_patterns[:, -1:], patterns[:, :1]),
    ]


def _legs(topology: Topology, starts: Ints, ends: Ints, channel: int) -> Routes:
    """The routes from every rank of one group to every rank of another."""
    source, target = np.repeat(starts, len(ends)), np.tile(ends, len(starts))
    return topology.routes(source, target, np.full(len(source), channel))


def _fullest(
    topology: Topology,
    stages: Sequence[Stage],
    routes: Sequence[Routes],
    shortlist: Longs,
    uses: Floats,
) -> Floats:
    """The greatest load of a medium once a ring of each of these patterns is there as well."""
    crossed, burdened = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)]
    for stage, (indptr, links) in zip(stages, routes, strict=True):
        pairs = stage.pairs[:, shortlist].T.ravel()
        pair, hop = entries(indptr, pairs)
        burdened.append(pair // len(stage.pairs))
        crossed.append(links[hop])
    # A large machine has many media that no pattern crosses.
    media, column = np.unique(np.concatenate(crossed), return_inverse=True)
    cells = np.concatenate(burdened) * len(media) + column
    counts = np.bincount(cells, minlength=len(shortlist) * len(media))
    load = (uses[media] + counts.reshape(-1, len(media))) / topology.medium_bandwidth[media]
    before = float((uses / topology.medium_bandwidth).max())
    return np.asarray(np.round(load.max(axis=1, initial=before) * 1e15, 3))


def _uses(topology: Topology, order: Ints, channel: int) -> Floats:
    _, links = topology.routes(order, np.roll(order, -1), np.full(len(order), channel))
    return topology.uses(links)
