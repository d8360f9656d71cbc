"""Figures of a report: records as tables, numbers as text with their units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from experiments.pages.page import Cell, Heading, Table
from experiments.templates import Columns, Lines, cells_of, value_of, with_values, written
from experiments.terms import TERMS
from topologies.errors import InputError

Record = Mapping[str, Any]
MOST_ROWS = 2000
"""Rows of a table; of more, the first are shown."""


def number(record: Record, field: str) -> float:
    """A number of a record. Raises InputError if the record has none there."""
    value = record.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"no number {field!r} in the result")
    return float(value)


def word(record: Record, field: str) -> str:
    """A value of a record as text. Raises InputError if the record has none there."""
    value = record.get(field)
    if value is None:
        raise InputError(f"no {field!r} in the result")
    return str(value)


def table(
    title: str,
    records: Sequence[Record],
    columns: Columns,
    terms: Iterable[str] = (),
    note: str = "",
    *,
    zeros: bool = True,
) -> Table:
    """Records as a table, without columns that have no value, without `zeros` also without those of
    0 alone. `terms` are explained below."""
    shown = with_values(columns, records, zeros=zeros)
    first = records[:MOST_ROWS]
    cells, headings = [], []
    for heading, column in shown.items():
        values = [value_of(column, record) for record in first]
        headings.append(Heading(heading.strip(), any(map(_is_number, values))))
        texts = cells_of(column, first)
        cells.append([Cell(t.strip(), _key(v)) for t, v in zip(texts, values, strict=True)])
    rows = [*zip(*cells, strict=True)]
    lines = [note] * bool(note) + [f"{term}: {TERMS[term]}." for term in terms]
    if len(records) > MOST_ROWS:
        lines.insert(0, f"The first {MOST_ROWS} of {len(records)} rows: the raw data have all.")
    return Table(title, headings, rows, "\n".join(lines))


def facts_of(lines: Lines) -> dict[str, str]:
    """The lines of a report: its figures by name, with what the report says about them.

    >>> facts_of([["  step", "2s", "mean of 3"], ["  p", "8", ""]])
    {'step': '2s (mean of 3)', 'p': '8'}
    """
    return {
        name.strip(): f"{value} ({'; '.join(about)})" if any(about) and value else value or about[0]
        for name, value, *about in lines
    }


def shares(title: str, seconds: Mapping[str, float], total: float, note: str = "") -> Table:
    """Parts of a time, without those that are 0."""
    present = {name: value for name, value in seconds.items() if value > 0} or seconds
    records = [
        {"part": name, "time_s": value, "share": value / (total or 1.0)}
        for name, value in present.items()
    ]
    return table(title, records, {"part": "part", "time": "time_s", "share": "share"}, note=note)


def listed(names: Iterable[str], most: int = 4) -> str:
    """Names in a sentence.

    >>> listed(["ring"]), listed(["ring", "tree"]), listed("abcdef")
    ('ring', 'ring and tree', 'a, b, c and 3 more')
    """
    different = list(dict.fromkeys(names))
    if len(different) > most:
        rest = len(different) - most + 1
        different = [*different[: most - 1], f"{rest} more"]
    *first, last = different or [""]
    return f"{', '.join(first)} and {last}" if first else last


def span(values: Iterable[float], text: Callable[[float], str], noun: str = "") -> str:
    """The range of numbers in words.

    >>> span([2, 8], str, "rank"), span([8], str, "rank")
    ('2 to 8 ranks', '8 ranks')
    """
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    words = text(low) if low == high else f"{text(low)} to {text(high)}"
    return f"{words} {noun}s" if noun else words


def interval(row: Record, name: str) -> dict[str, str]:
    """The expected time, called `name`, and its interval, if the profile has intervals."""
    if row.get("expected_s") is None:
        return {}
    expected, low, high = (
        written(field, row[field]) for field in ("expected_s", "low_s", "high_s")
    )
    figures = {name: f"{expected} (interval: {low} to {high})"}
    return figures | ({"unsure": str(row["unsure"])} if row.get("unsure") else {})


def _key(value: object) -> float | str | None:
    """What sorting compares: nothing stands at the end."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value if isfinite(value) else ""
    return "" if value is None else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
