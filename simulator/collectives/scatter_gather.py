"""Scatter and gather: straight between the root and every rank, or along a binomial tree."""

import numpy as np

from simulator.collectives.collective import GATHER, SCATTER, Algorithm
from simulator.cost_models import log2_ceil
from simulator.cost_models import scatter_formulas as formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Ints


def linear_scatter(ranks: int, nbytes: float) -> Schedule:
    """The root sends every rank its chunk, all at once."""
    direct = ScheduleBuilder(ranks, nbytes, slots=ranks, phase="scatter")
    direct.copy(0, np.arange(1, ranks), slot=np.arange(1, ranks))
    return direct.build()


def linear_gather(ranks: int, nbytes: float) -> Schedule:
    """Every rank sends its chunk to the root, all at once."""
    direct = ScheduleBuilder(ranks, nbytes, slots=ranks, phase="gather")
    direct.copy(np.arange(1, ranks), 0, slot=np.arange(1, ranks))
    return direct.build()


def binomial_scatter(ranks: int, nbytes: float) -> Schedule:
    """A rank sends half of its chunks on, then half of the rest, and so on.

    >>> binomial_scatter(8, 8.0).sent().tolist()
    [7.0, 0.0, 1.0, 0.0, 3.0, 0.0, 1.0, 0.0]
    """
    tree = ScheduleBuilder(ranks, nbytes, slots=ranks)
    scatter_chunks(tree, ranks)
    return tree.build()


def binomial_gather(ranks: int, nbytes: float) -> Schedule:
    """The reverse: a rank sends its chunks when it has those of all its children."""
    tree = ScheduleBuilder(ranks, nbytes, slots=ranks, phase="gather")
    for level in range(log2_ceil(ranks)):
        child, count = _subtrees(ranks, level)
        tree.copy(child, child - (1 << level), slot=child, count=count)
    return tree.build()


def scatter_chunks(tree: ScheduleBuilder, members: int) -> Ints:
    """Chunk r of `members` goes to rank r down a binomial tree.

    Returns the operations that each rank took part in, -1 for none: rows for ranks.
    """
    tree.phase("scatter")
    levels = log2_ceil(members)
    done = np.full((members, levels + 1), -1)
    for level in reversed(range(levels)):
        child, count = _subtrees(members, level)
        done[child, levels] = tree.copy(child - (1 << level), child, slot=child, count=count)
        done[child - (1 << level), level] = done[child, levels]
    return done


def _subtrees(members: int, level: int) -> tuple[Ints, Ints]:
    """The children of a level, and the sizes of their subtrees."""
    child: Ints = np.arange(1 << level, members, 2 << level, dtype=np.int32)
    count: Ints = np.minimum(1 << level, members - child)
    return child, count


ALGORITHMS = (
    Algorithm(
        "linear_scatter",
        SCATTER,
        linear_scatter,
        formulas.LINEAR_SCATTER,
        "rank 0 sends every rank its chunk",
    ),
    Algorithm(
        "binomial_scatter",
        SCATTER,
        binomial_scatter,
        formulas.BINOMIAL_SCATTER,
        "down a binomial tree: half of the chunks, then half of the rest",
    ),
    Algorithm(
        "linear_gather",
        GATHER,
        linear_gather,
        formulas.LINEAR_GATHER,
        "every rank sends its chunk to rank 0",
    ),
    Algorithm(
        "binomial_gather",
        GATHER,
        binomial_gather,
        formulas.BINOMIAL_GATHER,
        "up a binomial tree: chunks of a subtree travel together",
    ),
)
