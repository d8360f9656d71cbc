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


def parse_pairs(
    text: str,
    name: str,
    parsers: Mapping[str, Parser],
    helps: Mapping[str, str] | None = None,
    *,
    unknown: Callable[[str], str] | None = None,
    example: str = "",
) -> dict[str, Any]:
    """The values of KEY=VALUE,... of what is called `name`, by key.

    Raises InputError for a wrong value, for a key that comes twice or without a value, and for one
    without a parser. `helps` says what each key means; without it, `unknown` makes the message for
    a key without a parser, and `example` is shown to those who write no value.
    """
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in parsers:
            raise InputError(unknown(key) if unknown else unknown_option(name, key, helps or {}))
        if key in values:
            raise InputError(f"{name}: {key} is given twice: write it once")
        if not equals:
            right = f"{key}=value, {helps[key]}" if helps else f"it like {example}"
            raise InputError(f"{name}: {key} has no value: write {right}")
        values[key] = _parsed(name, key, value, parsers[key])
    return values


def _parsed(name: str, key: str, text: str, parser: Parser) -> Any:
    shown = repr(text[:40])[1:-1]  # on one line
    with naming(f"{name}: {key}={shown}"):
        return parser(text)


def options_of(owner: Any) -> dict[str, Field[Any]]:
    """The options of a dataclass by name: the fields that have a help."""
    return {field.name: field for field in fields(owner) if "help" in field.metadata}


def find_option(owner: Any, name: str, key: str) -> Field[Any]:
    """An option of a dataclass that users call `name`. Raises InputError for an unknown one."""
    options = options_of(owner)
    if key not in options:
        raise InputError(unknown_option(name, key, _helps(owner)))
    return options[key]


def parse_option(owner: Any, name: str, key: str, text: str) -> Any:
    """The value of an option. Raises InputError for a wrong one and for an unknown option."""
    return _parsed(name, key, text, _parser_of(find_option(owner, name, key)))


def parse_options(owner: Any, name: str, text: str) -> dict[str, Any]:
    """The values of options KEY=VALUE,... by name. Raises InputError as :func:`parse_option`."""
    parsers = {key: _parser_of(field) for key, field in options_of(owner).items()}
    return parse_pairs(text, name, parsers, _helps(owner))


def _parser_of(field: Field[Any]) -> Parser:
    return PARSERS[field.metadata.get("unit") or type(field.default)]


def _helps(owner: Any) -> dict[str, str]:
    return {key: field.metadata["help"] for key, field in options_of(owner).items()}
