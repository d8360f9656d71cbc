"""Options as the user writes them: key=value,..."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from typing import Any

from topologies.errors import InputError, naming, unknown_option
from topologies.units import (
    parse_bandwidth,
    parse_bytes,
    parse_number,
    parse_seconds,
    parse_whole,
    parse_yes,
)

Parser = Callable[[str], Any]


def _parse_size(text: str) -> float:
    if text.strip() in ("0", "0B"):
        return 0.0
    if re.match(r"\s*-", text):
        raise InputError(f"{text!r} is negative: write 0 or a size like 25MiB")
    return parse_bytes(text)


def _parse_bandwidth(text: str) -> float:
    return 0.0 if text.strip() == "0" else parse_bandwidth(text)


PARSERS: Mapping[object, Parser] = {
    bool: parse_yes,
    int: parse_whole,
    float: parse_number,
    str: str,
    "bytes": _parse_size,
    "seconds": parse_seconds,
    "bandwidth": _parse_bandwidth,
}
"""What reads a value of a type or of a unit."""


def parse_at_least(least: int) -> Parser:
    """What reads whole numbers from `least` on."""

    def parse(text: str) -> int:
        if (value := parse_whole(text)) < least:
            raise InputError(f"{least} or more")
        return value

    return parse


def parse_within(least: int, most: int) -> Parser:
    """What reads whole numbers from `least` to `most`.

    >>> parse_within(0, 16)("1")
    1
    """

    def parse(text: str) -> int:
        if not least <= (value := parse_whole(text)) <= most:
            raise InputError(f"it is {least} to {most}")
        return value

    return parse


def parse_watts(text: str) -> float:
    """Watts above 0, with or without their unit.

    >>> parse_watts("500W")
    500.0
    """
    if not (watts := parse_number(text.removesuffix("W"))):
        raise InputError("watts above 0, like 500W")
    return watts


def parse_zipf(text: str) -> float:
    """The exponent of "zipf:EXPONENT". Raises InputError for another text."""
    name, _, exponent = text.partition(":")
    if name != "zipf" or not exponent:
        raise InputError("expected zipf:EXPONENT, like zipf:1.2")
    if not 0 <= (power := parse_number(exponent)) <= 10:
        raise InputError(f"the exponent is {exponent[:40]}, expected 0 to 10")
    return power


def parse_pairs(
    text: str,
    name: str,
    parsers: Mapping[str, Parser],
    unknown: Callable[[str], str],
    example: str = "",
) -> dict[str, Any]:
    """The values of KEY=VALUE,... of what is called `name`, by key; `example` is shown to those who
    write a key wrongly.

    Raises InputError for a wrong value, and for a key without a parser with the message of
    `unknown`.
    """
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in parsers:
            raise InputError(unknown(key))
        if not equals or key in values:
            wrong = "is given twice" if key in values else "has no value"
            right = f"it like {example}" if example else f"{key}=value once"
            raise InputError(f"{name}: {key} {wrong}: write {right}")
        values[key] = _parsed(name, key, value, parsers[key])
    return values


def _parsed(name: str, key: str, text: str, parser: Parser) -> Any:
    with naming(f"{name}: {key}={text[:40]}"):
        return parser(text)


def options_of(owner: Any) -> dict[str, Field[Any]]:
    """The options of a dataclass by name: the fields that have a help."""
    return {field.name: field for field in fields(owner) if "help" in field.metadata}


def find_option(owner: Any, name: str, key: str) -> Field[Any]:
    """An option of a dataclass that users call `name`. Raises InputError for an unknown one."""
    options = options_of(owner)
    if key not in options:
        raise InputError(_unknown(owner, name, key))
    return options[key]


def parse_option(owner: Any, name: str, key: str, text: str) -> Any:
    """The value of an option. Raises InputError for a wrong one and for an unknown option."""
    return _parsed(name, key, text, _parser_of(find_option(owner, name, key)))


def parse_options(owner: Any, name: str, text: str) -> dict[str, Any]:
    """The values of options KEY=VALUE,... by name. Raises InputError as :func:`parse_option`."""
    parsers = {key: _parser_of(field) for key, field in options_of(owner).items()}
    return parse_pairs(text, name, parsers, lambda key: _unknown(owner, name, key))


def _parser_of(field: Field[Any]) -> Parser:
    return PARSERS[field.metadata.get("unit") or type(field.default)]


def _unknown(owner: Any, name: str, key: str) -> str:
    helps = {option: field.metadata["help"] for option, field in options_of(owner).items()}
    return unknown_option(name, key, helps)
