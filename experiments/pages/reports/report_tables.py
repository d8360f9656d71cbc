"""Figures of a report: records as tables, numbers as text with their units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any

from experiments.pages.page import Cell, Heading, Table
from experiments.templates import share
from experiments.terms import TERMS
from topologies.errors import InputError
from topologies.units import format_bandwidth, format_bytes, format_seconds

Record = Mapping[str, Any]
MOST_ROWS = 2000
"""Rows of a table; of more, the first are shown."""


def signed(value: float) -> str:
    """A difference as a share.

    >>> signed(-0.1), signed(0.25), signed(1e-14)
    ('-10%', '+25%', '0')
    """
    return "0" if abs(value) <= 1e-9 else f"{'+' * (value > 0)}{share(value)}"


def times(value: float) -> str:
    """A multiple: of a bound, or of another time.

    >>> times(1.00213), times(61.0), times(7.125)
    ('1.002', '61', '7.12')
    """
    return f"{value:.4g}" if value < 2 else f"{value:.3g}"


UNITS: Mapping[str, Callable[[float], str]] = {
    "_per_s": lambda rate: f"{rate:,.0f}" if abs(rate) >= 1000 else f"{rate:.4g}",
    "_s": format_seconds,
    "_B": format_bytes,
    "_bytes": partial(format_bytes, binary=False),
    "_Bps": format_bandwidth,
    "_share": share,
}
"""How numbers are written, by the ends of their names."""
SHARES = ("busy", "efficiency", "fraction", "mfu", "model", "discrepancy", "baseline", "share")
SIGNED = ("error", "difference", "nccl_error", "change")
MULTIPLES = ("over_bound", "over_best", "over_alone", "gain")
NAMED: Mapping[str, Callable[[float], str]] = {
    **dict.fromkeys(SHARES, share),
    **dict.fromkeys(SIGNED, signed),
    **dict.fromkeys(MULTIPLES, times),
}
"""How numbers are written, by their names."""


def written(field: str, value: object) -> str:
    """The value of a field for people; a dash if it is missing or has none.

    >>> written("time_s", 2e-3), written("error", 0.05), written("bound_s", None)
    ('2ms', '+5%', '-')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return "-"
    if not isinstance(value, int | float):
        return str(value)
    if field in NAMED:
        return NAMED[field](value)
    for ending, text in UNITS.items():
        if field.endswith(ending):
            return text(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


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


def figures(record: Record, fields: Mapping[str, str]) -> dict[str, str]:
    """Values of a record for people. `fields` has the field of each name."""
    return {name: written(field, record.get(field)) for name, field in fields.items()}


def table(
    title: str,
    records: Sequence[Record],
    columns: Mapping[str, str],
    terms: Iterable[str] = (),
    note: str = "",
    *,
    zeros: bool = True,
) -> Table:
    """Records as a table. `columns` has the field of each heading; those without a value are left
    out, without `zeros` also those of 0 alone. `terms` are explained below."""
    empty = (None, "") if zeros else (None, "", 0)
    fields = {
        heading: field
        for heading, field in columns.items()
        if any(record.get(field) not in empty for record in records)
    }
    rows = [
        [
            Cell(written(field, value), _key(value))
            for field in fields.values()
            for value in [record.get(field)]
        ]
        for record in records[:MOST_ROWS]
    ]
    headings = [
        Heading(heading, any(_is_number(record.get(field)) for record in records[:MOST_ROWS]))
        for heading, field in fields.items()
    ]
    lines = [note] * bool(note) + [f"{term}: {TERMS[term]}." for term in terms]
    if len(records) > MOST_ROWS:
        lines.insert(0, f"The first {MOST_ROWS} of {len(records)} rows: the raw data have all.")
    return Table(title, headings, rows, "\n".join(lines))


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
