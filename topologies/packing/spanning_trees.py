"""Spanning trees of the ranks of a machine, from its capacities to branches with their links.

Edges are split off at nodes that are no rank: what comes in by one edge goes on by another, as one
edge past the node. Then trees with a common number of edges are packed, one edge at a time, after
K. Bérczi, A. Frank, "Packing arborescences", 2010: an edge may join a tree if all trees can still
be completed, which one least cut tells. Equal trees are one bunch until they part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from topologies.columns import plain_rows
from topologies.packing.flow_graph import TreeUnit, is_spanned, least_cut, with_source
from topologies.topology import Flags, Ints, Longs, Topology


class NoWay(LookupError):
    """An edge has fewer ways than units, or trees have no longer room: trees of another number are
    tried."""


class Way(NamedTuple):
    """Room for trees from node to node."""

    units: int
    """How many trees have room."""
    nodes: tuple[int, ...]
    """The nodes on the way, both ends included."""


Ways = dict[tuple[int, int], list[Way]]
"""The ways from node to node."""


class Split:
    """The capacities of a graph while its edges are split off."""

    def __init__(self, capacity: Longs, trees: Longs, sinks: Flags) -> None:
        self.trees, self.sinks = trees, sinks
        self.total = int(trees.sum())
        self.graph = with_source(capacity, trees)
        self.capacity = self.graph[:-1, :-1]
        self.nearest = [np.flatnonzero(sinks), np.flatnonzero(sinks)]
        ends = zip(*np.nonzero(capacity), strict=True)
        self.ways: Ways = {
            (int(u), int(v)): [Way(int(capacity[u, v]), (int(u), int(v)))] for u, v in ends
        }

    def off(self, node: int) -> None:
        """Split off all edges at a node, such that all trees still have room.

        First every pair of neighbours gets an equal part. What is left must lead back to where it
        comes from, or a neighbour that is no rank would get more than it sends. If it does not, or
        there is too little room somewhere, pair after pair gets as much as all cuts allow.
        """
        before, ways = self.capacity.copy(), {pair: list(row) for pair, row in self.ways.items()}
        fits = True
        for u, v, units in _evenly(self.capacity, node):
            fits = units <= min(self.capacity[u, node], self.capacity[node, v])
            if not fits:
                break
            self._join(u, node, v, units)
        turned = fits and np.array_equal(self.capacity[:, node], self.capacity[node])
        self._clear(node)
        if turned and is_spanned(self.capacity, self.trees, self.sinks):
            return
        self.capacity[:], self.ways = before, ways
        self._trim(node)
        for u, v in _pairs(self.capacity, node):
            if units := self._room(u, node, v):
                self._join(u, node, v, units)
        self._clear(node)

    def _room(self, u: int, node: int, v: int) -> int:
        """How much u -> node -> v may become u -> v: a cut loses it that has u and v on one side
        and the node on the other."""
        units = int(min(self.capacity[u, node], self.capacity[node, v]))
        units = self._slack([u, v], [node], units)
        return self._slack([node], [u, v], units)

    def _slack(self, near: list[int], far: list[int], most: int) -> int:
        """By how much the least cut between the roots and a sink is wider than needed, with some
        nodes on the side of the roots and some on the other; at most `most`. Raises NoWay if it is
        narrower."""
        if most <= 0:
            return most
        sources, sinks = [len(self.capacity), *near], self.nearest[len(near) - 1]
        limit = self.total + most
        room, _ = least_cut(self.graph, sources, sinks, limit, drains=far, enough=self.total)
        if room < self.total:
            raise NoWay
        return room - self.total

    def _trim(self, node: int) -> None:
        """Take from the edges at a node what is too much in or out, where no cut needs it."""
        for entering in (True, False):
            into, out = int(self.capacity[:, node].sum()), int(self.capacity[node].sum())
            extra = into - out if entering else out - into
            row = self.capacity[:, node] if entering else self.capacity[node]
            for other in np.argsort(-row).tolist():
                near, far = ([other], [node]) if entering else ([node], [other])
                units = self._slack(near, far, min(extra, int(row[other])))
                if units > 0:
                    tail, head = (other, node) if entering else (node, other)
                    self._take(tail, head, units)
                    extra -= units

    def _join(self, u: int, node: int, v: int, units: int) -> None:
        """Make u -> v of u -> node -> v."""
        first, second = self._take(u, node, units), self._take(node, v, units)[::-1]
        if u == v:
            return
        self.capacity[u, v] += units
        for way in reversed(first):
            for onward in taken(second, way.units):
                joined = Way(onward.units, (*way.nodes, *onward.nodes[1:]))
                self.ways.setdefault((u, v), []).append(joined)

    def _take(self, u: int, v: int, units: int) -> list[Way]:
        """Ways from u to v of so many units, which no longer are."""
        self.capacity[u, v] -= units
        return [*taken(self.ways[u, v], units)]

    def _clear(self, node: int) -> None:
        self.capacity[node], self.capacity[:, node] = 0, 0
        self.ways = {pair: ways for pair, ways in self.ways.items() if node not in pair}


def split_off(chosen: TreeUnit, sinks: Flags) -> Split | None:
    """The graph of the sinks alone; None if trees have no longer room."""
    split = Split(chosen.capacity, chosen.trees, sinks)
    try:
        for node in np.flatnonzero(~sinks).tolist():
            split.off(node)
    except NoWay:
        return None
    return split if is_spanned(split.capacity, chosen.trees, sinks) else None


def taken(ways: list[Way], units: int) -> Iterator[Way]:
    """Ways of so many units, which the list loses from its front. Raises NoWay if it has fewer."""
    while units:
        if not ways:
            raise NoWay
        way = ways.pop(0)
        part = min(units, way.units)
        if part < way.units:
            ways.insert(0, way._replace(units=way.units - part))
        units -= part
        yield way._replace(units=part)


def _pairs(capacity: Longs, node: int) -> list[tuple[int, int]]:
    """Every neighbour before the node with every one after it; the same one last."""
    before, after = np.flatnonzero(capacity[:, node]), np.flatnonzero(capacity[node])
    count = len(after)
    turns = [
        (int(u), int(after[(place + turn) % count]))
        for turn in range(count)
        for place, u in enumerate(before)
    ]
    return sorted(turns, key=lambda pair: pair[0] == pair[1])


def _evenly(capacity: Longs, node: int) -> Iterator[tuple[int, int, int]]:
    """Parts of the edges at a node for every pair of different neighbours: as equal as whole
    numbers can be, neighbours that follow each other first."""
    into, out = capacity[:, node].copy(), capacity[node].copy()
    pairs = [(u, v) for u, v in _pairs(capacity, node) if u != v]
    for last in (False, True):
        waiting = np.zeros((2, len(capacity)), dtype=np.int64)
        for u, v in pairs:
            waiting[0, u] += 1
            waiting[1, v] += 1
        for u, v in pairs:
            even = min(int(into[u]) // int(waiting[0, u]), int(out[v]) // int(waiting[1, v]))
            units = int(min(into[u], out[v])) if last else even
            waiting[0, u] -= not last
            waiting[1, v] -= not last
            if units:
                into[u] -= units
                out[v] -= units
                yield u, v, units


@dataclass
class Bunch:
    """Equal trees."""

    root: int
    count: int
    """The number of trees."""
    depth: dict[int, int]
    """The edges between the root and each node that the trees have."""
    edges: list[tuple[int, int]]
    """The edges, in the order in which they were added."""


def trees(capacity: Longs, roots: Longs, nodes: list[int]) -> list[Bunch]:
    """So many trees from each of the `nodes`, such that no more use an edge than it has room for.

    Every set of nodes must have room for the trees from outside. Of the edges that may join a
    tree, the one nearest to the root with the most room does. If several are alike, it is the one
    to the next node.
    """
    free, done = capacity.copy(), []
    waiting = roots.copy()
    for root in sorted(nodes, key=lambda node: -int(roots[node])):
        if not roots[root]:
            continue
        waiting[root] = 0
        growing = [Bunch(root, int(roots[root]), {root: 0}, [])]
        while growing:
            bunch = growing.pop()
            while len(bunch.depth) < len(nodes):
                rest = _grow(bunch, free, growing, waiting, nodes)
                if rest is not None:
                    growing.append(rest)
            done.append(bunch)
    return done


def _grow(
    bunch: Bunch, free: Longs, others: list[Bunch], waiting: Longs, nodes: list[int]
) -> Bunch | None:
    """Add an edge to a bunch, or to a part of it: the rest is returned."""
    outside = [node for node in nodes if node not in bunch.depth]
    candidates = [
        (depth, -int(free[tail, head]), (head - tail) % len(free), tail, head)
        for tail, depth in bunch.depth.items()
        for head in outside
        if free[tail, head]
    ]
    graph = _joined(free, others, waiting, nodes)
    needed = int(waiting.sum()) + sum(other.count for other in others)
    for depth, room, _, tail, head in sorted(candidates):
        most = min(bunch.count, -room)
        joined = graph.copy()
        joined[tail, -1] = graph[-1].sum()  # the last node is reached from `tail` at no cost
        cut = least_cut(joined, [tail], np.array([head]), needed + most)[0]
        if (units := cut - needed) > 0:
            rest = None
            if units < bunch.count:
                rest = Bunch(bunch.root, bunch.count - units, dict(bunch.depth), list(bunch.edges))
                bunch.count = units
            free[tail, head] -= units
            bunch.depth[head] = depth + 1
            bunch.edges.append((tail, head))
            return rest
    raise AssertionError(f"no edge may join a tree from node {bunch.root}")


def _joined(free: Longs, others: list[Bunch], waiting: Longs, nodes: list[int]) -> Longs:
    """The free edges and a node for each bunch that is not complete, which leads to the nodes that
    it has. The node after those leads to the roots of trees that have no edge yet."""
    size = len(free) + len(others) + 1
    graph = np.zeros((size, size), dtype=np.int64)
    graph[: len(free), : len(free)] = free
    most = int(waiting.sum()) + int(free.sum()) + sum(other.count for other in others)
    for number, other in enumerate(others):
        graph[len(free) + number, list(other.depth)] = most
        graph[-1, len(free) + number] = other.count
    graph[-1, : len(free)] = waiting
    return graph


class Branch(NamedTuple):
    """An edge of some equal trees."""

    root: int
    """The rank whose data the trees carry."""
    first: int
    """The first of these trees, of those of the root."""
    trees: int
    """The number of these trees."""
    source: int
    """The rank that sends. In trees towards their root it is the one farther from it."""
    target: int
    """The rank that receives."""
    links: tuple[int, ...]
    """The links on the way; none between ranks on one device."""
    depth: int
    """The edges on the way between the root and the farther end, this edge included."""


class TreeWays:
    """The ways between devices, which trees use up one after the other, the shortest first."""

    def __init__(self, topology: Topology, placed: Ints, ways: Ways, *, towards: bool) -> None:
        self.towards, self.devices = towards, len(topology.device_names)
        self.device = placed.tolist()
        self.ways = {
            pair: sorted(rows, key=lambda way: (-len(way.nodes), way.nodes))[::-1]
            for pair, rows in ways.items()
        }
        ends = plain_rows(topology.source, topology.target)
        self.link = {pair: number for number, pair in enumerate(ends)}
        self.ranks_on: dict[int, list[int]] = {}
        for rank, device in enumerate(self.device):
            self.ranks_on.setdefault(device, []).append(rank)

    def lay(
        self, edges: list[tuple[int, int]], root: int, first: int, count: int
    ) -> Iterator[Branch]:
        """The branches of some trees of a rank. Of the ranks on a device the root or the first
        talks to other devices."""
        depth = {self.device[root]: 0}
        yield from self._local(root, (root, first, count), 0)
        for tail, head in edges:
            depth[head] = depth[tail] + 1
            source = root if tail == self.device[root] else self.ranks_on[tail][0]
            target = self.ranks_on[head][0]
            for begin, units, links in self._taken(tail, head, first, count):
                trees = root, begin, units
                yield self._branch(trees, source, target, links, depth[head])
            yield from self._local(target, (root, first, count), depth[head])

    def _local(self, rank: int, trees: tuple[int, int, int], depth: int) -> Iterator[Branch]:
        for other in self.ranks_on[self.device[rank]]:
            if other != rank:
                yield self._branch(trees, rank, other, (), depth + 1)

    def _branch(
        self,
        trees: tuple[int, int, int],
        source: int,
        target: int,
        links: tuple[int, ...],
        depth: int,
    ) -> Branch:
        ends = (target, source) if self.towards else (source, target)
        return Branch(*trees, *ends, links, depth)

    def _taken(
        self, tail: int, head: int, first: int, count: int
    ) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Use up ways for some trees: the first tree, the number of trees, and the links of
        each."""
        for way in taken(self.ways[tail, head], count):
            stops = [node for node in way.nodes if node < self.devices]
            pairs = pairwise(stops[::-1] if self.towards else stops)
            yield first, way.units, tuple(self.link[pair] for pair in pairs)
            first += way.units
