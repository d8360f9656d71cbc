"""Parts of V that ranks halve step by step, and double again, with peers that an algorithm chooses;
and ranks beyond a power of two, which fold in and out.

`halving_doubling` writes its steps itself: newcomers read it first."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from simulator.cost_models import log2_floor
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Numbers


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
