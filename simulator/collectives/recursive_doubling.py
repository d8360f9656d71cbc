"""Recursive doubling: in round k every rank exchanges all its data with the rank 2^k away."""

import numpy as np

from simulator.collectives.collective import ALL_GATHER, ALL_REDUCE, Algorithm
from simulator.cost_models import log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, bits, fold, halves
from topologies.topology import Ints


def recursive_doubling_all_reduce(
    ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Schedule:
    """log2 q exchanges among q = 2^⌊log2 p⌋ ranks, into scratch and merged there; the other
    ranks fold in and out.

    Both sides wait for each other, as in MPI's blocking sendrecv: no rank sends to a rank that is
    still folding.
    """
    rounds = log2_floor(ranks)
    exchange = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=1, phase="fold")
    rank, extra = exchange.each(np.arange(1 << rounds)), np.arange(1 << rounds, ranks)
    ready = np.full(len(rank), -1)
    ready[: len(extra)] = exchange.reduce(extra, extra - (1 << rounds), slot=0)
    for level in range(rounds):
        exchange.phase(f"round {level}")
        peer = rank ^ (1 << level)
        exchange.copy(rank, peer, slot=0, target=1, after=ready[exchange.place(peer), None])
        ready = exchange.reduce(rank, rank, slot=1, target=0)
    exchange.phase("unfold")
    exchange.copy(extra - (1 << rounds), extra, slot=0)
    return exchange.build()


def recursive_doubling_all_gather(
    ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Schedule:
    """log2 q exchanges of 1, 2, 4, ... chunks; off powers of two some ranks fold in and out, as
    :func:`chunks` says.

    An exchange begins when both ranks have ended their last exchange, with both directions.

    >>> recursive_doubling_all_gather(4, 4096.0).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    rounds, first = log2_floor(ranks), chunks(ranks)
    gather = ScheduleBuilder(
        fold(ranks, shifts, *halves(rounds)), nbytes, slots=ranks, phase="fold"
    )
    place = gather.each(np.arange(1 << rounds))
    rank, extra = first[place], first[: ranks - (1 << rounds)] + 1
    done = np.full((len(rank), 2), -1)
    done[: len(extra), 0] = gather.copy(extra, extra - 1, slot=extra)
    gather.phase("all-gather")
    for level in range(rounds):
        peer, begin = place ^ (1 << level), place >> level << level
        partner = gather.place(peer)
        slot, after = first[begin], np.hstack((done, done[partner]))
        sent = gather.copy(
            rank, first[peer], slot=slot, count=first[begin + (1 << level)] - slot, after=after
        )
        done = np.stack((sent, sent[partner]), axis=1)
    gather.phase("unfold")
    gather.copy(extra - 1, extra, slot=0, count=ranks, after=done[: len(extra)])
    return gather.build()


def chunks(ranks: int) -> Ints:
    """The first chunk of each of q = 2^⌊log2 p⌋ ranks, by the number of its rank, and p at the end;
    shape (q + 1,).

    Off powers of two the first p - q of them have two chunks: their own, and that of the rank that
    folds into them.

    >>> chunks(6).tolist()
    [0, 2, 4, 5, 6]
    """
    place = np.arange((1 << log2_floor(ranks)) + 1, dtype=np.int32)
    return place + np.minimum(place, ranks + 1 - len(place))


ALGORITHMS = (
    Algorithm(
        "recursive_doubling",
        ALL_REDUCE,
        recursive_doubling_all_reduce,
        trees.RECURSIVE_DOUBLING,
        "in round k every rank exchanges all data with the rank 2^k away",
        shifts=bits,
    ),
    Algorithm(
        "recursive_doubling_all_gather",
        ALL_GATHER,
        recursive_doubling_all_gather,
        trees.RECURSIVE_DOUBLING_ALL_GATHER,
        "in round k every rank exchanges its chunks with the rank 2^k away",
        shifts=bits,
    ),
)
