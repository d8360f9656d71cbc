"""Rings of which each is the first one, shifted inside every node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from topologies.topology import Floats, Ints

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
    """The boxes that are tried."""
    yield (size,)
    if size > 2 and size % 2 == 0:
        yield size // 2, 2
