"""The options of an algorithm, like "ring:channels=4,segments=8"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from inspect import signature
from typing import Any

from simulator.collectives.collective import OPTIONS, Algorithm
from topologies.errors import InputError, unknown_option
from topologies.units import parse_whole

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
    values: dict[str, int] = {}
    searched: list[str] = []
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if key not in algorithm.options:
            helps = {option: OPTIONS[option] for option in algorithm.options}
            raise InputError(_unknown(algorithm.name, key, helps))
        if not equals:
            raise InputError(
                f"{algorithm.name}: {key} has no value: write {key}=value, {OPTIONS[key]}"
            )
        if key in values or key in searched:
            raise InputError(f"{algorithm.name}:{text}: {key} is given twice")
        least = min(1, algorithm.options[key])
        if value == BEST and least:
            searched.append(key)
        else:
            values[key] = _whole(f"{algorithm.name}:{key}", value, least)
    return _variant(algorithm, tuple(_changed(algorithm, values).items()), tuple(searched))


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


def _unknown(name: str, key: str, helps: Mapping[str, str]) -> str:
    return unknown_option(name, key, helps) if helps else f"{name} has no options, got {key[:80]!r}"


def _filled(function: Callable[..., Any], options: Mapping[str, int]) -> Callable[..., Any]:
    known = signature(function).parameters
    return partial(function, **{key: value for key, value in options.items() if key in known})


def _whole(where: str, text: str, least: int) -> int:
    try:
        value = parse_whole(text)
    except InputError as error:
        raise InputError(f"{where}: {error}{f', or {BEST}' if least else ''}") from None
    if value < least:
        raise InputError(f"{where} is {value}: {least} or more")
    return value
