"""How much work a sweep is: estimated before it starts."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.collectives import Algorithm
from simulator.collectives.operation_counts import estimate
from simulator.schedules.schedule import LIMIT
from topologies.errors import InputError

MOST = 2.0**32
"""Operations of a sweep, at most: several hours."""
MANY = 2.0**25
"""Operations of a sweep that takes minutes."""
OF_A_POINT = 1000
"""What a point takes besides its operations, in operations."""
SECONDS = 3e-6
"""What an operation takes at least: to build, to prove, to simulate, to bound."""
FEW = 1024
"""Ranks of which every algorithm without options has a schedule."""
_NAMES = {1e12: "trillion", 1e9: "billion", 1e6: "million", 1e3: "thousand"}


def work(algorithms: Sequence[Algorithm], ranks: Sequence[int], runs: int) -> list[float]:
    """Operations of every algorithm at every number of ranks, in that order, each simulated `runs`
    times. A schedule that is too large to be built has none."""
    counts = [estimate(algorithm, p) for algorithm in algorithms for p in ranks]
    return [runs * ((count if count <= LIMIT else 0.0) + OF_A_POINT) for count in counts]


def check(total: float, points: str) -> None:
    """Raise InputError if `total` operations are too many; `points` says of how many points."""
    if total > MOST:
        raise InputError(
            f"{points} with about {in_words(total)} operations, more than "
            f"{in_words(MOST)}: "
            "take fewer ranks or sizes, like --p 2..1024:x2"
        )


def check_schedule(algorithm: Algorithm, ranks: int) -> None:
    """Raise InputError, before any memory is taken, if one schedule has more operations than a
    schedule may have."""
    if (ranks > FEW or algorithm.options) and (count := estimate(algorithm, ranks)) > LIMIT:
        raise InputError(
            f"{algorithm.name} of {ranks} ranks has about {in_words(count)} operations, more "
            f"than {in_words(LIMIT)}: "
            "take fewer ranks, or an algorithm with fewer transfers"
        )


def in_words(number: float) -> str:
    """A number to two digits.

    >>> in_words(6.7e14), in_words(45_600_000.0), in_words(12.0)
    ('670 trillion', '46 million', '12')
    """
    for unit, name in _NAMES.items():
        if number >= unit:
            return f"{float(f'{number / unit:.2g}'):g} {name}"
    return f"{number:.0f}"
