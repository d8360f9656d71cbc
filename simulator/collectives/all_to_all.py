"""All-to-all by pairs: rank r sends block d to rank d, with all sends posted at once."""

import numpy as np

from simulator.collectives.collective import ALL_TO_ALL, Algorithm
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


def pairwise_all_to_all(ranks: int, nbytes: float) -> Schedule:
    """Peers in the order r+1, r+2, ... Blocks arrive in scratch. A rank copies them to their places
    when it has sent everything."""
    pairs = ScheduleBuilder(ranks, nbytes, slots=ranks, scratch=ranks, phase="exchange")
    rank = np.arange(ranks)
    for turn in range(1, ranks):
        peer = (rank + turn) % ranks
        pairs.copy(rank, peer, slot=peer, target=ranks + rank)
    pairs.phase("unpack")
    for turn in range(1, ranks):
        origin = (rank - turn) % ranks
        pairs.copy(rank, rank, slot=ranks + origin, target=origin)
    return pairs.build()


ALGORITHMS = (
    Algorithm(
        "pairwise",
        ALL_TO_ALL,
        pairwise_all_to_all,
        servers.PAIRWISE_ALL_TO_ALL,
        "every rank sends every other rank its block",
    ),
)
