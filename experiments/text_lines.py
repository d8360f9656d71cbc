"""Lines of text for people: none is wider than a screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import Formatter
from textwrap import wrap
from typing import Any, ClassVar

from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

WIDEST, NARROWEST = 120, 12
"""Characters of a line, and of a column of words whose cells go on in lines below, at the least."""
GAP = "  "
"""What parts two columns."""
Lines = list[list[str]]
"""The cells of a table, line by line."""
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def wrapped(text: str, width: int = WIDEST, hang: str = GAP) -> list[str]:
    """`text` in lines of at most `width` characters. Words are not broken. Further lines are
    indented as the first, and by `hang`.

    >>> wrapped("  as wide as this", 12)
    ['  as wide as', '    this']
    """
    if len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip())) + hang
    return wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def width_of(widths: Sequence[int]) -> int:
    """Characters of a line of columns."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def narrowed(widths: Mapping[str, int], dispensable: Sequence[str], widest: int) -> list[str]:
    """The headings of a table, without as many of `dispensable`, in their order, as find no place
    in lines of `widest` characters.

    >>> narrowed({"p": 3, "formula": 9, "time": 8}, ["formula", "p"], 15)
    ['p', 'time']
    """
    shown = dict(widths)
    for heading in dispensable:
        if width_of([*shown.values()]) > widest:
            shown.pop(heading, None)
    return list(shown)


def shrunk(widths: Sequence[int], words: Sequence[int], widest: int) -> list[int]:
    """The widths of columns, where those of `words`, the widest first, are as narrow as lines of
    `widest` characters need.

    >>> shrunk([40, 5, 30], [0, 2], 60)
    [25, 5, 26]
    """
    widths = list(widths)
    while words and width_of(widths) > widest:
        longest = max(words, key=widths.__getitem__)
        if widths[longest] <= NARROWEST:
            break
        widths[longest] -= 1
    return widths


def visible(text: str) -> str:
    """Text in which characters that steer a terminal, or turn the order of others, are written as
    in Python. Ends of lines and tabs stay."""
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def share_cells(name: str, seconds: float, total: float, *about: str) -> list[str]:
    """A line of a report: seconds, and what share of all they are."""
    return [f"  {name}", format_seconds(seconds), f"{seconds / (total or 1.0):.1%}", *about]


def bytes_cell(nbytes: float | None) -> str:
    """Bytes of memory as text, or a dash if they are not known."""
    return "-" if nbytes is None else format_bytes(float(nbytes), binary=False)


class Sentences(Formatter):
    """Fills in the fields of a record, written in their units: `s` are seconds, `B` bytes.

    >>> Sentences().fill("{plan}: {step_s:s}", {"plan": "dp=8", "step_s": 0.5})
    'dp=8: 500ms'
    """

    units: ClassVar[Mapping[str, Callable[[float], str]]] = {
        "s": format_seconds,
        "B": partial(format_bytes, binary=False),
    }
    """What writes a number in a unit."""

    def fill(self, template: str, record: Mapping[str, Any]) -> str:
        """The text. Raises InputError if the record has no such value."""
        return self.vformat(template, (), record)

    def cells(
        self, columns: Mapping[str, str], record: Mapping[str, Any]
    ) -> dict[str, Callable[[Mapping[str, Any]], str]]:
        """The columns of a table, by heading, whose fields a record has. A value that is None is a
        dash.

        >>> cells = Sentences().cells({"step": "{step_s:s}", "p": "{ranks}"}, {"step_s": 0.0})
        >>> list(cells), cells["step"]({"step_s": 2.0}), cells["step"]({"step_s": None})
        (['step'], '2s', '-')
        """
        return {
            heading: partial(self._cell, template)
            for heading, template in columns.items()
            if record.keys() >= self._fields(template)
        }

    def table(self, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Lines:
        """The cells of a table with its headings; nothing without rows."""
        if not rows:
            return []
        cells = self.cells(columns, rows[0])
        return [list(cells), *([cell(row) for cell in cells.values()] for row in rows)]

    def lines(self, templates: Mapping[str, Sequence[str]], record: Mapping[str, Any]) -> Lines:
        """The cells of a report, a line for each name, without lines of values that are None or
        missing.

        >>> Sentences().lines({"step": ["{step_s:s}", "a step"], "p": ["{p}"]}, {"step_s": 2.0})
        [['  step', '2s', 'a step']]
        """
        known = {name for name, value in record.items() if value is not None}
        return [
            [f"  {name}", *(self.fill(cell, record) for cell in cells)]
            for name, cells in templates.items()
            if known >= self._fields("".join(cells))
        ]

    def _fields(self, template: str) -> set[str]:
        return {name for _, name, _, _ in self.parse(template) if name}

    def _cell(self, template: str, record: Mapping[str, Any]) -> str:
        unknown = any(record[name] is None for name in self._fields(template))
        return "-" if unknown else self.fill(template, record)

    def get_value(self, key: int | str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """A value of the record."""
        if kwargs.get(str(key)) is None:
            raise InputError(f"no {key!r} in the result")
        return kwargs[str(key)]

    def format_field(self, value: Any, format_spec: str) -> str:
        """A value in its unit."""
        unit = self.units.get(format_spec)
        try:
            return unit(value) if unit else format(value, format_spec)
        except (TypeError, ValueError):
            raise InputError(f"no number but {str(value)[:40]!r} in the result") from None


SENTENCES = Sentences()
