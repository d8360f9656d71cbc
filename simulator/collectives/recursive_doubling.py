"""Recursive doubling: in round k everyone exchanges all it has with the rank 2^k away."""

import numpy as np

from simulator import cost_models
from simulator.builder import ScheduleBuilder
from simulator.collectives.collective import ALL_REDUCE, Algorithm
from simulator.cost_models import log2_floor
from simulator.schedule import Schedule


def recursive_doubling_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """log2 q exchanges among q = 2^⌊log2 p⌋ ranks, into scratch and merged there; the other ranks fold in and out.

    An exchange is a rendezvous, as MPI's blocking sendrecv is: nobody sends to a rank that is still folding.
    """
    rounds = log2_floor(ranks)
    exchange = ScheduleBuilder(ranks, nbytes, scratch=1, phase="fold")
    rank, extra = np.arange(1 << rounds), np.arange(1 << rounds, ranks)
    ready = np.full(1 << rounds, -1)
    ready[: len(extra)] = exchange.reduce(extra, extra - (1 << rounds), slot=0)
    for level in range(rounds):
        exchange.phase(f"round {level}")
        peer = rank ^ (1 << level)
        exchange.copy(rank, peer, slot=0, target=1, after=ready[peer, None])
        ready = exchange.reduce(rank, rank, slot=1, target=0)
    exchange.phase("unfold")
    exchange.copy(extra - (1 << rounds), extra, slot=0)
    return exchange.build()


ALGORITHMS = (
    Algorithm(
        "recursive_doubling",
        ALL_REDUCE,
        recursive_doubling_all_reduce,
        cost_models.RECURSIVE_DOUBLING,
        "exchange everything with the rank 2^k away",
    ),
)
