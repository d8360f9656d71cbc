"""Binomial tree: reduce and broadcast in ⌈log2 p⌉ rounds of the whole vector.

Off powers of two the ranks above q = 2^⌊log2 p⌋ fold into the highest ranks below q, whose way to
the root is longest.
"""

from functools import partial

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, BROADCAST, REDUCE, Algorithm
from simulator.cost_models import log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


def tree(ranks: int, nbytes: float, *, reduces: bool = True, broadcasts: bool = True) -> Schedule:
    """Everything is added up at rank 0; then what rank 0 has goes to everyone."""
    tree = ScheduleBuilder(ranks, nbytes)
    rounds = log2_floor(ranks)
    extra = np.arange(1 << rounds, ranks)
    partner = (2 << rounds) - 1 - extra
    children = [np.arange(1 << level, 1 << rounds, 2 << level) for level in range(rounds)]
    if reduces:
        tree.phase("reduce")
        tree.reduce(extra, partner, slot=0)
        for level, child in enumerate(children):
            tree.reduce(child, child - (1 << level), slot=0)
    if broadcasts:
        tree.phase("broadcast")
        for level, child in reversed([*enumerate(children)]):
            tree.copy(child - (1 << level), child, slot=0)
        tree.copy(partner, extra, slot=0)
    return tree.build()


ALGORITHMS = (
    Algorithm(
        "tree",
        ALL_REDUCE,
        tree,
        trees.TREE_ALL_REDUCE,
        "a binomial tree reduces, then broadcasts",
        operations=lambda ranks: 2.0 * (ranks - 1),
    ),
    Algorithm(
        "tree_reduce",
        REDUCE,
        partial(tree, broadcasts=False),
        trees.TREE_REDUCE,
        "a binomial tree adds up towards rank 0",
    ),
    Algorithm(
        "tree_broadcast",
        BROADCAST,
        partial(tree, reduces=False),
        trees.TREE_BROADCAST,
        "a binomial tree from rank 0",
    ),
)
