"""Swing: an all-reduce by exchanges whose large messages go to near peers, on a torus over all
links at the same time.

After De Sensi et al., Swing: short-cutting rings for higher bandwidth allreduce, NSDI 2024. Every
rank is in D dimensions. In a step a rank exchanges with the peer at the distance 1, -1, 3, -5, ...
along one dimension; odd ranks go the other way. Dimensions take turns.
"""

from math import prod

import numpy as np
import numpy.typing as npt

from simulator.collectives.bine import peers
from simulator.collectives.collective import ALL_REDUCE, Algorithm, Fitted
from simulator.collectives.torus_shape import dims_of
from simulator.cost_models import box_formulas, is_power_of_two, log2_floor
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Topology

Numbers = npt.NDArray[np.int64]
Dims = tuple[int, ...]


def swing_all_reduce(ranks: int, nbytes: float, dims: Dims = ()) -> Schedule:
    """A reduce-scatter and an all-gather among q = 2^⌊log2 p⌋ ranks; others fold in and out.

    On a torus of `dims`, each a power of two, V has a part for each of the two directions of each
    dimension, which comes first for that part.

    >>> swing_all_reduce(16, 16.0, (4, 4)).sent().tolist()[0]
    30.0
    """
    members = prod(dims) if dims else 1 << log2_floor(ranks)
    parts = [_part(dims, k) for k in range(2 * len(dims))] if dims else [_part((members,), 0)]
    swing = ScheduleBuilder(ranks, nbytes, slots=len(parts) * members, phase="fold")
    rank, extra = np.arange(members), np.arange(members, ranks)
    fold = np.full(members, -1)
    fold[: len(extra)] = swing.reduce(extra, extra - members, slot=0, count=len(swing.slots))
    ready = [fold] * len(parts)
    rounds = range(log2_floor(members))
    swing.phase("reduce-scatter")
    for step in rounds:
        half = members >> step + 1
        for number, (peer, place) in enumerate(parts):
            partner = peer[step]
            slot = number * members + place[partner] // half * half
            after = ready[number][partner, None]
            sent = swing.reduce(rank, partner, slot=slot, count=half, after=after)
            ready[number] = sent[partner]
    swing.phase("all-gather")
    for step in reversed(rounds):
        half = members >> step + 1
        for number, (peer, place) in enumerate(parts):
            slot = number * members + place // half * half
            swing.copy(rank, peer[step], slot=slot, count=half)
    swing.phase("unfold")
    swing.copy(extra - members, extra, slot=0, count=len(swing.slots))
    return swing.build()


def _part(dims: Dims, number: int) -> tuple[list[Numbers], Numbers]:
    """The part that begins along dimension `number` modulo D, the second D of them mirrored: the
    peers of all ranks in each step, and the chunk that each rank owns in the middle. What a rank
    sends in a step are neighbouring chunks."""
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
    return partners, places(partners, ranks)


def places(peer: list[Numbers], ranks: int) -> Numbers:
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
        return Fitted(swing_all_reduce(ranks, nbytes), topology, box_formulas.SWING)
    words = f"torus of {'x'.join(map(str, dims))}, {2 * len(dims)} parts"
    schedule = swing_all_reduce(ranks, nbytes, dims)
    return Fitted(schedule, topology, box_formulas.torus_swing(dims), (words,))


ALGORITHMS = (
    Algorithm(
        "swing",
        ALL_REDUCE,
        swing_all_reduce,
        box_formulas.SWING,
        "halving and doubling with near peers, on all links of a torus",
        fit=fit,
    ),
)
