"""The best values of an algorithm's options for one size on one machine."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from simulator.collectives.algorithm_options import with_values
from simulator.collectives.collective import Algorithm
from simulator.collectives.operation_counts import estimate
from topologies.errors import InputError

Seconds = Callable[[Algorithm], float]
MOST = 2.0**18
"""Values, and operations of a schedule, that are tried at most."""


def best(
    algorithm: Algorithm, ranks: int, seconds: Seconds, searched: tuple[str, ...] = ()
) -> Algorithm:
    """The algorithm with the values of its `searched` options that take the fewest `seconds`.

    One option is searched after the other, and all of them again if there are several. Up to the
    best value more segments save time, or none where the schedule stays the same. Beyond it they
    cost time. The search relies on that.
    The default is to search the options that the algorithm's name calls `best`. A value with which
    the algorithm does not exist, or does not run, is none of the best. Raises InputError if there
    is no other.
    """
    names = searched or algorithm.searched
    tuned = with_values(algorithm, {})
    for _ in range(min(len(names), 2)):
        for name in names:
            tuned = _searched(tuned, name, ranks, seconds)
    return tuned


def _searched(algorithm: Algorithm, name: str, ranks: int, seconds: Seconds) -> Algorithm:
    """The algorithm with the best value of one option."""
    times: dict[int, float] = {}

    def time(value: int) -> float:
        if value not in times:
            try:
                times[value] = seconds(with_values(algorithm, {name: value}))
            except InputError:
                times[value] = inf
        return times[value]

    value = farther = 1
    while time(farther) == time(value) and _fits(algorithm, name, 2 * farther, ranks):
        farther *= 2
        # The search ends where twice as many segments save no more than this share of the time.
        if time(farther) < time(value) * (1 - 1e-3):
            value = farther
    low, high = max(1, value // 2), 2 * value
    if not _fits(algorithm, name, high, ranks):
        high = value
    while high - low > 2:
        third = (high - low) // 3
        if time(low + third) <= time(high - third):
            high -= third
        else:
            low += third
    fastest = min(range(low, high + 1), key=time)
    tuned = with_values(algorithm, {name: fastest})
    if time(fastest) == inf:
        seconds(tuned)
    return tuned


def _fits(algorithm: Algorithm, name: str, value: int, ranks: int) -> bool:
    return value <= MOST and estimate(with_values(algorithm, {name: value}), ranks) <= MOST
