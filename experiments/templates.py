"""Text from templates: cells, lines and sentences with the values of a record in their units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import Formatter
from typing import Any

from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

Lines = list[list[str]]
"""The cells of a table, line by line."""


def share(value: float) -> str:
    """A part of a whole.

    >>> share(0.123), share(1.0), share(1e-5)
    ('12.3%', '100%', '0.001%')
    """
    digits = ".1f" if abs(value) >= 1e-3 else ".2g"
    return f"{format(value * 100, digits).removesuffix('.0')}%"


UNITS: Mapping[str, Callable[[float], str]] = {
    "s": format_seconds,
    "B": partial(format_bytes, binary=False),
    "share": share,
}
"""Writes a number in a unit, by its name in templates."""


def fill(template: str, record: Mapping[str, Any]) -> str:
    """A template with the values of a record, in the units of `UNITS`. Raises InputError if the
    record has no such value.

    >>> fill("{plan}: {step_s:s}", {"plan": "dp=8", "step_s": 0.5})
    'dp=8: 500ms'
    """
    parts = Formatter().parse(template)
    return "".join(
        text + (_value(record, name, unit) if name else "") for text, name, unit, _ in parts
    )


def _value(record: Mapping[str, Any], name: str, unit: str | None) -> str:
    value = record.get(name)
    if value is None:
        raise InputError(f"no {name!r} in the result")
    if not unit:
        return str(value)
    if isinstance(value, bool):
        raise InputError(f"no number {name!r} in the result")
    try:
        return UNITS[unit](value) if unit in UNITS else format(value, unit)
    except (TypeError, ValueError):
        raise InputError(f"no number {name!r} in the result") from None


def cells_of(
    columns: Mapping[str, str], record: Mapping[str, Any]
) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """The columns of a table, by heading, whose fields a record has. A value that is None is a
    dash.

    >>> cells = cells_of({"step": "{step_s:s}", "p": "{ranks}"}, {"step_s": 0.0})
    >>> list(cells), cells["step"]({"step_s": 2.0}), cells["step"]({"step_s": None})
    (['step'], '2s', '-')
    """
    return {
        heading: partial(_cell, template)
        for heading, template in columns.items()
        if record.keys() >= _fields(template)
    }


def table_of(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Lines:
    """The cells of a table with its headings; nothing without rows."""
    if not rows:
        return []
    cells = cells_of(columns, rows[0])
    return [list(cells), *([cell(row) for cell in cells.values()] for row in rows)]


def lines_of(templates: Mapping[str, Sequence[str]], record: Mapping[str, Any]) -> Lines:
    """The cells of a report, a line for each name, without lines of values that are None or
    missing.

    >>> lines_of({"step": ["{step_s:s}", "a step"], "p": ["{p}"]}, {"step_s": 2.0})
    [['  step', '2s', 'a step']]
    """
    known = {name for name, value in record.items() if value is not None}
    return [
        [f"  {name}", *(fill(cell, record) for cell in cells)]
        for name, cells in templates.items()
        if known >= _fields("".join(cells))
    ]


def _fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def _cell(template: str, record: Mapping[str, Any]) -> str:
    unknown = any(record[name] is None for name in _fields(template))
    return "-" if unknown else fill(template, record)
