"""All-to-all by pairs: rank r sends block d to rank d, with all sends posted at once."""

import numpy as np

from simulator.collectives.collective import ALL_TO_ALL, Algorithm
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Move, Shifts, fold, rotations


def pairwise_all_to_all(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Peers in the order r+1, r+2, ... Blocks arrive in scratch. A rank copies them to their places
    when it has sent everything."""
    moves = [Move(axis=0, first=first, inner=1, end=first + ranks) for first in (0, ranks)]
    pairs = ScheduleBuilder(
        fold(ranks, shifts, *moves), nbytes, slots=ranks, scratch=ranks, phase="exchange"
    )
    rank, turn = pairs.each(), np.arange(1, ranks)[:, None]
    peer, origin = (rank + turn) % ranks, (rank - turn) % ranks
    pairs.copy(rank, peer, slot=peer, target=ranks + rank, steps=1)
    pairs.phase("unpack")
    pairs.copy(rank, rank, slot=ranks + origin, target=origin, steps=1)
    return pairs.build()


ALGORITHMS = (
    Algorithm(
        "pairwise",
        ALL_TO_ALL,
        pairwise_all_to_all,
        servers.PAIRWISE_ALL_TO_ALL,
        "every rank sends every other rank its block",
        shifts=rotations,
    ),
)
