"""Which shifts of ranks a schedule may be folded by on a machine."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm, Fitted
from simulator.collectives.declared_shifts import COMPARED, check_shifts
from simulator.collectives.places import ranks_of_a_node
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.routed import Routed, check_few, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Shifts
from topologies.topology import Topology


class Representatives(NamedTuple):
    """What an algorithm does on a machine, of as few ranks as stand for all."""

    fitted: Fitted
    routed: Routed


def fold(
    algorithm: Algorithm,
    topology: Topology,
    ranks: int,
    worth_trying: Callable[[Shifts], bool] = lambda shifts: True,
    *,
    merges: bool = False,
    fair: bool = False,
    compared: int = COMPARED,
) -> Representatives | None:
    """The schedule of `algorithm` for V = 1 byte on a machine, written for as few ranks as stand
    exactly for all; None if there are none among the shifts that are `worth_trying`. With `merges`
    they still do if reductions take time, with `fair` they do under fair sharing.

    Raises InputError if the shifts of an algorithm of a user do not take its schedule to itself.
    Up to so many operations are `compared`.

    >>> from simulator.collectives import find
    >>> from topologies.shapes import star
    >>> routed = fold(find("ring"), star(1024, bandwidth=1e9), 1024).routed
    >>> len(routed.schedule), routed.schedule.members
    (2046, 1024)
    """
    if not algorithm.defined(ranks):
        return None
    on, first = algorithm.shifts_on, None
    group = algorithm.shifts(ranks) if on is None else on(topology, ranks)
    known: dict[Shifts, bool] = {}
    for shifts in filter(worth_trying, candidates(group, ranks_of_a_node(topology, ranks))):
        if first is not None and not _may_suit(shifts, first, topology, known):
            continue
        try:
            fitted = algorithm.on(topology, ranks, 1.0, shifts)
            first = first or fitted.schedule
            routed = route(fitted.schedule, fitted.topology, merges=merges, fair=fair)
        except NotSymmetric:
            continue
        if algorithm.origin:
            check_shifts(algorithm, topology, fitted.schedule, compared)
        return Representatives(fitted, routed)
    return None


def _may_suit(
    shifts: Shifts, written: Schedule, topology: Topology, known: dict[Shifts, bool]
) -> bool:
    """Whether some routes of a schedule, written for a larger group of shifts, allow these, by the
    shifts along each axis. Most groups that do not suit a machine are so refused before a schedule
    is written for them."""
    for part in shifts.along_each_axis:
        if part not in known:
            try:
                check_few(written, topology, part)
                known[part] = True
            except NotSymmetric:
                known[part] = False
        if not known[part]:
            return False
    return True


def candidates(all_shifts: Shifts | None, node: int) -> list[Shifts]:
    """Groups of shifts, the largest first: all, then those by whole nodes, then by several of them;
    with the shifts within a node, and without."""
    if all_shifts is None:
        return []
    blocks = [1, *(block * node for block in _divisors(all_shifts.ranks // node))]
    strides = [_strides(all_shifts, block) for block in blocks]
    axes = zip(all_shifts.shape, all_shifts.steps, strict=True)
    in_node = np.array([extent * step <= node for extent, step in axes])
    strides += [
        tuple(np.where(in_node, all_shifts.strides, stride).tolist())
        for stride in strides
        if stride
    ]
    groups = [Shifts(all_shifts.shape, stride) for stride in dict.fromkeys(strides) if stride]
    chosen = [group for group in groups if group.order > 1]
    # Groups of shifts that are tried at most.
    return sorted(chosen, key=lambda group: -group.order)[:24]


def _divisors(number: int) -> list[int]:
    """All divisors, in ascending order."""
    small = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def _strides(shifts: Shifts, block: int) -> tuple[int, ...]:
    """The least strides by which blocks of ranks stay whole; none if an axis cuts them."""
    strides = []
    for extent, least, step in zip(shifts.shape, shifts.strides, shifts.steps, strict=True):
        stride = max(least, block // step)
        if stride < extent and (stride * step % block or extent % stride or stride % least):
            return ()
        strides.append(min(stride, extent))
    return tuple(strides)
