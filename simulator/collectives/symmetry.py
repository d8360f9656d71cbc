"""Which shifts of ranks a schedule may be folded by on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
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
    on = algorithm.shifts_on
    group = algorithm.shifts(ranks) if on is None else on(topology, ranks)
    for shifts in candidates(group, ranks_of_a_node(topology, ranks)):
        try:
            fitted = algorithm.on(topology, ranks, 1.0, shifts)
            return Folded(fitted, route(fitted.schedule, fitted.topology))
        except NotSymmetric:
            continue
    return None


def candidates(all_shifts: Shifts | None, node: int) -> Iterator[Shifts]:
    """Groups of shifts, the largest first: all, then those by whole nodes, then by several of
    them."""
    if all_shifts is None:
        return iter(())
    ranks = all_shifts.ranks
    blocks = chain([1], (block for block in range(max(node, 2), ranks, node) if not ranks % block))
    strides = (_strides(all_shifts, block) for block in blocks)
    groups = (Shifts(all_shifts.shape, each) for each in strides if each)
    return islice((group for group in groups if group.order > 1), TRIALS)


def _strides(shifts: Shifts, block: int) -> tuple[int, ...]:
    """The least strides by which blocks of ranks stay whole; none if an axis cuts them."""
    strides = []
    for extent, least, step in zip(shifts.shape, shifts.strides, shifts.steps, strict=True):
        stride = max(least, block // step)
        if stride < extent and (stride * step % block or extent % stride or stride % least):
            return ()
        strides.append(min(stride, extent))
    return tuple(strides)


def ranks_of_a_node(topology: Topology, ranks: int) -> int:
    """How many ranks the first node has; 1 where ranks are in none."""
    node = topology.node[topology.placement[:ranks]]
    return 1 if node[0] < 0 else max(1, int(np.argmax(np.append(node != node[0], True))))
