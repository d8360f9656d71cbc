"""Neighbour exchange: an all-gather of p/2 steps. Every rank exchanges with its two neighbours in
turn."""

import numpy as np

from simulator.collectives.collective import ALL_GATHER, Algorithm
from simulator.collectives.places import by_place
from simulator.collectives.ring import ring_all_gather
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold, in_pairs


def neighbor_exchange_all_gather(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, per_node: int = 1
) -> Schedule:
    """Ranks 2b and 2b + 1 exchange their chunks. Then each rank sends the two chunks of its last
    exchange to the neighbour on its other side.

    An odd number of ranks takes the ring instead, as Open MPI does.

    >>> neighbor_exchange_all_gather(6, 600.0).steps
    3
    """
    if ranks % 2:
        return ring_all_gather(ranks, nbytes, shifts)
    ring = fold(ranks, shifts, SlotMove(axis=0, first=0, inner=2, end=ranks))
    exchange = ScheduleBuilder(ring, nbytes, slots=ranks, phase="all-gather")
    rank, step = by_place(exchange, per_node), np.arange(1, ranks // 2)[:, None, None]
    sides = rank ^ 1, ((rank + 1 ^ 1) - 1) % ranks
    exchange.copy(rank, sides[0], slot=rank, steps=1)
    away = np.where((rank + step) % 2, step // 2, -(step // 2))
    pair = (rank // 2 + away) % (ranks // 2)
    exchange.copy(rank, np.where(step % 2, sides[1], sides[0]), slot=2 * pair, count=2, steps=2)
    return exchange.build()


def _operations(ranks: int) -> float:
    steps = ranks - 1 if ranks % 2 else ranks / 2
    return ranks * steps


ALGORITHMS = (
    Algorithm(
        "neighbor_exchange",
        ALL_GATHER,
        neighbor_exchange_all_gather,
        neighbors.NEIGHBOR_EXCHANGE,
        "every rank exchanges two chunks with its two neighbours in turn",
        shifts=in_pairs,
        by_place=True,
        operations=_operations,
    ),
)
