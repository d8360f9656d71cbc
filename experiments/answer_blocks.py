"""The blocks of an answer: what the terminal prints, and what pages show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any, NamedTuple

from experiments.output import align
from experiments.templates import Columns, Lines, cell, cells_of, value_of, with_values
from experiments.terms import TERMS, footnote
from experiments.text_lines import GAP, WIDEST, narrowed

Record = Mapping[str, Any]
MOST_ROWS = 2000
"""Rows of a table; of more, the first are shown."""
REST = "--format json has all"
"""Where a terminal says that the rest is."""


class Heading(NamedTuple):
    """A column of a table."""

    text: str
    """What stands above the column."""
    number: bool = False
    """Whether cells are numbers, which stand to the right."""


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    """What the reader sees."""
    value: float | str | None = None
    """What sorting compares; the text if missing."""

    @property
    def key(self) -> str:
        """The value that sorting compares, as text."""
        return self.text if self.value is None else str(self.value)


Cells = tuple[Sequence[Heading], Sequence[Sequence[Cell]]]
"""The headings and the rows of a table."""


@dataclass(frozen=True)
class Table:
    """A table, which sorts by each column and filters by text on a page."""

    title: str
    make: Callable[[], Cells]
    """Makes the headings and the rows: a terminal does without those of most pages."""
    remarks: Sequence[str] = ()
    """Lines below the table."""
    terms: Sequence[str] = ()
    """The words of the table that `TERMS` explains."""
    rare: Sequence[str] = ()
    """Headings that a terminal leaves out, in this order, where lines are too long."""
    first: int = MOST_ROWS
    """Rows that a terminal shows."""
    rest: Mapping[str, str] = field(default_factory=dict)
    """Cells of a row for all others, by heading."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Lines below the table where it shows a column, by heading."""
    page_only: bool = False
    kind: str = "table"

    @cached_property
    def _cells(self) -> Cells:
        return self.make()

    @property
    def headings(self) -> Sequence[Heading]:
        """The columns."""
        return self._cells[0]

    @property
    def rows(self) -> Sequence[Sequence[Cell]]:
        """The cells, row by row."""
        return self._cells[1]

    @property
    def note(self) -> str:
        """The text below the table of a page."""
        about = _about(self, [heading.text for heading in self.headings])
        return "\n".join([*self.remarks, *about, *_explained(self.terms)])


@dataclass(frozen=True)
class Facts:
    """Names and their values, such as parameters and versions."""

    title: str
    lines: Lines
    """Name, value and what there is to say about it."""
    terms: Sequence[str] = ()
    """The words of the facts that `TERMS` explains."""
    page_only: bool = False
    kind: str = "facts"

    @property
    def note(self) -> str:
        """What stands below the facts of a page."""
        return "\n".join(_explained(self.terms))

    @property
    def values(self) -> dict[str, str]:
        """The values by name, with what there is to say about them.

        >>> Facts("", [["step", "2s", "mean of 3"], ["p", "8", ""]]).values
        {'step': '2s (mean of 3)', 'p': '8'}
        """
        return {
            name: f"{value} ({'; '.join(about)})" if value and any(about) else value or about[0]
            for name, value, *about in self.lines
        }


@dataclass(frozen=True)
class Remarks:
    """Short remarks, each on a line of its own."""

    title: str
    lines: Sequence[str]
    first: int = MOST_ROWS
    """Lines that a terminal shows."""
    page_only: bool = False
    kind: str = "lines"


Block = Table | Facts | Remarks


class Story(NamedTuple):
    """An answer in words: what the terminal and pages say of a result."""

    title: str
    summary: Sequence[str]
    """About three sentences of a page: the question, the answer, its cause or what to do."""
    blocks: Sequence[Block]
    left_out: Sequence[str] = ()
    """Sentences on what the answer does not contain."""


def table(
    title: str,
    records: Sequence[Record],
    columns: Columns,
    terms: Iterable[str] = (),
    note: str = "",
    *,
    zeros: bool = True,
    **shown_how: Any,
) -> Table:
    """Records as a table, without columns that have no value, without `zeros` also without those of
    0 alone. `shown_how` are the other fields of the table."""

    def make() -> Cells:
        shown, first = with_values(columns, records, zeros=zeros), records[:MOST_ROWS]
        cells, headings = [], []
        for heading, column in shown.items():
            values = [value_of(column, record) for record in first]
            headings.append(Heading(heading, any(map(_is_number, values))))
            cells.append([*map(Cell, cells_of(column, first), map(_key, values))])
        return headings, [*zip(*cells, strict=True)]

    remarks = note.splitlines()
    if len(records) > MOST_ROWS:
        remarks.insert(0, f"The first {MOST_ROWS} of {len(records)} rows: the raw data have all.")
    return Table(title, make, remarks, [*terms], **shown_how)


def unless_empty(title: str, records: Sequence[Record], *how: Any, **more: Any) -> list[Table]:
    """The :func:`table` of records; none without a record."""
    return [table(title, records, *how, **more)] if records else []


def shares(
    title: str,
    seconds: Mapping[str, float],
    total: float,
    terms: Iterable[str] = ("critical path",),
) -> Table:
    """Parts of a time, without those that are 0: by default of that on the critical path."""
    present = {name: value for name, value in seconds.items() if value > 0} or seconds
    records = [
        {"part": name, "time_s": value, "share": value / (total or 1.0)}
        for name, value in present.items()
    ]
    columns = {"part": "part", "time": "time_s", "share": "{share:.1%}"}
    return table(title, records, columns, terms)


def render(records: Sequence[Record], columns: Columns) -> str:
    """Records as aligned text."""
    return "\n".join(_aligned(table("", records, columns)))


def titled(title: str, rows: Sequence[Sequence[str]]) -> str:
    """A table of texts, indented below its title."""
    lines = align(rows, WIDEST - 2).splitlines()
    return "\n".join([title, *(f"  {line}" for line in lines)])


def to_text(title: str, blocks: Sequence[Block]) -> str:
    """The blocks as the terminal prints them, and below them their terms."""
    shown = [block for block in blocks if not block.page_only]
    explained = [block for block in shown if not isinstance(block, Remarks)]
    terms = dict.fromkeys(term for each in explained for term in each.terms)
    parts = [title, *map(_text, shown), footnote(terms) if terms else ""]
    return "\n\n".join(filter(None, parts))


def _text(block: Block) -> str:
    if isinstance(block, Facts):
        width = max(map(len, block.lines))
        return titled(block.title, [[*line, *[""] * (width - len(line))] for line in block.lines])
    if isinstance(block, Table):
        lines = [*_aligned(block), *block.remarks]
    else:
        more = len(block.lines) - block.first
        lines = [*block.lines[: block.first], *[f"{more} more: {REST}"] * (more > 0)]
    indented = [f"  {line}" for text in lines for line in text.splitlines()]
    return "\n".join([*filter(None, [block.title]), *indented])


def _aligned(shown: Table) -> list[str]:
    """The cells of a table. Where lines are too long, `rare` columns are left out."""
    more = len(shown.rows) - shown.first
    columns = {
        heading.text: [
            heading.text,
            *(row[place].text for row in shown.rows[: shown.first]),
            *[shown.rest.get(heading.text, "")] * bool(more > 0 and shown.rest),
        ]
        for place, heading in enumerate(shown.headings)
    }
    if not columns:
        return []
    widest = WIDEST - 2 * bool(shown.title)
    widths = {heading: max(map(len, texts)) for heading, texts in columns.items()}
    kept = narrowed(widths, shown.rare, widest)
    lines = [align([*zip(*(columns[heading] for heading in kept), strict=True)], widest)]
    if more > 0 and not shown.rest:
        lines.append(f"{more} more rows: {REST}")
    if missing := [heading for heading in columns if heading not in kept]:
        lines.append(f"more columns with --format csv or --report: {', '.join(missing)}")
    return [*lines, *_about(shown, kept)]


def _about(shown: Table, headings: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(shown.about[name] for name in headings if name in shown.about)]


def _explained(terms: Iterable[str]) -> list[str]:
    return [f"{term}: {TERMS[term]}." for term in terms]


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


def _key(value: object) -> float | str | None:
    """What sorting compares: nothing stands at the end."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value if isfinite(value) else ""
    return "" if value is None else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
