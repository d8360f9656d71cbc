"""Binomial tree: reduce and broadcast in ⌈log2 p⌉ rounds of the whole vector.

Off powers of two the ranks above q = 2^⌊log2 p⌋ fold into the highest ranks below q, whose way to
the root is longest.
"""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, BROADCAST, REDUCE, declare
from simulator.cost_models import log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


@declare("tree", ALL_REDUCE, trees.TREE_ALL_REDUCE, operations=lambda ranks: 2.0 * (ranks - 1))
def tree(ranks: int, nbytes: float, *, reduces: bool = True, broadcasts: bool = True) -> Schedule:
    """A binomial tree reduces, then broadcasts."""
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


@declare("tree_reduce", REDUCE, trees.TREE_REDUCE)
def tree_reduce(ranks: int, nbytes: float) -> Schedule:
    """A binomial tree adds up towards rank 0."""
    return tree(ranks, nbytes, broadcasts=False)


@declare("tree_broadcast", BROADCAST, trees.TREE_BROADCAST)
def tree_broadcast(ranks: int, nbytes: float) -> Schedule:
    """A binomial tree from rank 0."""
    return tree(ranks, nbytes, reduces=False)
