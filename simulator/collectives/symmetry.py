"""Which shifts of ranks a schedule may be folded by on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from math import prod
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm, Fitted
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.routed import Routed, route
from simulator.schedules.shifts import Shifts
from topologies.topology import Topology


class Folded(NamedTuple):
    """What an algorithm does on a machine, of as few ranks as stand for all."""

    fitted: Fitted
    routed: Routed


TRIALS = 12
"""Shifts that are tried at most."""


def fold(algorithm: Algorithm, topology: Topology, ranks: int) -> Folded | None:
    """The schedule of `algorithm` for V = 1 byte on a machine, written for as few ranks as stand
    exactly for all; None if there are none.

    >>> from simulator.collectives import find
    >>> from topologies.shapes import star
    >>> routed = fold(find("ring"), star(1024, bandwidth=1e9), 1024).routed
    >>> len(routed.schedule), routed.schedule.members
    (2046, 1024)
    """
    if not algorithm.defined(ranks):
        return None
    for shifts in candidates(algorithm.axes(ranks), ranks_of_a_node(topology, ranks)):
        try:
            fitted = algorithm.on(topology, ranks, 1.0, shifts)
            return Folded(fitted, route(fitted.schedule, fitted.topology))
        except NotSymmetric:
            continue
    return None


def candidates(shape: tuple[int, ...], node: int) -> Iterator[Shifts]:
    """Shifts of a box of ranks, the largest group first: by any number of ranks, then by whole
    nodes, then by several of them."""
    ranks = prod(shape) if shape else 0
    blocks = chain([1], (block for block in range(max(node, 2), ranks, node) if not ranks % block))
    shifts = (Shifts(shape, strides) for block in blocks if (strides := _strides(shape, block)))
    return islice((group for group in shifts if group.order > 1), TRIALS)


def _strides(shape: tuple[int, ...], block: int) -> tuple[int, ...]:
    """The strides by which blocks of ranks stay whole; none if an axis cuts them."""
    strides = []
    for axis, extent in enumerate(shape):
        inner = prod(shape[axis + 1 :])
        stride = max(1, block // inner)
        if stride < extent and (stride * inner % block or extent % stride):
            return ()
        strides.append(min(stride, extent))
    return tuple(strides)


def ranks_of_a_node(topology: Topology, ranks: int) -> int:
    """How many ranks the first node has; 1 where ranks are in none."""
    node = topology.node[topology.placement[:ranks]]
    return 1 if node[0] < 0 else max(1, int(np.argmax(np.append(node != node[0], True))))
