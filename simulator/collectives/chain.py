"""Chain: the ranks in a row with rank 0 at one end. V goes in pieces that follow one another."""

import numpy as np

from simulator.collectives.collective import BROADCAST, REDUCE, Algorithm
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder

PIECES = 64


def chain_broadcast(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """Rank r passes each piece on to rank r + 1 as soon as it has it. NCCL broadcasts so and calls
    it Ring.

    >>> chain_broadcast(4, 4096.0).sent().tolist()
    [4096.0, 4096.0, 4096.0, 0.0]
    """
    chain = ScheduleBuilder(ranks, nbytes, slots=segments, phase="broadcast")
    for rank in range(ranks - 1):
        chain.copy(rank, rank + 1, slot=np.arange(segments))
    return chain.build()


def chain_reduce(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """Rank r adds its data to each piece that comes from rank r + 1, and passes it on to rank r -
    1."""
    chain = ScheduleBuilder(ranks, nbytes, slots=segments, phase="reduce")
    for rank in range(ranks - 1, 0, -1):
        chain.reduce(rank, rank - 1, slot=np.arange(segments))
    return chain.build()


ALGORITHMS = (
    Algorithm(
        "chain_broadcast",
        BROADCAST,
        chain_broadcast,
        neighbors.chain_broadcast,
        "from rank to rank in a line, in pieces",
    ),
    Algorithm(
        "chain_reduce",
        REDUCE,
        chain_reduce,
        neighbors.chain_reduce,
        "from rank to rank in a line to rank 0, in pieces",
    ),
)
