"""Trees of a graph as branches between ranks, with the links that each takes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from topologies.packing.splitting import Ways
from topologies.topology import Ints, Topology


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
            pair: sorted(rows, key=lambda way: (-len(way.nodes), way.nodes))
            for pair, rows in ways.items()
        }
        ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
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
        rows = self.ways[tail, head]
        while count:
            way = rows.pop()
            part = min(count, way.units)
            if way.units > part:
                rows.append(way._replace(units=way.units - part))
            stops = [node for node in way.nodes if node < self.devices]
            pairs = pairwise(stops[::-1] if self.towards else stops)
            yield first, part, tuple(self.link[pair] for pair in pairs)
            first, count = first + part, count - part
