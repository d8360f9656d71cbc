"""k-nomial trees: the parent of a rank has its number with the lowest digit, in base k, made 0."""

import numpy as np

from simulator.collectives.collective import BROADCAST, REDUCE, Algorithm
from simulator.cost_models import k_nomial_formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError

RADIX = 4
"""Open MPI's default."""


def k_nomial_broadcast(
    ranks: int, nbytes: float, *, radix: int = RADIX, segments: int = 1
) -> Schedule:
    """A rank passes each segment on to its children, those with the largest subtrees first.

    >>> k_nomial_broadcast(16, 16.0).steps
    2
    """
    tree = ScheduleBuilder(ranks, nbytes, slots=segments, phase="broadcast")
    for parent, below in children(ranks, radix):
        slot = np.repeat(np.arange(segments), len(below))
        tree.copy(parent, np.tile(below, segments), slot=slot)
    return tree.build()


def k_nomial_reduce(
    ranks: int, nbytes: float, *, radix: int = RADIX, segments: int = 1
) -> Schedule:
    """A rank passes each segment on to its parent when all its children have added to it."""
    tree = ScheduleBuilder(ranks, nbytes, slots=segments, phase="reduce")
    for parent, below in reversed([*children(ranks, radix)]):
        slot = np.repeat(np.arange(segments), len(below))
        tree.reduce(np.tile(below[::-1], segments), parent, slot=slot)
    return tree.build()


def children(ranks: int, radix: int) -> list[tuple[int, np.ndarray]]:
    """Every rank that has children, parents first, and its children in the order of service.

    >>> [(parent, below.tolist()) for parent, below in children(6, 3)]
    [(0, [3, 1, 2]), (3, [4, 5])]
    """
    if radix < 2:
        raise InputError(f"radix is {radix}: 2 or more")
    steps = [radix**k for k in range(64) if radix**k < ranks][::-1]
    digit = np.arange(1, min(radix, ranks))
    families = []
    for rank in range(ranks):
        below = [rank + step * digit for step in steps if rank % (step * radix) == 0]
        numbers = np.concatenate(below) if below else np.zeros(0, dtype=np.int64)
        if (numbers < ranks).any():
            families.append((rank, numbers[numbers < ranks]))
    return families


ALGORITHMS = (
    Algorithm(
        "k_nomial_broadcast",
        BROADCAST,
        k_nomial_broadcast,
        k_nomial_formulas.broadcast,
        "down a tree of log_k p levels from rank 0",
    ),
    Algorithm(
        "k_nomial_reduce",
        REDUCE,
        k_nomial_reduce,
        k_nomial_formulas.reduce,
        "up a tree of log_k p levels to rank 0",
    ),
)
