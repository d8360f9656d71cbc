"""Edges split off at nodes that are no rank: what comes in by one edge goes on by another, as one
edge past the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.packing.flow_graph import TreeUnit, is_spanned, least_cut, with_source
from topologies.topology import Flags

Longs = npt.NDArray[np.int64]


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
        first, second = self._take(u, node, units), self._take(node, v, units)
        if u == v:
            return
        self.capacity[u, v] += units
        for units, way, onward in _meeting(first, second):
            self.ways.setdefault((u, v), []).append(Way(units, (*way, *onward[1:])))

    def _take(self, u: int, v: int, units: int) -> list[Way]:
        """Ways from u to v of so many units, which no longer are."""
        taken, ways = [], self.ways[u, v]
        self.capacity[u, v] -= units
        while units:
            if not ways:
                raise NoWay
            way = ways.pop(0)
            part = min(units, way.units)
            taken.append(way._replace(units=part))
            if part < way.units:
                ways.insert(0, way._replace(units=way.units - part))
            units -= part
        return taken

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


def _meeting(
    first: list[Way], second: list[Way]
) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Two lists of ways of equally many units, cut into parts that meet."""
    rows, others = list(first), list(second)
    while rows:
        way, onward = rows.pop(), others.pop()
        units = min(way.units, onward.units)
        yield units, way.nodes, onward.nodes
        for rest, queue in ((way, rows), (onward, others)):
            if rest.units > units:
                queue.append(rest._replace(units=rest.units - units))


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
