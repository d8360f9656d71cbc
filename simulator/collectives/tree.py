"""Binomial tree: reduce and broadcast in ⌈log2 p⌉ rounds of the whole vector.

Off powers of two the ranks above q = 2^⌊log2 p⌋ fold into the highest ranks below q, whose way to
the root is longest.
"""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, BROADCAST, REDUCE, Algorithm
from simulator.cost_models import log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


def binomial_reduce(ranks: int, nbytes: float) -> Schedule:
    """Everything is added up at rank 0."""
    tree = ScheduleBuilder(ranks, nbytes)
    _reduce(tree)
    return tree.build()


def binomial_broadcast(ranks: int, nbytes: float) -> Schedule:
    """What rank 0 has goes to everyone."""
    tree = ScheduleBuilder(ranks, nbytes)
    _broadcast(tree)
    return tree.build()


def tree_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """A binomial reduce, then a binomial broadcast."""
    tree = ScheduleBuilder(ranks, nbytes)
    _reduce(tree)
    _broadcast(tree)
    return tree.build()


def _reduce(tree: ScheduleBuilder) -> None:
    rounds = log2_floor(tree.ranks)
    extra = np.arange(1 << rounds, tree.ranks)
    tree.phase("reduce")
    tree.reduce(extra, _partner(extra, rounds), slot=0)
    for level in range(rounds):
        child = np.arange(1 << level, 1 << rounds, 2 << level)
        tree.reduce(child, child - (1 << level), slot=0)


def _broadcast(tree: ScheduleBuilder) -> None:
    rounds = log2_floor(tree.ranks)
    extra = np.arange(1 << rounds, tree.ranks)
    tree.phase("broadcast")
    for level in reversed(range(rounds)):
        child = np.arange(1 << level, 1 << rounds, 2 << level)
        tree.copy(child - (1 << level), child, slot=0)
    tree.copy(_partner(extra, rounds), extra, slot=0)


def _partner(extra: np.ndarray, rounds: int) -> np.ndarray:
    return (2 << rounds) - 1 - extra


ALGORITHMS = (
    Algorithm(
        "tree",
        ALL_REDUCE,
        tree_all_reduce,
        trees.TREE_ALL_REDUCE,
        "a binomial tree reduces, then broadcasts",
        operations=lambda ranks: 2.0 * (ranks - 1),
    ),
    Algorithm(
        "tree_reduce",
        REDUCE,
        binomial_reduce,
        trees.TREE_REDUCE,
        "a binomial tree adds up towards rank 0",
    ),
    Algorithm(
        "tree_broadcast",
        BROADCAST,
        binomial_broadcast,
        trees.TREE_BROADCAST,
        "a binomial tree from rank 0",
    ),
)
