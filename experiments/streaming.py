"""Records that are printed as they come: as CSV, or as a table whose widths are chosen
beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

from experiments.output import Record, to_csv
from experiments.text_lines import GAP

Say = Callable[[str], None]
Row = TypeVar("Row")


class Column(NamedTuple, Generic[Row]):
    """A column of a table."""

    heading: str
    """What stands above it."""
    cell: Callable[[Row], str]
    """The text of a row's cell."""
    width: int = 0
    """Characters of the widest cell."""
    group: str = ""
    """What stands above the headings of this column and its neighbours of the same group."""
    words: bool = False
    """Whether cells are words, which stand to the left."""


class Table(Generic[Row]):
    """Aligned text. A cell that is wider than its column makes it wider from there on."""

    def __init__(self, columns: Sequence[Column[Row]], say: Say, title: str = "") -> None:
        """`title` is a line above the headings, followed by an empty line."""
        self._columns, self._say, self._title = columns, say, title
        self._widths = [max(len(column.heading), column.width) for column in columns]
        self._started = False

    def __call__(self, row: Row) -> None:
        """Print a row, the first below the headings."""
        if not self._started:
            self._started = True
            if self._title:
                self._say(f"{self._title}\n")
            if any(column.group for column in self._columns):
                self._say(self._groups())
            self._say(self._line([column.heading for column in self._columns]))
        self._say(self._line([column.cell(row) for column in self._columns]))

    def _groups(self) -> str:
        """The line above the headings. A group that is wider than its columns widens the last."""
        parts, end = [], 0
        for group, numbers in groupby(range(len(self._columns)), self._group):
            last = [*numbers][-1]
            width = sum(self._widths[end : last + 1]) + len(GAP) * (last - end)
            self._widths[last] += max(0, len(group) - width)
            parts.append(group.ljust(width))
            end = last + 1
        return GAP.join(parts).rstrip()

    def _group(self, number: int) -> str:
        return self._columns[number].group

    def _line(self, cells: list[str]) -> str:
        self._widths = [
            max(width, len(cell)) for width, cell in zip(self._widths, cells, strict=True)
        ]
        padded = (
            cell.ljust(width) if column.words else cell.rjust(width)
            for cell, width, column in zip(cells, self._widths, self._columns, strict=True)
        )
        return GAP.join(padded).rstrip()


class Csv:
    """All fields of the records, floats in full precision."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._started = False

    def __call__(self, record: Record) -> None:
        """Print a record, the first below its fields."""
        self._say(to_csv([record], headed=not self._started).removesuffix("\n"))
        self._started = True
