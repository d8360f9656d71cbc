"""Rabenseifner's algorithm: a reduce-scatter by recursive halving, then an all-gather by recursive
doubling."""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, declare
from simulator.cost_models import log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, bits, fold, halves


@declare("halving_doubling", ALL_REDUCE, trees.HALVING_DOUBLING, shifts=bits)
def halving_doubling_all_reduce(
    ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Schedule:
    """Rabenseifner: recursive halving, then recursive doubling. It is among q = 2^⌊log2 p⌋
    ranks; the others fold in before and out after.

    Both sides wait for each other, as in MPI's blocking sendrecv. An exchange begins when both have
    finished the exchange before.
    """
    rounds = log2_floor(ranks)
    vector = ScheduleBuilder(
        fold(ranks, shifts, *halves(rounds)), nbytes, slots=1 << rounds, phase="fold"
    )
    rank, extra = vector.each(np.arange(1 << rounds)), np.arange(1 << rounds, ranks)
    ready = np.full(len(rank), -1)
    ready[: len(extra)] = vector.reduce(extra, extra - (1 << rounds), slot=0, count=1 << rounds)
    vector.phase("reduce-scatter")
    for level in reversed(range(rounds)):
        peer = rank ^ (1 << level)
        partner = vector.place(peer)
        ready = vector.reduce(
            rank, peer, slot=_half(peer, level), count=1 << level, after=ready[partner, None]
        )[partner]
    vector.phase("all-gather")
    for level in range(rounds):
        vector.copy(rank, rank ^ (1 << level), slot=_half(rank, level), count=1 << level)
    vector.phase("unfold")
    vector.copy(extra - (1 << rounds), extra, slot=0, count=1 << rounds)
    return vector.build()


def _half(rank: np.ndarray, level: int) -> np.ndarray:
    """The first of the 2^level slots that are left to `rank`."""
    return rank >> level << level
