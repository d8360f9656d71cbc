"""Spanning trees with a common number of edges, packed one edge at a time.

After K. Bérczi, A. Frank, "Packing arborescences", 2010: an edge may join a tree if all trees can
still be completed, which one least cut tells. Equal trees are one bunch until they part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topologies.packing.flow_graph import least_cut

Longs = npt.NDArray[np.int64]


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
        sinks, joined = np.array([head]), _from(graph, len(free), tail)
        cut = least_cut(joined, [tail], sinks, needed + most)[0]
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


def _from(graph: Longs, nodes: int, tail: int) -> Longs:
    """The graph where the last node is reached from `tail` at no cost."""
    joined = graph.copy()
    joined[tail, -1] = graph[-1].sum()
    return joined
