"""Recursive doubling and halving: in round k every rank exchanges data with the rank 2^k away.

Algorithms with other peers halve and double parts of V with the same functions. `halving_doubling`
writes its steps itself: newcomers read it first.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, declare
from simulator.cost_models import log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, bits, fold, halves
from topologies.topology import Ints, Numbers


@declare("recursive_doubling", ALL_REDUCE, trees.RECURSIVE_DOUBLING, shifts=bits)
def recursive_doubling_all_reduce(
    ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Schedule:
    """In round k every rank exchanges all data with the rank 2^k away. Data arrive in scratch and
    are merged there. Ranks other than q = 2^⌊log2 p⌋ fold in and out.

    Both sides wait for each other, as in MPI's blocking sendrecv: no rank sends to a rank that is
    still folding.
    """
    rounds = log2_floor(ranks)
    exchange = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=1)
    ready, rank = fold_in(exchange, 1 << rounds), exchange.each(np.arange(1 << rounds))
    for level in range(rounds):
        exchange.phase(f"round {level}")
        peer = rank ^ (1 << level)
        exchange.copy(rank, peer, slot=0, target=1, after=ready[exchange.place(peer), None])
        ready = exchange.reduce(rank, rank, slot=1, target=0)
    unfold(exchange, 1 << rounds)
    return exchange.build()


@declare(
    "recursive_doubling_all_gather", ALL_GATHER, trees.RECURSIVE_DOUBLING_ALL_GATHER, shifts=bits
)
def recursive_doubling_all_gather(
    ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Schedule:
    """In round k every rank exchanges its chunks with the rank 2^k away. Off powers of two some
    ranks fold in and out, as :func:`chunks` says.

    An exchange begins when both ranks have ended their last exchange, with both directions.

    >>> recursive_doubling_all_gather(4, 4096.0).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    return _exchanges(ranks, nbytes, shifts, reduces=False)


def _exchanges(ranks: int, nbytes: float, shifts: Shifts | None, *, reduces: bool) -> Schedule:
    """The all-gather, or the reduce-scatter, which takes the rounds backwards."""
    rounds, first = log2_floor(ranks), chunks(ranks)
    vector = ScheduleBuilder(
        fold(ranks, shifts, *halves(rounds)), nbytes, slots=ranks, phase="fold"
    )
    send = vector.reduce if reduces else vector.copy
    place = vector.each(np.arange(1 << rounds))
    rank, extra = first[place], first[: ranks - (1 << rounds)] + 1
    alone, every = {"slot": extra}, {"slot": 0, "count": ranks}
    done = np.full((len(rank), 2), -1)
    done[: len(extra), 0] = send(extra, extra - 1, **(every if reduces else alone))
    vector.phase("reduce-scatter" if reduces else "all-gather")
    for level in reversed(range(rounds)) if reduces else range(rounds):
        peer = place ^ (1 << level)
        partner, begin = vector.place(peer), (peer if reduces else place) >> level << level
        slot, end = first[begin], first[begin + (1 << level)]
        after = np.hstack((done, done[partner]))
        sent = send(rank, first[peer], slot=slot, count=end - slot, after=after)
        done = np.stack((sent, sent[partner]), axis=1)
    vector.phase("unfold")
    vector.copy(extra - 1, extra, **(alone if reduces else every), after=done[: len(extra)])
    return vector.build()


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


@declare(
    "recursive_halving_reduce_scatter",
    REDUCE_SCATTER,
    trees.RECURSIVE_HALVING_REDUCE_SCATTER,
    shifts=bits,
)
def recursive_halving_reduce_scatter(
    ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Schedule:
    """Every round halves what a rank exchanges with the rank 2^k away. Off powers of two some ranks
    fold in before and out after, in pairs.

    An exchange begins when both ranks have ended their last exchange, with both directions.

    >>> recursive_halving_reduce_scatter(4, 4096.0).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    return _exchanges(ranks, nbytes, shifts, reduces=True)


class HalvedPart(NamedTuple):
    """A part of V that ranks halve step by step, until each owns a slot. What a rank gets from some
    step on are neighbouring slots."""

    first: int
    """Its first slot."""
    peers: Callable[[Numbers, int], Numbers]
    """The peers of ranks in a step."""
    places: Callable[[Numbers], Numbers]
    """The slots that ranks own, counted from the first one."""


def halved_and_doubled(
    vector: ScheduleBuilder, members: int, parts: Sequence[HalvedPart]
) -> Schedule:
    """The all-reduce of parts among the first `members` ranks; the others fold in and out."""
    ready = fold_in(vector, members)
    vector.phase("reduce-scatter")
    reduce_halves(vector, members, parts, ready)
    vector.phase("all-gather")
    gather_halves(vector, members, parts)
    unfold(vector, members)
    return vector.build()


def fold_in(vector: ScheduleBuilder, members: int) -> Numbers:
    """The ranks behind the first `members`, at most as many, add what they have to that of the
    first ones. Returns for each member the operation with which it has all; -1 for none."""
    vector.phase("fold")
    extra = np.arange(members, vector.ranks)
    ready = np.full(len(vector.each(np.arange(members))), -1)
    ready[: len(extra)] = vector.reduce(extra, extra - members, slot=0, count=vector.slots.buffer)
    return ready


def unfold(vector: ScheduleBuilder, members: int) -> None:
    """The ranks behind the first `members` get the result."""
    vector.phase("unfold")
    extra = np.arange(members, vector.ranks)
    vector.copy(extra - members, extra, slot=0, count=vector.slots.buffer)


def reduce_halves(
    vector: ScheduleBuilder, members: int, parts: Sequence[HalvedPart], ready: Numbers
) -> None:
    """A reduce-scatter of parts among the first `members` ranks, when they are `ready`. An exchange
    begins when both ranks have finished the exchange before."""
    rank, waits = vector.each(np.arange(members)), [ready] * len(parts)
    for step in range(log2_floor(members)):
        half = members >> step + 1
        for number, (first, peers, places) in enumerate(parts):
            peer = peers(rank, step)
            slot, partner = first + places(peer) // half * half, vector.place(peer)
            after = waits[number][partner, None]
            waits[number] = vector.reduce(rank, peer, slot=slot, count=half, after=after)[partner]


def gather_halves(vector: ScheduleBuilder, members: int, parts: Sequence[HalvedPart]) -> None:
    """The all-gather of parts, from the owners of slots."""
    rank = vector.each(np.arange(members))
    for step in reversed(range(log2_floor(members))):
        half = members >> step + 1
        for first, peers, places in parts:
            slot = first + places(rank) // half * half
            vector.copy(rank, peers(rank, step), slot=slot, count=half)
