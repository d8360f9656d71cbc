"""Text from the values of records, in their units: sentences, lines of a report, and columns, which
pages show too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from string import Formatter
from typing import Any

from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

Lines = list[list[str]]
"""The cells of a table, line by line."""
Column = str | Callable[[Mapping[str, Any]], str]
"""A column of a table: the field of a record, whose name says its unit, a template of several
fields, or a function that writes the cell of a record."""
Columns = Mapping[str, Column]
"""The columns of a table by their headings, which are templates too."""


def heading(field: str) -> str:
    """The name of a field without its unit.

    >>> heading("peak_B"), heading("in_order_s"), heading("samples_per_s")
    ('peak', 'in order', 'samples per s')
    """
    if not field.endswith("_per_s"):
        for unit in ("_Bps", "_bytes", "_B", "_s"):
            field = field.removesuffix(unit)
    return field.replace("_", " ")


def headed(*fields: str) -> dict[str, str]:
    """Columns of fields below their names.

    >>> headed("plan", "size_B")
    {'plan': 'plan', 'size': 'size_B'}
    """
    return {heading(field): field for field in fields}


def share(value: float) -> str:
    """A part of a whole.

    >>> share(0.123), share(1.0), share(1e-5)
    ('12.3%', '100%', '0.001%')
    """
    digits = ".1f" if abs(value) >= 1e-3 else ".2g"
    return f"{format(value * 100, digits).removesuffix('.0')}%"


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


ENDINGS: Mapping[str, Callable[[float], str]] = {
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
MULTIPLES = ("over_bound", "over_best", "over_alone")


def gained(factor: float) -> str:
    """How many times as fast something is; a dash if it is as fast within half a percent.

    >>> gained(1.526), gained(1.003)
    ('1.53x', '-')
    """
    return f"{factor:.2f}x" if factor >= 1.005 else "-"


NAMED: Mapping[str, Callable[[float], str]] = {
    **dict.fromkeys(SHARES, share),
    **dict.fromkeys(SIGNED, signed),
    **dict.fromkeys(MULTIPLES, "{:.2f}".format),
    "gain": gained,
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
    for ending, text in ENDINGS.items():
        if field.endswith(ending):
            return text(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


UNITS: Mapping[str, Callable[[float], str]] = {
    "s": format_seconds,
    "B": partial(format_bytes, binary=False),
    "share": share,
}
"""How templates write numbers, by their units."""


def fill(template: str, record: Mapping[str, Any]) -> str:
    """A template with the values of a record, in the units of `UNITS`.

    >>> fill("{plan}: {step_s:s}, {ranks:,.0f}", {"plan": "dp=8", "step_s": 0.5, "ranks": 1234})
    'dp=8: 500ms, 1,234'
    """

    def value(name: str, unit: str | None) -> str:
        number = record[name]
        if not unit:
            return written(name, number)
        return UNITS[unit](number) if unit in UNITS else format(number, unit)

    parts = Formatter().parse(template)
    return "".join(text + (value(name, unit) if name else "") for text, name, unit, _ in parts)


def value_of(column: Column, record: Mapping[str, Any]) -> Any:
    """The value of a cell that sorting compares: that of the first field of the column; None
    without one."""
    names = _fields_of(column)
    return record.get(names[0]) if names else None


def cell(column: Column, record: Mapping[str, Any]) -> str:
    """The text of a cell, a dash if a value of it is missing.

    >>> cell("step_s", {"step_s": 2.0}), cell("{low_s} - {high_s}", {"low_s": 1.0, "high_s": 2.0})
    ('2s', '1s - 2s')
    """
    if not isinstance(column, str):
        return column(record)
    if "{" not in column:
        return written(column, record.get(column))
    unknown = any(record.get(name) is None for name in _fields(column))
    return "-" if unknown else fill(column, record)


def cells_of(column: Column, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The texts of a column. Sizes of collectives have units of one family.

    >>> cells_of("size_B", [{"size_B": 33554400.0}, {"size_B": 2.0**30}])
    ['32MiB', '1GiB']
    """
    if column != "size_B":
        return [cell(column, record) for record in records]
    sizes = [record[column] for record in records if isinstance(record.get(column), int | float)]
    text = partial(format_bytes, binary=in_binary(sizes))
    return [
        text(record[column]) if isinstance(record.get(column), int | float) else "-"
        for record in records
    ]


def with_values(
    columns: Columns, records: Sequence[Mapping[str, Any]], *, zeros: bool = True
) -> dict[str, Column]:
    """The columns of which a record has all values, without `zeros` also one that is not 0.

    >>> list(with_values({"step": "step_s", "p": "ranks"}, [{"step_s": 0.0, "ranks": None}]))
    ['step']
    """
    empty = (None, "") if zeros else (None, "", 0)
    shown = {}
    for heading, column in columns.items():
        names = _fields_of(column)
        full = (each for each in records if all(each.get(name) not in empty for name in names))
        if (first := next(full, None)) is not None:
            shown[fill(heading, first)] = column
    return shown


def lines_of(templates: Mapping[str, Sequence[str]], record: Mapping[str, Any]) -> Lines:
    """The cells of a report, a line for each name, without lines of values that are None or
    missing.

    >>> lines_of({"step": ["{step_s:s}", "a step"], "p": ["{p}"]}, {"step_s": 2.0})
    [['step', '2s', 'a step']]
    """
    known = {name for name, value in record.items() if value is not None}
    return [
        [name, *(fill(cell, record) for cell in cells)]
        for name, cells in templates.items()
        if known.issuperset(_fields("".join(cells)))
    ]


def _fields(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name]


def _fields_of(column: Column) -> list[str]:
    if not isinstance(column, str):
        return []
    return _fields(column) if "{" in column else [column]
