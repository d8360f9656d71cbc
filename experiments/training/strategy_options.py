"""Strategies with options as the user writes them, like "ddp:bucket=25MiB,overlap=no"."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import Field, replace
from typing import Any, NamedTuple, cast

from experiments.algorithm_files import read_algorithm
from simulator.collectives import algorithm_options
from simulator.training import Strategy
from simulator.training import find as find_class
from simulator.training.communicator import find_all_reduce
from topologies.errors import InputError
from topologies.option_text import find_option, parse_option, parse_options
from topologies.units import (
    format_bandwidth,
    format_bytes,
    format_seconds,
    parse_counts,
    parse_sizes,
)


class SweptValue(NamedTuple):
    """A value of an option that is swept."""

    text: str
    """How csv and json show it."""
    value: object
    """The value of the option."""
    name: str
    """How tables and pictures show it."""


def default_text(option: Field[Any]) -> str:
    """The default of an option, as the user would write it."""
    default, unit = option.default, option.metadata["unit"]
    formats: dict[str, Callable[[float], str]] = {
        "bytes": format_bytes,
        "seconds": format_seconds,
        "bandwidth": format_bandwidth,
    }
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, float):
        return formats[unit](default) if unit else f"{default:g}"
    return str(default)


def find(text: str) -> Strategy:
    """The strategy for NAME or NAME:key=value,...

    Raises InputError for an unknown strategy or option, and lists those that exist.
    """
    name, _, options = text.partition(":")
    strategy = find_class(name)()
    return with_values(strategy, **parse_options(strategy, name, options))


def names_in(text: str) -> list[str]:
    """The strategies of a list with commas or semicolons, each with its options, once each.

    >>> names_in("ddp:bucket=1MiB,overlap=no,asgd; ssp:bound=2")
    ['ddp:bucket=1MiB,overlap=no', 'asgd', 'ssp:bound=2']
    """
    parts = [name for part in text.split(";") for name in algorithm_options.names_in(part)]
    return [name for name in dict.fromkeys(parts) if name]


def with_values(strategy: Strategy, **values: object) -> Strategy:
    """The strategy with other values of some options."""
    return cast(Strategy, replace(cast(Any, strategy), **values))


def with_algorithm(strategy: Strategy, name: str, text: str, file: str) -> Strategy:
    """The strategy, called `name` and written as `text`, with the all-reduce of a file."""
    if "algo=" in text:
        raise InputError(f"--strategy {text[:80]} and --algo-file {file}: leave out one algorithm")
    find_option(strategy, name, "algo")
    return with_values(strategy, algo=find_all_reduce(read_algorithm(file)))


def swept_values(strategy: Strategy, name: str, key: str, text: str) -> list[SweptValue]:
    """The values of a sweep of option `key`.

    A sweep is a range of sizes like "1MiB..200MiB:x2", a range of whole numbers like "1..8", or a
    list with commas.
    """
    field = find_option(strategy, name, key)
    listed, sizes = text, list[SweptValue]()
    if ".." in text and field.metadata["unit"] == "bytes":
        listed, _, rest = text.partition(",") if re.match(r"0B?,", text) else ("", "", text)
        sizes = [SweptValue(f"{size!r}B", size, format_bytes(size)) for size in parse_sizes(rest)]
    elif ".." in text and type(field.default) is int:
        listed = ",".join(map(str, parse_counts(text)))
    elif ".." in text:
        raise InputError(
            f"{key}={text}: a range is of sizes or of whole numbers, list the others like 1us,2us"
        )
    values = {each: parse_option(strategy, name, key, each) for each in split(listed)}
    return [*(SweptValue(each, value, each) for each, value in values.items()), *sizes]


def split(text: str) -> list[str]:
    """The parts of a comma-separated list, once each."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
