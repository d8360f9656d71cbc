"""Naive all-reduce: everyone sends everything to everyone."""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, Algorithm
from simulator.collectives.places import by_place
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, fold, rotations
from topologies.topology import Ints


def naive_all_reduce(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    staggered: bool = True,
    per_node: int = 1,
) -> Schedule:
    """Every rank sends to r+1, r+2, ... at once. It adds up its p - 1 inboxes when all that it sent
    has arrived.

    If not `staggered`, every rank sends to rank 0 first. For p > 2 that takes (2p - 3)V/β instead
    of (p - 1)V/β.
    """
    ring = fold(ranks, shifts if staggered else None)
    naive = ScheduleBuilder(ring, nbytes, scratch=ranks - 1, phase="exchange")
    rank, turn = by_place(naive, per_node), np.arange(1, ranks)[:, None, None]
    peer = (rank + turn) % ranks if staggered else np.where(rank < turn, turn, turn - 1)
    naive.copy(rank, peer, slot=0, target=(rank - peer) % ranks, steps=2)
    naive.phase("merge")
    naive.reduce(rank, rank, slot=turn, target=0, steps=2)
    return naive.build()


def naive_serial_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """One root at a time: the others send it all their data. The root adds them up in scratch,
    because it still has to send its own."""
    naive = ScheduleBuilder(ranks, nbytes, scratch=1)
    barrier: Ints = np.zeros(0, dtype=np.int32)
    for root in range(ranks):
        naive.phase(f"root {root}")
        peers = np.delete(np.arange(ranks), root)
        root_copy = naive.copy(root, root, slot=0, target=1, after=barrier)
        barrier = naive.reduce(
            np.roll(peers, -root), root, slot=0, target=1, after=np.union1d(barrier, root_copy)
        )
    naive.phase("result")
    naive.copy(np.arange(ranks), np.arange(ranks), slot=1, target=0)
    return naive.build()


ALGORITHMS = (
    Algorithm(
        "naive",
        ALL_REDUCE,
        naive_all_reduce,
        servers.NAIVE,
        "every rank sends all its data to every other rank at once",
        shifts=rotations,
        by_place=True,
        operations=lambda ranks: 2.0 * ranks * (ranks - 1),
    ),
    Algorithm(
        "naive_serial",
        ALL_REDUCE,
        naive_serial_all_reduce,
        servers.NAIVE_SERIAL,
        "one rank after the other collects all data and adds it up",
    ),
)
