"""Records that are printed as they come: as CSV, or as a table whose widths are chosen
beforehand."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from experiments.output import Record

Say = Callable[[str], None]


Row = TypeVar("Row")


class Column(NamedTuple, Generic[Row]):
    """A column of a table."""

    cell: Callable[[Row], str]
    """The text of a row's cell."""
    width: int = 0
    """Characters of the widest cell."""
    words: bool = False
    """Whether cells are words, which stand to the left."""


class Table(Generic[Row]):
    """Aligned text. A cell that is wider than its column after all makes it wider from there on."""

    def __init__(self, columns: Mapping[str, Column[Row]], say: Say) -> None:
        self._columns, self._say = columns, say
        self._widths = [max(len(heading), column.width) for heading, column in columns.items()]
        self._started = False

    def __call__(self, row: Row) -> None:
        """Print a row, the first below the headings."""
        if not self._started:
            self._started = True
            self._say(self._line(list(self._columns)))
        self._say(self._line([column.cell(row) for column in self._columns.values()]))

    def _line(self, cells: list[str]) -> str:
        self._widths = [
            max(width, len(cell)) for width, cell in zip(self._widths, cells, strict=True)
        ]
        words = [column.words for column in self._columns.values()]
        padded = (
            c.ljust(w) if left else c.rjust(w)
            for c, w, left in zip(cells, self._widths, words, strict=True)
        )
        return "  ".join(padded).rstrip()


class Csv:
    """All fields of the records, floats in full precision."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._started = False

    def __call__(self, record: Record) -> None:
        """Print a record, the first below its fields."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(record), lineterminator="\n")
        if not self._started:
            self._started = True
            writer.writeheader()
        writer.writerow(record)
        self._say(text.getvalue().removesuffix("\n"))
