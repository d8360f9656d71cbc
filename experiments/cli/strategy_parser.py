"""Parse strategies with options, like "ddp:bucket=25MiB,overlap=no"."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import Field
from typing import Any

from experiments.algorithm_files import read_algorithm
from experiments.training.strategy_options import SweptValue, options_of, with_value
from simulator.collectives import algorithm_options
from simulator.training import Strategy
from simulator.training import find as find_class
from simulator.training.communicator import find_all_reduce
from topologies.errors import InputError, unknown_option
from topologies.units import (
    format_bytes,
    parse_bandwidth,
    parse_bytes,
    parse_counts,
    parse_number,
    parse_seconds,
    parse_sizes,
    parse_whole,
    parse_yes,
)

Parser = Callable[[str], object]


def find(text: str) -> Strategy:
    """The strategy for NAME or NAME:key=value,...

    Raises InputError for an unknown strategy or option, and lists those that exist.
    """
    name, _, options = text.partition(":")
    strategy = find_class(name)()
    keys: set[str] = set()
    for part in filter(None, options.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"{text}: {key} has no value: write {name}:{key}=value")
        if key in keys:
            raise InputError(f"{text}: {key} is given twice")
        keys.add(key)
        strategy = with_option(strategy, name, key, value)
    return strategy


def names_in(text: str) -> list[str]:
    """The strategies of a list with commas or semicolons, each with its options, once each.

    >>> names_in("ddp:bucket=1MiB,overlap=no,asgd; ssp:bound=2")
    ['ddp:bucket=1MiB,overlap=no', 'asgd', 'ssp:bound=2']
    """
    parts = [name for part in text.split(";") for name in algorithm_options.names_in(part)]
    return [name for name in dict.fromkeys(parts) if name]


def with_option(strategy: Strategy, name: str, key: str, value: str) -> Strategy:
    """The strategy, called `name`, with another `value` of option `key`."""
    return with_value(strategy, key, _parsed(strategy, name, key, value))


def with_algorithm(strategy: Strategy, name: str, text: str, file: str) -> Strategy:
    """The strategy, called `name` and written as `text`, with the all-reduce of a file."""
    if "algo=" in text:
        raise InputError(f"--strategy {text[:80]} and --algo-file {file}: leave out one algorithm")
    _field(strategy, name, "algo")
    return with_value(strategy, "algo", find_all_reduce(read_algorithm(file)))


def values(strategy: Strategy, name: str, key: str, text: str) -> list[SweptValue]:
    """The values of a sweep of option `key`.

    A sweep is a range of sizes like "1MiB..200MiB:x2", a range of whole numbers like "1..8", or a
    list with commas.
    """
    field = _field(strategy, name, key)
    if ".." not in text:
        return [_swept(strategy, name, key, part) for part in split(text)]
    if field.metadata["unit"] == "bytes":
        zero, _, rest = text.partition(",") if re.match(r"0B?,", text) else ("", "", text)
        sizes = [SweptValue(f"{size!r}B", size, format_bytes(size)) for size in parse_sizes(rest)]
        return [*([_swept(strategy, name, key, zero)] if zero else []), *sizes]
    if isinstance(field.default, int) and not isinstance(field.default, bool):
        return [SweptValue(str(count), count, str(count)) for count in parse_counts(text)]
    raise InputError(
        f"{key}={text}: a range is of sizes or of whole numbers, list the others like 1us,2us"
    )


def split(text: str) -> list[str]:
    """The parts of a comma-separated list, once each."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _swept(strategy: Strategy, name: str, key: str, text: str) -> SweptValue:
    return SweptValue(text, _parsed(strategy, name, key, text), text)


def _field(strategy: Strategy, name: str, key: str) -> Field[Any]:
    known = options_of(strategy)
    if key not in known:
        helps = {option: field.metadata["help"] for option, field in options_of(strategy).items()}
        raise InputError(unknown_option(name, key, helps))
    return known[key]


def _parsed(strategy: Strategy, name: str, key: str, text: str) -> object:
    """The value of an option."""
    field = _field(strategy, name, key)
    try:
        return _parser(field)(text)
    except InputError as error:
        raise InputError(f"{name}:{key}: {error}") from None


def _parser(field: Field[Any]) -> Parser:
    units: dict[str, Parser] = {"bytes": _size, "seconds": parse_seconds, "bandwidth": _bandwidth}
    if field.metadata["unit"]:
        return units[field.metadata["unit"]]
    plain: dict[type, Parser] = {bool: parse_yes, int: parse_whole, float: parse_number, str: str}
    return plain[type(field.default)]


def _size(text: str) -> float:
    if text.strip() in ("0", "0B"):
        return 0.0
    if re.match(r"\s*-", text):
        raise InputError(f"{text!r} is negative: write 0 or a size like 25MiB")
    return parse_bytes(text)


def _bandwidth(text: str) -> float:
    return 0.0 if text.strip() == "0" else parse_bandwidth(text)
