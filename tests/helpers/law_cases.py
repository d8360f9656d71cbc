"""Algorithms, shapes, numbers of ranks and orders of operations on which the laws are tested."""

from collections.abc import Iterable
from functools import cache
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

from simulator.collectives import algorithms
from simulator.schedules.schedule import Schedule
from topologies.shapes import SHAPES
from topologies.topology import Ints

COUNTS = tuple(range(2, 34))
"""All numbers of ranks that are tried."""


def counts(name: str, ranks: Iterable[int] = COUNTS) -> tuple[int, ...]:
    """Those of `ranks` for which an algorithm is defined."""
    return tuple(filter(algorithms()[name].defined, ranks))


EVERYWHERE = tuple(name for name in algorithms() if counts(name) == COUNTS)
"""Algorithms that are defined for every number of ranks."""
PLAIN = tuple(
    name
    for name, algorithm in algorithms().items()
    if not algorithm.build(counts(name)[0], 1.0).switches
)
"""Algorithms without switches that reduce."""
NAMES = tuple(name for name in PLAIN if name in EVERYWHERE)
ANY_NUMBER = tuple(shape for shape in SHAPES if shape != "hypercube")
"""Shapes for any number of ranks."""
SOME = (2, 3, 4, 6, 8, 9, 16, 17)
"""Ranks that stand for 2..33 where not every number is tried: powers of two, their neighbours, and
others."""
OTHERS = (*sorted({*COUNTS} - {*SOME}), 64)
"""All others, and one that is far larger."""
every_algorithm = pytest.mark.parametrize("name", NAMES)
every_plain_algorithm = pytest.mark.parametrize("name", PLAIN)
every_count = pytest.mark.parametrize(
    "several",
    [
        pytest.param(SOME, id="some"),
        pytest.param(OTHERS, id="others", marks=pytest.mark.exhaustive),
    ],
)


def a_third(cases: Iterable[Any], first: int) -> list[ParameterSet]:
    """Every third of some machines, and the others with `-m exhaustive`: for laws of what they have
    in common."""
    return _every(3, cases, first)


def a_sixth(cases: Iterable[Any], first: int) -> list[ParameterSet]:
    """Every sixth of some algorithms, and the others with `-m exhaustive`: for laws of what they
    have in common. Laws begin at different algorithms, so that each algorithm is tried by some."""
    return _every(6, cases, first)


def by_turns(cases: Iterable[Any], others: Iterable[Any]) -> list[ParameterSet]:
    """Each case with one of `others`, in turn, and with all of them with `-m exhaustive`."""
    turns = tuple(others)
    return [
        pytest.param(
            case,
            other,
            id=f"{case}-{other}",
            marks=[] if number % len(turns) == turn else [pytest.mark.exhaustive],
        )
        for number, case in enumerate(cases)
        for turn, other in enumerate(turns)
    ]


def _every(step: int, cases: Iterable[Any], first: int) -> list[ParameterSet]:
    rare = pytest.mark.exhaustive
    return [
        pytest.param(
            case, id=getattr(case, "name", case), marks=[rare] if number % step != first else []
        )
        for number, case in enumerate(cases)
    ]


def tries(few: int, many: int | None = None) -> settings:
    """So many examples of a law, and `many` or five times as many with `-m exhaustive`: for laws
    that every algorithm has to itself."""
    by_default = settings().max_examples == settings.get_profile("few").max_examples
    return settings(max_examples=few if by_default else many or 5 * few)


@cache
def build(name: str, ranks: int) -> Schedule:
    return algorithms()[name].build(ranks, float(ranks * 1024))


# (2) Any topological order.


def topological_order(schedule: Schedule, priority: npt.NDArray[Any]) -> Ints:
    """Of all operations that may run next, always the one of least priority."""
    indptr, successors = schedule.successors
    waiting = np.diff(schedule.indptr).tolist()
    able = [(priority[i], i) for i in range(len(schedule)) if not waiting[i]]
    heapify(able)
    order = []
    while able:
        _, i = heappop(able)
        order.append(i)
        for j in successors[indptr[i] : indptr[i + 1]].tolist():
            waiting[j] -= 1
            if not waiting[j]:
                heappush(able, (priority[j], j))
    assert sorted(order) == list(range(len(schedule)))
    return np.array(order, dtype=np.int32)


def orders(schedule: Schedule, random: Random) -> list[Ints]:
    """The most backward order there is, one rank far ahead of the others, and one at random."""
    size = len(schedule)
    favourite = random.randrange(schedule.ranks)
    priorities = (
        -np.arange(size),
        schedule.rank != favourite,
        np.array(random.sample(range(size), size)),
    )
    return [topological_order(schedule, priority) for priority in priorities]
