"""Schedules small enough to follow with a finger, or drawn at random: copies, reductions, signals
and computations; and who waits for whom in any."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


def messages(*sizes: float) -> Schedule:
    """Messages of rank 0 to rank 1, all ready at 0."""
    return between(*((0, 1, nbytes) for nbytes in sizes))


def equal_messages(count: int, nbytes: float) -> Schedule:
    """`count` messages of rank 0 to rank 1, all ready at 0."""
    return between(*[(0, 1, nbytes)] * count)


def between(*transfers: tuple[int, int, float]) -> Schedule:
    """(sender, receiver, bytes), all ready at 0."""
    builder = ScheduleBuilder(1 + max(max(source, target) for source, target, _ in transfers), 1.0)
    for source, target, nbytes in transfers:
        builder.signal(source, target, nbytes=nbytes)
    return builder.build()


def three_rank_child() -> Schedule:
    """Two copies to rank 2, a signal that waits for them, a computation on lane 2: to be
    inlined."""
    child = ScheduleBuilder(3, 30.0, slots=2, phase="inner")
    first = child.copy([0, 1], 2, slot=[0, 1])
    child.phase("told")
    child.signal(2, 0, after=first)
    child.compute(1, 4.0, lane=2, reads=0)
    return child.build()


def waits(schedule: Schedule, operation: int) -> list[int]:
    """What an operation waits for, in order."""
    return [int(before) for before in schedule.predecessors(operation)]


def predecessors(schedule: Schedule) -> list[set[int]]:
    """What every operation waits for."""
    return [set(schedule.predecessors(i).tolist()) for i in range(len(schedule))]


def ancestors(edges: list[set[int]]) -> list[set[int]]:
    """The transitive closure of edges that lead backwards."""
    known: list[set[int]] = []
    for before in edges:
        known.append(before.union(*(known[i] for i in before)))
    return known


Draw = Callable[[Random], float]
EACH = ("copy", "reduce", "signal", "compute")


class Mixture(NamedTuple):
    """What a random schedule is made of."""

    nbytes: Draw
    """Of a signal."""
    seconds: Draw
    """Of a computation."""
    kinds: tuple[str, ...] = EACH
    after: tuple[int, ...] = (0, 0, 1, 2)
    """For how many operations one may be told to wait."""
    lanes: tuple[int, ...] = (0, 1)
    on_slots: bool = False
    """Whether computations read a slot, and some write one."""
    most: int = 20


DYADIC_SCHEDULE = Mixture(
    lambda random: random.randint(0, 4), lambda random: random.randint(0, 4) / 2, most=16
)
"""Ties are exact."""

IRREGULAR_SCHEDULE = Mixture(
    lambda random: random.randint(0, 4), lambda random: random.choice((0.0, 1.0, random.random()))
)
"""Few ties."""


def random_schedule(random: Random, ranks: int, drawn: Mixture) -> Schedule:
    """Up to `most` operations on two slots and one of scratch, with what they wait for drawn at
    random besides."""
    builder = ScheduleBuilder(ranks, 8.0, slots=2, scratch=1)
    for number in range(random.randint(1, drawn.most)):
        source, peer = random.randrange(ranks), random.randrange(ranks)
        after = random.sample(range(number), min(number, random.choice(drawn.after)))
        slot, target = random.sample(range(3), 2)
        match random.choice(drawn.kinds):
            case "copy":
                builder.copy(source, peer, slot=slot, target=target, after=after)
            case "reduce":
                builder.reduce(source, peer, slot=slot, target=target, after=after)
            case "signal":
                builder.signal(source, peer, nbytes=drawn.nbytes(random), after=after)
            case _:
                seconds, lane = drawn.seconds(random), random.choice(drawn.lanes)
                reads, writes = (slot, random.choice((-1, target))) if drawn.on_slots else (-1, -1)
                builder.compute(source, seconds, lane=lane, reads=reads, writes=writes, after=after)
    return builder.build()
