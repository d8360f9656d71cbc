"""Swing and Bine: exchanges and trees whose large messages go to near peers.

After De Sensi et al., Swing: short-cutting rings for higher bandwidth allreduce, NSDI 2024, and
Bine trees, SC 2025, arXiv 2508.17311. Bine's messages cross up to a third less of the network. Its
chunks are kept in scratch in such an order that those of a message are neighbours.

In Swing every rank is in D dimensions of a torus. In a step a rank exchanges with the peer at the
distance 1, -1, 3, -5, ... along one dimension; odd ranks go the other way. Dimensions take turns.
"""

from functools import partial
from math import prod

import numpy as np

from simulator.collectives.box_rings import dims_of
from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    REDUCE_SCATTER,
    Fitted,
    declare,
)
from simulator.collectives.recursive_doubling import (
    HalvedPart,
    gather_halves,
    halved_and_doubled,
    recursive_doubling_all_gather,
    recursive_halving_reduce_scatter,
    reduce_halves,
)
from simulator.cost_models import is_power_of_two, log2_floor, machine_formulas, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Longs, Topology


@declare("bine_broadcast", BROADCAST, trees.BINE_BROADCAST)
def bine_broadcast(ranks: int, nbytes: float) -> Schedule:
    """A binomial tree over shorter distances. Who has V sends it to his peer: first over a third of
    q = 2^⌊log2 p⌋ ranks, then over half of that each time. The other ranks get V from those that
    got it last."""
    tree = ScheduleBuilder(ranks, nbytes, phase="broadcast")
    for parent, child in levels(ranks):
        tree.copy(parent, child, slot=0)
    return tree.build()


def levels(ranks: int) -> list[tuple[Longs, Longs]]:
    """The parents and the children of each level of the tree, from the root on."""
    have, pairs = np.zeros(1, dtype=np.int64), []
    for step in reversed(range(log2_floor(ranks))):
        peer = peers(have, step, 1 << log2_floor(ranks))
        pairs.append((have, peer))
        have = np.concatenate((have, peer))
    extra = np.arange(len(have), ranks)
    return [*pairs, (have[::-1][: len(extra)], extra)]


def peers(rank: Longs, step: int, ranks: int) -> Longs:
    """The peers of some ranks: 1, -1, 3, -5, 11, ... further, and as far back for odd ranks.

    >>> [peers(np.arange(2), step, 16).tolist() for step in range(4)]
    [[1, 0], [15, 2], [3, 14], [11, 6]]
    """
    distance = (1 - (-2) ** (step + 1)) // 3
    return np.asarray((rank + np.where(rank % 2, -distance, distance)) % ranks)


Dims = tuple[int, ...]


def _part(dims: Dims, number: int, first: int = 0) -> HalvedPart:
    """The part from slot `first` on that begins along dimension `number` modulo D, the second D of
    them mirrored."""
    ranks, mirrored = prod(dims), number >= len(dims)
    coordinates = np.array(np.unravel_index(np.arange(ranks), dims), dtype=np.int64)
    steps = [
        (step, (number + turn) % len(dims))
        for step in range(max(log2_floor(dim) for dim in dims))
        for turn in range(len(dims))
    ]
    partners = []
    for step, axis in steps:
        if step < log2_floor(dims[axis]):
            moved = coordinates.copy()
            near = coordinates[axis]
            there = peers(near + mirrored, step, dims[axis]) - mirrored
            moved[axis] = there % dims[axis]
            partners.append(np.ravel_multi_index(tuple(moved), dims))
    place = _places(partners, ranks)
    return HalvedPart(first, lambda rank, step: partners[step][rank], lambda rank: place[rank])


def _places(peer: list[Longs], ranks: int) -> Longs:
    """Chunks such that those which a rank is to get from some step on are neighbours."""
    place, group = np.zeros(ranks, dtype=np.int64), np.arange(ranks)
    for bit, partner in enumerate(reversed(peer)):
        joined = np.minimum(group, group[partner])
        place += (group != joined) << bit
        group = joined
    return place


def fit(topology: Topology, ranks: int, nbytes: float) -> Fitted:
    """The dimensions of the machine, if it is a torus of powers of two."""
    dims = dims_of(topology, ranks)
    if not dims or not all(map(is_power_of_two, dims)):
        return Fitted(swing_all_reduce(ranks, nbytes), topology, machine_formulas.SWING)
    words = f"torus of {'x'.join(map(str, dims))}, {2 * len(dims)} parts"
    schedule = swing_all_reduce(ranks, nbytes, dims)
    return Fitted(schedule, topology, machine_formulas.torus_swing(dims), (words,))


@declare("swing", ALL_REDUCE, machine_formulas.SWING, fit=fit)
def swing_all_reduce(ranks: int, nbytes: float, dims: Dims = ()) -> Schedule:
    """Halving and doubling with near peers, on all links of a torus. A reduce-scatter and an all-
    gather among q = 2^⌊log2 p⌋ ranks; others fold in and out.

    On a torus of `dims`, each a power of two, V has a part for each of the two directions of each
    dimension, which comes first for that part.

    >>> swing_all_reduce(16, 16.0, (4, 4)).sent().tolist()[0]
    30.0
    """
    members = prod(dims) if dims else 1 << log2_floor(ranks)
    count = max(1, 2 * len(dims))
    parts = [_part(dims or (members,), k, k * members) for k in range(count)]
    swing = ScheduleBuilder(ranks, nbytes, slots=count * members)
    return halved_and_doubled(swing, members, parts)


@declare("bine_reduce", REDUCE, trees.BINE_REDUCE)
def bine_reduce(ranks: int, nbytes: float) -> Schedule:
    """A binomial tree over shorter distances, to rank 0."""
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


@declare("bine_all_gather", ALL_GATHER, trees.BINE_ALL_GATHER, operations=partial(_operations, 1))
def bine_all_gather(ranks: int, nbytes: float) -> Schedule:
    """Exchanges of chunks over shorter distances. Far peers come first, so that large messages go
    to near peers. Off powers of two it is recursive doubling.

    >>> bine_all_gather(8, 8.0).sent().tolist()
    [7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0]
    """
    if not is_power_of_two(ranks):
        return recursive_doubling_all_gather(ranks, nbytes)
    gather = ScheduleBuilder(ranks, nbytes, slots=ranks, scratch=ranks, phase="all-gather")
    rank, part = np.arange(ranks), _part((ranks,), 0, ranks)
    places = part.places
    gather.copy(rank, rank, slot=rank, target=ranks + places(rank))
    gather_halves(gather, ranks, [part])
    chunk = (rank + np.arange(1, ranks)[:, None]) % ranks
    gather.copy(rank, rank, slot=ranks + places(chunk), target=chunk, steps=True)
    return gather.build()


@declare(
    "bine_reduce_scatter",
    REDUCE_SCATTER,
    trees.BINE_REDUCE_SCATTER,
    operations=partial(_operations, 2),
)
def bine_reduce_scatter(ranks: int, nbytes: float) -> Schedule:
    """Exchanges over shorter distances that halve what is left. An exchange begins when both have
    finished the one before. Off powers of two it is recursive halving."""
    if not is_power_of_two(ranks):
        return recursive_halving_reduce_scatter(ranks, nbytes)
    scatter = ScheduleBuilder(ranks, nbytes, slots=ranks, scratch=ranks, phase="reduce-scatter")
    rank, part = np.arange(ranks), _part((ranks,), 0, ranks)
    places = part.places
    chunk = (rank + np.arange(ranks)[:, None]) % ranks
    scatter.copy(rank, rank, slot=chunk, target=ranks + places(chunk), steps=True)
    reduce_halves(scatter, ranks, [part], np.full(ranks, -1))
    scatter.copy(rank, rank, slot=ranks + places(rank), target=rank)
    return scatter.build()
