"""Ring: p - 1 steps in which every rank sends one chunk to the next rank."""

import numpy as np

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    Algorithm,
)
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Move, Shifts, fold, rotations


def ring_reduce_scatter(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every chunk travels once round the ring to its owner. Every rank adds its data to it.

    >>> ring_reduce_scatter(4, 4096.0).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    ring = _builder(ranks, nbytes, shifts)
    _reduce_scatter(ring)
    return ring.build()


def ring_all_gather(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every chunk travels once round the ring from its owner."""
    ring = _builder(ranks, nbytes, shifts)
    _all_gather(ring)
    return ring.build()


def ring_all_reduce(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """A ring reduce-scatter, then a ring all-gather."""
    ring = _builder(ranks, nbytes, shifts)
    _reduce_scatter(ring)
    _all_gather(ring)
    return ring.build()


def _builder(ranks: int, nbytes: float, shifts: Shifts | None) -> ScheduleBuilder:
    """Chunk c of rank r is chunk c + k of rank r + k."""
    ring = fold(ranks, shifts, Move(axis=0, first=0, inner=1, end=ranks))
    return ScheduleBuilder(ring, nbytes, slots=ranks)


def _reduce_scatter(ring: ScheduleBuilder) -> None:
    ring.phase("reduce-scatter")
    rank, step = ring.each(), np.arange(ring.ranks - 1)[:, None]
    slot = (rank - step - 1) % ring.ranks
    ring.reduce(rank, (rank + 1) % ring.ranks, slot=slot, steps=True)


def _all_gather(ring: ScheduleBuilder) -> None:
    ring.phase("all-gather")
    rank, step = ring.each(), np.arange(ring.ranks - 1)[:, None]
    ring.copy(rank, (rank + 1) % ring.ranks, slot=(rank - step) % ring.ranks, steps=True)


ALGORITHMS = (
    Algorithm(
        "ring",
        ALL_REDUCE,
        ring_all_reduce,
        neighbors.RING_ALL_REDUCE,
        "reduce-scatter, then all-gather, round a ring",
        shifts=rotations,
    ),
    Algorithm(
        "ring_reduce_scatter",
        REDUCE_SCATTER,
        ring_reduce_scatter,
        neighbors.RING_REDUCE_SCATTER,
        "each chunk goes round a ring and grows at every rank",
        shifts=rotations,
    ),
    Algorithm(
        "ring_all_gather",
        ALL_GATHER,
        ring_all_gather,
        neighbors.RING_ALL_GATHER,
        "each chunk goes round a ring",
        shifts=rotations,
    ),
)
