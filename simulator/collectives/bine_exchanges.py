"""Bine's all-gather, reduce-scatter and reduce: exchanges and trees over shorter distances.

After De Sensi et al., Bine trees, SC 2025, arXiv 2508.17311. Chunks are kept in scratch in such an
order that those of a message are neighbours.
"""

from functools import partial

import numpy as np

from simulator.collectives.bine import levels, peers
from simulator.collectives.collective import ALL_GATHER, REDUCE, REDUCE_SCATTER, Algorithm
from simulator.collectives.recursive_doubling import recursive_doubling_all_gather
from simulator.collectives.recursive_halving import recursive_halving_reduce_scatter
from simulator.collectives.swing import places
from simulator.cost_models import is_power_of_two, log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


def bine_all_gather(ranks: int, nbytes: float) -> Schedule:
    """Far peers come first, so that large messages go to near peers.

    Off powers of two it is recursive doubling.

    >>> bine_all_gather(8, 8.0).sent().tolist()
    [7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0]
    """
    if not is_power_of_two(ranks):
        return recursive_doubling_all_gather(ranks, nbytes)
    gather = ScheduleBuilder(ranks, nbytes, slots=ranks, scratch=ranks, phase="all-gather")
    rank, rounds = np.arange(ranks), log2_floor(ranks)
    peer = [peers(rank, step, ranks) for step in range(rounds)]
    place = places(peer, ranks)
    gather.copy(rank, rank, slot=rank, target=ranks + place)
    for step in reversed(range(rounds)):
        half = ranks >> step + 1
        gather.copy(rank, peer[step], slot=ranks + place // half * half, count=half)
    chunk = (rank + np.arange(1, ranks)[:, None]) % ranks
    gather.copy(rank, rank, slot=ranks + place[chunk], target=chunk, steps=True)
    return gather.build()


def bine_reduce_scatter(ranks: int, nbytes: float) -> Schedule:
    """Near peers come first. An exchange begins when both have finished the one before.

    Off powers of two it is recursive halving.
    """
    if not is_power_of_two(ranks):
        return recursive_halving_reduce_scatter(ranks, nbytes)
    scatter = ScheduleBuilder(ranks, nbytes, slots=ranks, scratch=ranks, phase="reduce-scatter")
    rank, rounds = np.arange(ranks), log2_floor(ranks)
    peer = [peers(rank, step, ranks) for step in range(rounds)]
    place = places(peer, ranks)
    chunk = (rank + np.arange(ranks)[:, None]) % ranks
    scatter.copy(rank, rank, slot=chunk, target=ranks + place[chunk], steps=True)
    ready = np.full(ranks, -1)
    for step in range(rounds):
        half, partner = ranks >> step + 1, peer[step]
        slot = ranks + place[partner] // half * half
        sent = scatter.reduce(rank, partner, slot=slot, count=half, after=ready[partner, None])
        ready = sent[partner]
    scatter.copy(rank, rank, slot=ranks + place, target=rank)
    return scatter.build()


def bine_reduce(ranks: int, nbytes: float) -> Schedule:
    """The broadcast backwards."""
    tree = ScheduleBuilder(ranks, nbytes, phase="reduce")
    for parent, child in reversed(levels(ranks)):
        tree.reduce(child, parent, slot=0)
    return tree.build()


def _operations(copies: int, ranks: int) -> float:
    """A rank copies as many chunks as there are other ranks, and so many `copies` more."""
    rounds = log2_floor(ranks)
    if is_power_of_two(ranks):
        return ranks * (ranks - 1 + copies + rounds)
    return (rounds << rounds) + 2 * (ranks - (1 << rounds))


ALGORITHMS = (
    Algorithm(
        "bine_all_gather",
        ALL_GATHER,
        bine_all_gather,
        trees.BINE_ALL_GATHER,
        "exchanges of chunks over shorter distances",
        operations=partial(_operations, 1),
    ),
    Algorithm(
        "bine_reduce_scatter",
        REDUCE_SCATTER,
        bine_reduce_scatter,
        trees.BINE_REDUCE_SCATTER,
        "exchanges over shorter distances that halve what is left",
        operations=partial(_operations, 2),
    ),
    Algorithm(
        "bine_reduce",
        REDUCE,
        bine_reduce,
        trees.BINE_REDUCE,
        "a binomial tree over shorter distances, to rank 0",
    ),
)
