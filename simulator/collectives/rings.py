"""Several rings at once, made for the machine: along its fastest links, over all its NICs."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    Algorithm,
    Fitted,
)
from simulator.cost_models import CostModel, neighbors
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Move, Shifts, fold, rotations
from topologies.ring_search import Rings, find_rings
from topologies.topology import Ints, Topology

Orders = npt.NDArray[np.integer]
"""The ranks round each ring, shape (rings, ranks)."""


def rings_reduce_scatter(
    ranks: int, nbytes: float, orders: Orders | None = None, shifts: Shifts | None = None
) -> Schedule:
    """Each ring reduces and scatters its share of every chunk; by default one ring, in rank
    order."""
    rings, order = _builder(ranks, nbytes, orders, shifts)
    _reduce_scatter(rings, order)
    return rings.build()


def rings_all_gather(
    ranks: int, nbytes: float, orders: Orders | None = None, shifts: Shifts | None = None
) -> Schedule:
    """Each ring passes on its share of every chunk."""
    rings, order = _builder(ranks, nbytes, orders, shifts)
    _all_gather(rings, order)
    return rings.build()


def rings_all_reduce(
    ranks: int, nbytes: float, orders: Orders | None = None, shifts: Shifts | None = None
) -> Schedule:
    """Each ring reduces and scatters, then gathers, its share of V.

    >>> rings_all_reduce(4, 4096.0, np.array([[0, 1, 2, 3], [3, 2, 1, 0]])).sent().tolist()
    [6144.0, 6144.0, 6144.0, 6144.0]
    """
    rings, order = _builder(ranks, nbytes, orders, shifts)
    _reduce_scatter(rings, order)
    _all_gather(rings, order)
    return rings.build()


def _builder(
    ranks: int, nbytes: float, orders: Orders | None, shifts: Shifts | None
) -> tuple[ScheduleBuilder, Orders]:
    """The part of a chunk that a ring has goes where the chunk goes. Raises NotSymmetric if shifts
    do not take every ring to itself."""
    order = np.arange(ranks)[None, :] if orders is None else orders
    if shifts is not None:
        _check(order, shifts)
    slots = ranks * len(order)
    ring = fold(ranks, shifts, Move(axis=0, first=0, inner=len(order), end=slots))
    return ScheduleBuilder(ring, nbytes, slots=slots), order


def _check(order: Orders, shifts: Shifts) -> None:
    rank, behind = np.arange(shifts.ranks), np.empty_like(order)
    for number, ring in enumerate(order):
        behind[number, ring] = np.roll(ring, -1)
    for after in behind:
        moved = shifts.shifted(after[shifts.folded(rank)], shifts.element(rank))
        if (moved != after).any():
            raise NotSymmetric("rings are laid in another way from node to node")


def _reduce_scatter(rings: ScheduleBuilder, order: Orders) -> None:
    rings.phase("reduce-scatter")
    _pass(rings, order, np.arange(1, rings.ranks), rings.reduce)


def _all_gather(rings: ScheduleBuilder, order: Orders) -> None:
    rings.phase("all-gather")
    _pass(rings, order, np.arange(rings.ranks - 1), rings.copy)


def _pass(rings: ScheduleBuilder, order: Orders, behind: Orders, send: Callable[..., Ints]) -> None:
    """In every step each rank sends to the next rank of each ring its part of a chunk: the chunk of
    the rank that is so many places `behind` it."""
    written = np.isin(order, rings.each()) if rings.shifts else np.ones(order.shape, np.bool_)
    channel, place = np.nonzero(written)
    rank, peer = order[channel, place], order[channel, (place + 1) % rings.ranks]
    chunk = order[channel, (place - behind[:, None]) % rings.ranks]
    send(rank, peer, slot=chunk * len(order) + channel, channel=channel, steps=True)


@lru_cache(maxsize=4)
def rings_of(topology: Topology, ranks: int) -> Rings:
    """As :func:`topologies.ring_search.find_rings`, with the latest answers remembered."""
    return find_rings(topology, ranks)


def fit_all_reduce(
    topology: Topology, ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Fitted:
    """The rings that :func:`topologies.ring_search.find_rings` finds."""
    rings = rings_of(topology, ranks)
    cost = neighbors.rings(neighbors.RING_ALL_REDUCE, rings.bandwidth, len(rings.orders))
    return _fitted(rings_all_reduce(ranks, nbytes, rings.orders, shifts), topology, cost, rings)


def fit_reduce_scatter(
    topology: Topology, ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Fitted:
    """As :func:`fit_all_reduce`."""
    rings = rings_of(topology, ranks)
    cost = neighbors.rings(neighbors.RING_REDUCE_SCATTER, rings.bandwidth, len(rings.orders))
    return _fitted(rings_reduce_scatter(ranks, nbytes, rings.orders, shifts), topology, cost, rings)


def fit_all_gather(
    topology: Topology, ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Fitted:
    """As :func:`fit_all_reduce`."""
    rings = rings_of(topology, ranks)
    cost = neighbors.rings(neighbors.RING_ALL_GATHER, rings.bandwidth, len(rings.orders))
    return _fitted(rings_all_gather(ranks, nbytes, rings.orders, shifts), topology, cost, rings)


SHOWN = 16
"""Ranks of a ring that are listed in words."""


def _fitted(schedule: Schedule, topology: Topology, cost: CostModel, rings: Rings) -> Fitted:
    lines = [f"channel {channel}: {_words(order)}" for channel, order in enumerate(rings.orders)]
    return Fitted(schedule, topology, cost, tuple(lines))


def _words(order: Ints) -> str:
    shown = " ".join(map(str, order[:SHOWN].tolist()))
    return shown if len(order) <= SHOWN else f"{shown} ... ({len(order)} ranks)"


ALGORITHMS = (
    Algorithm(
        "rings",
        ALL_REDUCE,
        rings_all_reduce,
        neighbors.RING_ALL_REDUCE,
        "several rings at once, chosen for the machine's links and NICs",
        fit=fit_all_reduce,
        shifts=rotations,
    ),
    Algorithm(
        "rings_reduce_scatter",
        REDUCE_SCATTER,
        rings_reduce_scatter,
        neighbors.RING_REDUCE_SCATTER,
        "the reduce-scatter of rings",
        fit=fit_reduce_scatter,
        shifts=rotations,
    ),
    Algorithm(
        "rings_all_gather",
        ALL_GATHER,
        rings_all_gather,
        neighbors.RING_ALL_GATHER,
        "the all-gather of rings",
        fit=fit_all_gather,
        shifts=rotations,
    ),
)
