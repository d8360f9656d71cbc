"""The options of an algorithm, like "ring:channels=4", and their best values for one size."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from inspect import signature
from math import inf
from typing import Any

from simulator.collectives.collective import OPTIONS, Algorithm
from simulator.collectives.operation_counts import estimate
from topologies.errors import InputError
from topologies.option_text import parse_at_least, parse_pairs

BEST = "best"
"""The value of an option that a search finds for each size."""
_FUNCTIONS = "schedule", "fit", "shifts", "shifts_on", "defined", "operations"


def names_in(text: str) -> list[str]:
    """The names in a comma-separated list, each with its options.

    >>> names_in("ring:channels=4,segments=8,tree")
    ['ring:channels=4,segments=8', 'tree']
    """
    return [name.strip() for name in dict.fromkeys(re.split(r",(?![^,:]*=)", text))]


def with_options(algorithm: Algorithm, text: str) -> Algorithm:
    """The algorithm with other values of its options. The value `best` is found for each size,
    unless the default is 0: such an option is work to do, and no choice.

    Raises InputError for an option that it does not have, and for a value that is no number.
    """
    parsers = {
        key: parse_at_least(0) if default == 0 else _parse_number
        for key, default in algorithm.options.items()
    }
    helps = {key: OPTIONS[key] for key in algorithm.options}
    values = parse_pairs(text, algorithm.name, parsers, helps)
    searched = tuple(key for key, value in values.items() if value == BEST)
    numbers = {key: value for key, value in values.items() if value != BEST}
    return _variant(algorithm, tuple(_changed(algorithm, numbers).items()), searched)


def with_values(algorithm: Algorithm, values: Mapping[str, int]) -> Algorithm:
    """The algorithm with some options changed. Its name says which differ from the default.

    >>> from simulator.collectives import find
    >>> with_values(find("chain_reduce"), {"segments": 8}).name
    'chain_reduce:segments=8'
    """
    if algorithm.recipe and isinstance(algorithm.recipe[1][0], Algorithm):
        make, (base, *rest) = algorithm.recipe
        return make(with_values(base, values), *rest)
    listed = algorithm.plain or algorithm
    return _variant(listed, tuple(_changed(listed, {**algorithm.options, **values}).items()), ())


def _changed(listed: Algorithm, values: Mapping[str, int]) -> dict[str, int]:
    """The options whose value is not the default, in the order of the declaration."""
    return {
        key: values[key]
        for key, default in listed.options.items()
        if values.get(key, default) != default
    }


def check_values(algorithm: Algorithm) -> None:
    """Raise InputError if an option has the value `best`, where nothing searches for it."""
    if algorithm.searched:
        raise InputError(
            f"{algorithm.name}: {BEST} is found for a lone collective of `simctl run` and "
            f"`simctl sweep`: write a number here"
        )


@lru_cache(maxsize=1024)
def _variant(
    listed: Algorithm, changed: tuple[tuple[str, int], ...], searched: tuple[str, ...]
) -> Algorithm:
    if not (changed or searched):
        return listed
    options: dict[str, int] = {**listed.options, **dict(changed)}
    words = [f"{key}={value}" for key, value in changed] + [f"{key}={BEST}" for key in searched]
    functions: dict[str, Any] = {
        name: _filled(function, options)
        for name in _FUNCTIONS
        if (function := getattr(listed, name)) is not None
    }
    return replace(
        listed,
        name=f"{listed.name}:{','.join(words)}",
        options=options,
        plain=listed,
        searched=searched,
        servers=options.get("servers", listed.servers),
        **functions,
    )


def _filled(function: Callable[..., Any], options: Mapping[str, int]) -> Callable[..., Any]:
    known = signature(function).parameters
    return partial(function, **{key: value for key, value in options.items() if key in known})


def _parse_number(text: str) -> int | str:
    try:
        return BEST if text == BEST else parse_at_least(1)(text)
    except InputError as error:
        raise InputError(f"{error}, or {BEST}") from None


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
