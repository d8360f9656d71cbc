"""Rabenseifner's algorithm: a reduce-scatter by recursive halving, then an all-gather by recursive doubling."""

import numpy as np

from simulator import cost_models
from simulator.builder import ScheduleBuilder
from simulator.collectives.collective import ALL_REDUCE, Algorithm
from simulator.cost_models import log2_floor
from simulator.schedule import Schedule


def halving_doubling_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """Among q = 2^⌊log2 p⌋ ranks; the others fold in before and out after.

    An exchange is a rendezvous, as MPI's blocking sendrecv is: it begins when both have ended the one before.
    """
    rounds = log2_floor(ranks)
    vector = ScheduleBuilder(ranks, nbytes, slots=1 << rounds, phase="fold")
    rank, extra = np.arange(1 << rounds), np.arange(1 << rounds, ranks)
    ready = np.full(1 << rounds, -1)
    ready[: len(extra)] = vector.reduce(extra, extra - (1 << rounds), slot=0, count=1 << rounds)
    vector.phase("reduce-scatter")
    for level in reversed(range(rounds)):
        peer = rank ^ (1 << level)
        ready = vector.reduce(rank, peer, slot=_half(peer, level), count=1 << level, after=ready[peer, None])[peer]
    vector.phase("all-gather")
    for level in range(rounds):
        vector.copy(rank, rank ^ (1 << level), slot=_half(rank, level), count=1 << level)
    vector.phase("unfold")
    vector.copy(extra - (1 << rounds), extra, slot=0, count=1 << rounds)
    return vector.build()


def _half(rank: np.ndarray, level: int) -> np.ndarray:
    """The first slot of the 2^level that `rank` is left with."""
    return rank >> level << level


ALGORITHMS = (
    Algorithm(
        "halving_doubling",
        ALL_REDUCE,
        halving_doubling_all_reduce,
        cost_models.HALVING_DOUBLING,
        "Rabenseifner: recursive halving, then recursive doubling",
    ),
)
