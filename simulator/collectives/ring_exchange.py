"""Ring exchange: the blocks of all ranks, such as keys and values, visit every rank in turn. A rank
holds two blocks at a time."""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import Algorithm, Collective, others
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import Chosen, Data, Promise
from simulator.schedules.shifts import Shifts, fold, rotations


def ring_exchange(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """In each of p - 1 steps every rank sends its block to the next rank and receives one, as a
    grouped send and receive does. Each rank ends with the block of the next rank: that has visited
    all others.

    >>> ring_exchange(4, 4096.0).sent().tolist()
    [12288.0, 12288.0, 12288.0, 12288.0]
    """
    ring = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=1, phase="step 0")
    rank = ring.each()
    for step in range(ranks - 1):
        ring.phase(f"step {step}")
        ring.copy(rank, (rank + 1) % ranks, slot=0, target=1)
        ring.copy(rank, rank, slot=1, target=0)
    return ring.build()


def _turned_round(before: Data, chosen: Chosen = None) -> Promise:
    return np.ones(before.shape, dtype=np.bool_), np.roll(before, -1, axis=0)


RING_EXCHANGE = Collective(
    "ring_exchange", _turned_round, others, lambda p: p * (p - 1.0), others, others
)

ALGORITHMS = (
    Algorithm(
        "ring_exchange",
        RING_EXCHANGE,
        ring_exchange,
        neighbors.RING_EXCHANGE,
        "every block visits every rank, from rank to rank",
        shifts=rotations,
    ),
)
