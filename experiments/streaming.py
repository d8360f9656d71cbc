"""Records that are printed as they come, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.templates import Columns, cell, value_of
from experiments.text_lines import GAP

Say = Callable[[str], None]


class StreamedTable:
    """Aligned text. A cell that is wider than its column makes it wider from there on."""

    def __init__(
        self, columns: Columns, widths: Mapping[str, int], say: Say, title: str = ""
    ) -> None:
        """`widths` are of the widest cells, as far as they are known. `title` is a line above the
        headings, followed by an empty line."""
        self._columns, self._say, self._title = columns, say, title
        self._widths = [max(len(heading), widths.get(heading, 0)) for heading in columns]
        self._words: list[bool] = []
        """Whether the cells of a column are words, which stand to the left."""

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Print a record, the first below the headings."""
        if not self._words:
            values = (value_of(column, record) for column in self._columns.values())
            self._words = [isinstance(value, str) for value in values]
            if self._title:
                self._say(f"{self._title}\n")
            self._say(self._line([*self._columns]))
        self._say(self._line([cell(column, record) for column in self._columns.values()]))

    def _line(self, cells: list[str]) -> str:
        self._widths = [max(pair) for pair in zip(self._widths, map(len, cells), strict=True)]
        padded = (
            text.ljust(width) if words else text.rjust(width)
            for text, width, words in zip(cells, self._widths, self._words, strict=True)
        )
        return GAP.join(padded).rstrip()
