"""Scatter and gather, van de Geijn's broadcast, and barriers, on binomial trees or straight.

Van de Geijn's broadcast is a binomial scatter, then an all-gather, so that long messages cross a
port about twice. Both sides of an exchange wait for each other, as with MPI's blocking sendrecv.
Rank 0 and other ranks that scatter have some chunks before the all-gather. MPICH and Open MPI send
them again; here such a message is empty, which takes the same time in all.

In a barrier no rank leaves before all ranks have entered. Its messages carry no bytes.
"""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import (
    BROADCAST,
    GATHER,
    SCATTER,
    Collective,
    declare,
    none,
    nothing,
)
from simulator.cost_models import exchange_formulas as formulas
from simulator.cost_models import log2_ceil, log2_floor
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Flags, Ints, Numbers


@declare("linear_scatter", SCATTER, formulas.LINEAR_SCATTER)
def linear_scatter(ranks: int, nbytes: float) -> Schedule:
    """Rank 0 sends every rank its chunk."""
    direct = ScheduleBuilder(ranks, nbytes, slots=ranks, phase="scatter")
    direct.copy(0, np.arange(1, ranks), slot=np.arange(1, ranks))
    return direct.build()


@declare("linear_gather", GATHER, formulas.LINEAR_GATHER)
def linear_gather(ranks: int, nbytes: float) -> Schedule:
    """Every rank sends its chunk to rank 0."""
    direct = ScheduleBuilder(ranks, nbytes, slots=ranks, phase="gather")
    direct.copy(np.arange(1, ranks), 0, slot=np.arange(1, ranks))
    return direct.build()


@declare("binomial_scatter", SCATTER, formulas.BINOMIAL_SCATTER)
def binomial_scatter(ranks: int, nbytes: float) -> Schedule:
    """Down a binomial tree: half of the chunks, then half of the rest.

    >>> binomial_scatter(8, 8.0).sent().tolist()
    [7.0, 0.0, 1.0, 0.0, 3.0, 0.0, 1.0, 0.0]
    """
    tree = ScheduleBuilder(ranks, nbytes, slots=ranks)
    scatter_chunks(tree, ranks)
    return tree.build()


@declare("binomial_gather", GATHER, formulas.BINOMIAL_GATHER)
def binomial_gather(ranks: int, nbytes: float) -> Schedule:
    """Up a binomial tree: chunks of a subtree travel together."""
    tree = ScheduleBuilder(ranks, nbytes, slots=ranks, phase="gather")
    for level in range(log2_ceil(ranks)):
        child, count = _subtrees(ranks, level)
        tree.copy(child, child - (1 << level), slot=child, count=count)
    return tree.build()


def scatter_chunks(tree: ScheduleBuilder, members: int) -> Ints:
    """Chunk r of `members` goes to rank r down a binomial tree.

    Returns the operations that each rank took part in, -1 for none: rows for ranks.
    """
    tree.phase("scatter")
    levels = log2_ceil(members)
    done = np.full((members, levels + 1), -1)
    for level in reversed(range(levels)):
        child, count = _subtrees(members, level)
        done[child, levels] = tree.copy(child - (1 << level), child, slot=child, count=count)
        done[child - (1 << level), level] = done[child, levels]
    return done


def _subtrees(members: int, level: int) -> tuple[Ints, Ints]:
    child: Ints = np.arange(1 << level, members, 2 << level, dtype=np.int32)
    count: Ints = np.minimum(1 << level, members - child)
    return child, count


@declare("scatter_allgather_ring_broadcast", BROADCAST, formulas.SCATTER_RING_BROADCAST)
def scatter_ring_broadcast(ranks: int, nbytes: float) -> Schedule:
    """Van de Geijn: a scatter, then round a ring.

    >>> scatter_ring_broadcast(4, 4096.0).steps
    5
    """
    vector = ScheduleBuilder(ranks, nbytes, slots=ranks)
    done, rank = scatter_chunks(vector, ranks), np.arange(ranks)
    vector.phase("all-gather")
    before, after = np.roll(rank, 1), np.roll(rank, -1)
    for step in range(ranks - 1):
        chunk = (rank - step) % ranks
        known = (chunk > after) & (chunk < after + _subtree(after, ranks))
        sent = _exchange(vector, after, chunk, 1, known, np.hstack((done, done[after])))
        done = np.stack((sent, sent[before]), axis=1)
    return vector.build()


@declare("scatter_allgather_broadcast", BROADCAST, formulas.SCATTER_DOUBLING_BROADCAST)
def scatter_doubling_broadcast(ranks: int, nbytes: float) -> Schedule:
    """Van de Geijn: a scatter, then recursive doubling. The latter is among q = 2^⌊log2 p⌋
    ranks; each of the others gets V from one of them at the end."""
    rounds = log2_floor(ranks)
    members, extra = 1 << rounds, np.arange(1 << rounds, ranks)
    vector = ScheduleBuilder(ranks, nbytes, slots=members)
    done, rank = scatter_chunks(vector, members), np.arange(members)
    vector.phase("all-gather")
    for level in range(rounds):
        peer, first = rank ^ (1 << level), rank >> level << level
        known = peer % (2 << level) == 0
        sent = _exchange(vector, peer, first, 1 << level, known, np.hstack((done, done[peer])))
        done = np.stack((sent, sent[peer]), axis=1)
    vector.phase("unfold")
    vector.copy(extra - members, extra, slot=0, count=members, after=done[: len(extra)])
    return vector.build()


def _subtree(rank: Numbers, members: int) -> Numbers:
    """How many ranks got their chunks through a rank, itself included."""
    return np.where(rank == 0, members, np.minimum(rank & -rank, members - rank))


def _exchange(
    vector: ScheduleBuilder, peer: Numbers, slot: Numbers, count: int, known: Flags, after: Ints
) -> Ints:
    """All ranks send chunks to their peers, and an empty message where the peer has them."""
    rank, new = np.arange(len(peer)), ~known
    sent = np.empty(len(rank), dtype=np.int32)
    sent[new] = vector.copy(rank[new], peer[new], slot=slot[new], count=count, after=after[new])
    sent[known] = vector.signal(rank[known], peer[known], after=after[known])
    return sent


BARRIER = Collective("barrier", nothing, none, none, none, none, causal=True)


@declare("central_barrier", BARRIER, formulas.CENTRAL_BARRIER)
def central_barrier(ranks: int, nbytes: float) -> Schedule:
    """All ranks report to rank 0, which releases all."""
    barrier = _builder(ranks, nbytes, "enter")
    members = np.arange(1, ranks)
    entered = barrier.signal(members, 0)
    barrier.phase("leave")
    barrier.signal(0, members, after=entered)
    return barrier.build()


@declare("tree_barrier", BARRIER, formulas.TREE_BARRIER)
def tree_barrier(ranks: int, nbytes: float) -> Schedule:
    """Up a binomial tree to rank 0, and down again. A rank tells its parent when all its children
    have told it."""
    barrier = _builder(ranks, nbytes, "enter")
    children = [np.arange(1 << k, ranks, 2 << k) for k in range(log2_ceil(ranks))]
    heard: Ints = np.full((ranks, len(children) + 1), -1, dtype=np.int32)
    for level, child in enumerate(children):
        parent = child - (1 << level)
        heard[parent, level] = barrier.signal(child, parent, after=heard[child])
    barrier.phase("leave")
    for level, child in reversed([*enumerate(children)]):
        parent = child - (1 << level)
        heard[child, -1] = barrier.signal(parent, child, after=heard[parent])
    return barrier.build()


@declare("dissemination_barrier", BARRIER, formulas.DISSEMINATION_BARRIER)
def dissemination_barrier(ranks: int, nbytes: float) -> Schedule:
    """In round k every rank tells the rank 2^k ahead. It names all ranks of which it has heard."""
    barrier = _builder(ranks, nbytes, "round 0")
    rank = np.arange(ranks)
    heard: Ints = np.zeros((ranks, 0), dtype=np.int32)
    for level in range(log2_ceil(ranks)):
        barrier.phase(f"round {level}")
        signals = barrier.signal(rank, (rank + (1 << level)) % ranks, after=heard)
        heard = np.column_stack((heard, signals[(rank - (1 << level)) % ranks]))
    return barrier.build()


def _builder(ranks: int, nbytes: float, phase: str) -> ScheduleBuilder:
    """A barrier has no data: its buffer has no bytes, whatever V is."""
    return ScheduleBuilder(ranks, nbytes, slots=np.zeros((ranks, 1)), phase=phase)
