"""Several rings at once, made for the machine: along its fastest links, over all its NICs."""

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
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.ring_search import Rings, find_rings
from topologies.topology import Ints, Topology

Orders = npt.NDArray[np.integer]
"""The ranks round each ring, shape (rings, ranks)."""


def rings_reduce_scatter(ranks: int, nbytes: float, orders: Orders | None = None) -> Schedule:
    """Each ring reduces and scatters its share of every chunk; by default one ring, in rank
    order."""
    rings, order = _builder(ranks, nbytes, orders)
    _reduce_scatter(rings, order)
    return rings.build()


def rings_all_gather(ranks: int, nbytes: float, orders: Orders | None = None) -> Schedule:
    """Each ring passes on its share of every chunk."""
    rings, order = _builder(ranks, nbytes, orders)
    _all_gather(rings, order)
    return rings.build()


def rings_all_reduce(ranks: int, nbytes: float, orders: Orders | None = None) -> Schedule:
    """Each ring reduces and scatters, then gathers, its share of V.

    >>> rings_all_reduce(4, 4096.0, np.array([[0, 1, 2, 3], [3, 2, 1, 0]])).sent().tolist()
    [6144.0, 6144.0, 6144.0, 6144.0]
    """
    rings, order = _builder(ranks, nbytes, orders)
    _reduce_scatter(rings, order)
    _all_gather(rings, order)
    return rings.build()


def _builder(ranks: int, nbytes: float, orders: Orders | None) -> tuple[ScheduleBuilder, Orders]:
    order = np.arange(ranks)[None, :] if orders is None else orders
    return ScheduleBuilder(ranks, nbytes, slots=ranks * len(order)), order


def _reduce_scatter(rings: ScheduleBuilder, order: Orders) -> None:
    rings.phase("reduce-scatter")
    for step in range(rings.ranks - 1):
        _step(rings, order, step + 1, reduces=True)


def _all_gather(rings: ScheduleBuilder, order: Orders) -> None:
    rings.phase("all-gather")
    for step in range(rings.ranks - 1):
        _step(rings, order, step, reduces=False)


def _step(rings: ScheduleBuilder, order: Orders, behind: int, *, reduces: bool) -> None:
    """On each ring every rank sends to the next rank its part of a chunk: the chunk of the rank
    that is `behind` places behind it."""
    channels = len(order)
    channel = np.repeat(np.arange(channels), rings.ranks)
    slot = np.roll(order, behind, axis=1).ravel() * channels + channel
    send = rings.reduce if reduces else rings.copy
    send(order.ravel(), np.roll(order, -1, axis=1).ravel(), slot=slot, channel=channel)


@lru_cache(maxsize=4)
def rings_of(topology: Topology, ranks: int) -> Rings:
    """As :func:`topologies.ring_search.find_rings`, with the latest answers remembered."""
    return find_rings(topology, ranks)


def fit_all_reduce(topology: Topology, ranks: int, nbytes: float) -> Fitted:
    """The rings that :func:`topologies.ring_search.find_rings` finds."""
    rings = rings_of(topology, ranks)
    cost = neighbors.rings(neighbors.RING_ALL_REDUCE, rings.bandwidth, len(rings.orders))
    return _fitted(rings_all_reduce(ranks, nbytes, rings.orders), topology, cost, rings)


def fit_reduce_scatter(topology: Topology, ranks: int, nbytes: float) -> Fitted:
    """As :func:`fit_all_reduce`."""
    rings = rings_of(topology, ranks)
    cost = neighbors.rings(neighbors.RING_REDUCE_SCATTER, rings.bandwidth, len(rings.orders))
    return _fitted(rings_reduce_scatter(ranks, nbytes, rings.orders), topology, cost, rings)


def fit_all_gather(topology: Topology, ranks: int, nbytes: float) -> Fitted:
    """As :func:`fit_all_reduce`."""
    rings = rings_of(topology, ranks)
    cost = neighbors.rings(neighbors.RING_ALL_GATHER, rings.bandwidth, len(rings.orders))
    return _fitted(rings_all_gather(ranks, nbytes, rings.orders), topology, cost, rings)


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
    ),
    Algorithm(
        "rings_reduce_scatter",
        REDUCE_SCATTER,
        rings_reduce_scatter,
        neighbors.RING_REDUCE_SCATTER,
        "the reduce-scatter of rings",
        fit=fit_reduce_scatter,
    ),
    Algorithm(
        "rings_all_gather",
        ALL_GATHER,
        rings_all_gather,
        neighbors.RING_ALL_GATHER,
        "the all-gather of rings",
        fit=fit_all_gather,
    ),
)
