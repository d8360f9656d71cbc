"""Schedules drawn at random: copies, reductions, signals and computations."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder

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
