"""Linear, or flat, trees: rank 0 sends to every rank, or every rank to rank 0."""

import numpy as np

from simulator.collectives.collective import BROADCAST, REDUCE, Algorithm
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


def linear_broadcast(ranks: int, nbytes: float) -> Schedule:
    """All messages leave rank 0 at once.

    >>> linear_broadcast(4, 8.0).sent().tolist()
    [24.0, 0.0, 0.0, 0.0]
    """
    flat = ScheduleBuilder(ranks, nbytes, phase="broadcast")
    flat.copy(0, np.arange(1, ranks), slot=0)
    return flat.build()


def linear_reduce(ranks: int, nbytes: float) -> Schedule:
    """Rank 0 adds up the buffers as they arrive."""
    flat = ScheduleBuilder(ranks, nbytes, phase="reduce")
    flat.reduce(np.arange(1, ranks), 0, slot=0)
    return flat.build()


ALGORITHMS = (
    Algorithm(
        "linear_broadcast",
        BROADCAST,
        linear_broadcast,
        servers.LINEAR_BROADCAST,
        "rank 0 sends to every rank",
    ),
    Algorithm(
        "linear_reduce", REDUCE, linear_reduce, servers.LINEAR_REDUCE, "every rank sends to rank 0"
    ),
)
