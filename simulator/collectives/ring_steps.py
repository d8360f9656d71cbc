"""Steps in which every rank sends to its neighbours: one shift, and p - 1 or p/2 of them."""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import ALL_GATHER, SEND_RECV, Collective, declare, others
from simulator.collectives.layouts import by_place
from simulator.collectives.ring import ring_all_gather
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import Chosen, Data, Promise
from simulator.schedules.shifts import Shifts, SlotMove, fold, in_pairs, rotations


@declare("shift", SEND_RECV, neighbors.SHIFT, shifts=rotations)
def shift_send_recv(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every rank sends to the next rank. The data arrive in scratch and then replace its buffer."""
    shift = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=1, phase="send")
    rank = shift.each()
    shift.copy(rank, (rank + 1) % ranks, slot=0, target=1)
    shift.phase("unpack")
    shift.copy(rank, rank, slot=1, target=0)
    return shift.build()


def _turned_round(before: Data, chosen: Chosen = None) -> Promise:
    return np.ones(before.shape, dtype=np.bool_), np.roll(before, -1, axis=0)


RING_EXCHANGE = Collective(
    "ring_exchange", _turned_round, others, lambda p: p * (p - 1.0), others, others
)


def _operations(ranks: int) -> float:
    steps = ranks - 1 if ranks % 2 else ranks / 2
    return ranks * steps


@declare("ring_exchange", RING_EXCHANGE, neighbors.RING_EXCHANGE, shifts=rotations)
def ring_exchange(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every block visits every rank, from rank to rank. Each rank ends with the block of the next
    rank: that has visited all others.

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


@declare(
    "neighbor_exchange",
    ALL_GATHER,
    neighbors.NEIGHBOR_EXCHANGE,
    shifts=in_pairs,
    by_place=True,
    operations=_operations,
)
def neighbor_exchange_all_gather(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, per_node: int = 1
) -> Schedule:
    """Every rank exchanges two chunks with its two neighbours in turn. First ranks 2b and 2b + 1
    exchange their chunks, then each rank sends the two chunks of its last exchange to the other
    side.

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
