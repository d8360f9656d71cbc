"""The options of a training strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields, replace
from typing import Any, NamedTuple, cast

from simulator.training import FILES, Strategy, find
from topologies.units import format_bandwidth, format_bytes, format_seconds


def options_of(strategy: Strategy) -> dict[str, Field[Any]]:
    """The options of a strategy by name."""
    return {field.name: field for field in fields(cast(Any, strategy)) if "help" in field.metadata}


FORMATS: dict[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "seconds": format_seconds,
    "bandwidth": format_bandwidth,
}


def default_text(option: Field[Any]) -> str:
    """The default of an option, as the user would write it."""
    default, unit = option.default, option.metadata["unit"]
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, float):
        return FORMATS[unit](default) if unit else f"{default:g}"
    return str(default)


def listed() -> dict[str, Strategy]:
    """Every strategy by name, with its defaults."""
    return {name: find(name)() for name in FILES}


def with_value(strategy: Strategy, key: str, value: object) -> Strategy:
    """The strategy with one option changed."""
    return cast(Strategy, replace(cast(Any, strategy), **{key: value}))


class SweptValue(NamedTuple):
    """A value of an option that is swept."""

    text: str
    """How csv and json show it."""
    value: object
    """The value of the option."""
    name: str
    """How tables and pictures show it."""
