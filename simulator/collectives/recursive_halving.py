"""Recursive halving: a reduce-scatter in which every round halves what is left."""

import numpy as np

from simulator.collectives.collective import REDUCE_SCATTER, Algorithm
from simulator.collectives.recursive_doubling import chunks
from simulator.cost_models import log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, bits, fold, halves


def recursive_halving_reduce_scatter(
    ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Schedule:
    """log2 q exchanges of half of what is left; off powers of two some ranks fold in before and out
    after, in pairs.

    An exchange begins when both ranks have ended their last exchange, with both directions.

    >>> recursive_halving_reduce_scatter(4, 4096.0).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    rounds, first = log2_floor(ranks), chunks(ranks)
    vector = ScheduleBuilder(
        fold(ranks, shifts, *halves(rounds)), nbytes, slots=ranks, phase="fold"
    )
    place = vector.each(np.arange(1 << rounds))
    rank, extra = first[place], first[: ranks - (1 << rounds)] + 1
    done = np.full((len(rank), 2), -1)
    done[: len(extra), 0] = vector.reduce(extra, extra - 1, slot=0, count=ranks)
    vector.phase("reduce-scatter")
    for level in reversed(range(rounds)):
        peer = place ^ (1 << level)
        partner = vector.place(peer)
        begin, after = peer >> level << level, np.hstack((done, done[partner]))
        slot, end = first[begin], first[begin + (1 << level)]
        sent = vector.reduce(rank, first[peer], slot=slot, count=end - slot, after=after)
        done = np.stack((sent, sent[partner]), axis=1)
    vector.phase("unfold")
    vector.copy(extra - 1, extra, slot=extra, after=done[: len(extra)])
    return vector.build()


ALGORITHMS = (
    Algorithm(
        "recursive_halving_reduce_scatter",
        REDUCE_SCATTER,
        recursive_halving_reduce_scatter,
        trees.RECURSIVE_HALVING_REDUCE_SCATTER,
        "every round halves what a rank exchanges with the rank 2^k away",
        shifts=bits,
    ),
)
