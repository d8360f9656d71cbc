"""The bandwidth of a tree: the greatest at which all trees fit between the links, by cuts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.packing.flow_graph import MOST, least_cut, with_source
from topologies.topology import Flags, Floats

Longs = npt.NDArray[np.int64]
EXACT = 1e-12
"""The relative error of a quotient of two bandwidths."""


class Unit(NamedTuple):
    """The trees of a machine, counted."""

    bandwidth: float
    """Bytes/s of a tree."""
    trees: Longs
    """The trees from each node, shape (nodes,)."""
    capacity: Longs
    """The trees for which there is room from node to node, shape (nodes, nodes)."""


def unit(bandwidth: Floats, trees: Longs, sinks: Flags, most: float) -> Unit:
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
            return Unit(y, trees, capacity)
        y = min(_of_cut(bandwidth, inside, int(trees[inside].sum())), y * (1 - EXACT))
        if y == 0.0:
            return Unit(y, trees, np.zeros_like(capacity))


def whole(bandwidth: Floats, y: float, unlimited: int) -> Longs:
    """How often y goes into each bandwidth; `unlimited` times into one without limit.

    >>> whole(np.array([0.0, 1.0, 2.5, np.inf]), 1.0, 9).tolist()
    [0, 1, 2, 9]
    """
    times = np.where(np.isinf(bandwidth), unlimited, np.floor(bandwidth / y * (1 + EXACT)))
    return np.minimum(times, MOST).astype(np.int64)


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
    needed = trees - MOST * int(np.isinf(crossing).any())
    if not len(crossing) or needed <= 0:
        return 0.0 if not len(crossing) else np.inf
    rooms = crossing[:, None] / np.arange(1, trees + 1)
    return float(np.partition(rooms.ravel(), -trees)[-trees])
