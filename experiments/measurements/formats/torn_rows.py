"""Reads the rows of one table, and mends rows that another program's lines tore into pieces.

nccl-tests prints a row in three pieces, and mpirun may put lines of other ranks between them. A
torn row is put together only where the pieces, one after the other, fill the table's columns
exactly. Where its bandwidth has too few digits to tell which size the time belongs to, the next row
must be the next size too: else the halves of two rows, with lines missing between them, could pass
for one."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from experiments.measurements.formats.printed_table import (
    PrintedHeader,
    PrintedRow,
    agrees,
    copies,
    fits,
    row_agrees,
)
from experiments.measurements.formats.text import aligned, spans

_FIRST = re.compile(r"[ \t]*[0-9]")
_WIDEST = 13
"""Digits by which a #wrong may be too wide for its column."""

Line = tuple[int, str]


@dataclass(frozen=True)
class SizeStep:
    """How a test goes from one size to the next: times `factor`, or plus `bytes`."""

    factor: int = 1
    bytes: int = 0

    def up(self, size: float) -> float:
        """The next size (bytes)."""
        return size * self.factor + self.bytes

    def down(self, size: float) -> float:
        """The size before (bytes)."""
        return (size - self.bytes) / self.factor

    def follows(self, size: int, later: int) -> bool:
        """Whether no size lies between the two; sizes are rounded down, hence the margin."""
        following = self.up(size)
        return size < later < math.sqrt(following * self.up(following))


@dataclass
class TableRows:
    """The rows of a table."""

    rows: list[PrintedRow] = field(default_factory=list)
    torn: list[int] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)
    """Lines of rows that were put together again."""


def read_rows(
    header: PrintedHeader, lines: Sequence[Line], step: SizeStep | None, unfinished: int | None
) -> TableRows:
    """The rows in `lines` (without prefixes); `unfinished` is a last line that has no line end."""
    whole = [header.row(line, text) for line, text in lines]
    full = [row for row in whole if row is not None]
    reader = _RowReader(_calibrated(header, full), _usual_copies(full), unfinished)
    for (line, text), row in zip(lines, whole, strict=True):
        reader.feed(line, text, row)
    reader.flush()
    return _settled(reader.found, header.per_second, step)


def may_matter(text: str) -> bool:
    """Whether a line could be a row or a piece of one; cheap, since a log has many lines that are
    neither."""
    last_token = text.rsplit(None, 1)[-1:]
    return (
        len(text) <= 4096
        and bool(last_token)
        and (_FIRST.match(text) is not None or fits("wrong", last_token[0]))
    )


def _calibrated(header: PrintedHeader, rows: Sequence[PrintedRow]) -> PrintedHeader:
    """The header with the column ends that its rows have, where they have them in common."""
    full = [row for row in rows if row.columns == header.columns]
    ends = Counter(tuple(end for _, end in row.spans) for row in full).most_common(1)
    at = header.columns.index("busbw") + 1
    if not ends or ends[0][1] < 2 or ends[0][0][:at] != header.ends[:at]:
        return header
    return replace(header, ends=ends[0][0])


def _usual_copies(rows: Sequence[PrintedRow]) -> float | None:
    usual = Counter(number for row in rows if (number := copies(row))).most_common(1)
    return usual[0][0] if usual and usual[0][0] >= 1 else None


def _settled(rows_read: TableRows, per_second: float, step: SizeStep | None) -> TableRows:
    """Without the rows put together from pieces that nothing proves to belong together."""
    doubtful, joined = set(), set(rows_read.joined)
    for row, later in zip(rows_read.rows, [*rows_read.rows, None][1:], strict=True):
        if row.line in joined and not _proven(row, later, per_second, step):
            doubtful.add(row.line)
    rows = [row for row in rows_read.rows if row.line not in doubtful]
    return TableRows(rows, sorted([*rows_read.torn, *doubtful]), sorted(joined - doubtful))


def _proven(
    row: PrintedRow, later: PrintedRow | None, per_second: float, step: SizeStep | None
) -> bool:
    neighbours = (
        (step.up(row.size), step.down(row.size)) if step else (row.size * 1.05, row.size * 0.95)
    )
    distinct = all(
        not agrees(int(neighbour), cell, per_second)
        for neighbour in neighbours
        for cell in row.cells
    )
    next_size = step is not None and later is not None and step.follows(row.size, later.size)
    return row_agrees(row, per_second) and (distinct or next_size)


class _RowReader:
    """Reads lines one after the other. A line that begins a row waits for the rest of it."""

    def __init__(self, header: PrintedHeader, usual: float | None, unfinished: int | None) -> None:
        self.found = TableRows()
        self._header, self._usual, self._unfinished = header, usual, unfinished
        self._head: Line | None = None

    def feed(self, line: int, text: str, row: PrintedRow | None) -> None:
        """Take the next line, which `row` is if it is a whole one."""
        head = self._head
        if head and (joined := self._joined(*head, text)):
            self._head = None
            if joined.doubtful_end():
                self.found.torn.append(joined.line)
            else:
                self.found.rows.append(joined)
                self.found.joined.append(joined.line)
        elif row is not None or self._is_head(text):
            self.flush()
            self._start(line, text, row)
        elif head and self._is_head(head[1]) and self._begins_row(head[1] + text):
            self._head = head[0], head[1] + text
        elif self._is_tail(text):
            self._head = None
            self.found.torn.append(head[0] if head else line)
        elif head is None and self._begins(text):
            self._start(line, text, row)

    def flush(self) -> None:
        if self._head is None:
            return
        line, text = self._head
        row = self._header.row(line, text)
        if row is not None and self._whole(row):
            self.found.rows.append(row)
        elif row is not None or self._is_head(text):
            self.found.torn.append(line)
        self._head = None

    def _start(self, line: int, text: str, row: PrintedRow | None) -> None:
        """Take a row, also one that another program's text follows; or wait for the rest."""
        row = row or self._joined(line, text, "")
        if row is not None and self._aligned(row) and not row.doubtful_end():
            self.found.rows.append(row)
        else:
            self._head = line, text

    def _aligned(self, row: PrintedRow) -> bool:
        return aligned(row.spans, self._header.ends_of(row.columns))

    def _whole(self, row: PrintedRow) -> bool:
        """Whether a complete row lost no digit of its first and last token, the only ones that can
        have."""
        if self._aligned(row):
            return not (row.doubtful_end() and row.line == self._unfinished)
        known = self._usual is not None or "count" not in row.columns
        return known and copies(row) == self._usual and not row.doubtful_end()

    def _joined(self, line: int, head: str, tail: str) -> PrintedRow | None:
        """The one row that begins in `head` (another program's text may follow there) and ends with
        `tail`. A #wrong that is too wide for its column moves the end by some digits."""
        tokens, names = tail.split(), self._header.columns
        # tokens at the end of a line that are looked at first: they tell most other lines from the
        # end of a row
        known = min(len(tokens) - 1, 4)
        if len(tokens) > len(names) or not all(
            map(fits, names[len(names) - known :], tokens[len(tokens) - known :])
        ):
            return None
        rows = []
        start = self._header.ends[-1] - len(tail.rstrip())
        for cut in range(max(1, start), start + _WIDEST):
            rest = head[cut:]
            if rest.strip() and not re.search(r"[A-Za-z:\[]", rest):
                continue  # the row's own text, and not another program's
            row = self._header.row(line, head.ljust(cut)[:cut] + tail)
            if row is not None and self._aligned(row) and self._counts(row):
                rows.append(row)
        return rows[0] if len(rows) == 1 else None

    def _counts(self, row: PrintedRow) -> bool:
        """Whether the size is what the count makes it in the other rows, if there are any and the
        type is known."""
        number = copies(row)
        return (
            number is None or number == self._usual or (self._usual is None and number.is_integer())
        )

    def _begins(self, text: str) -> bool:
        first = _FIRST.match(text)
        return first is not None and first.end() <= self._header.ends[0]

    def _begins_row(self, text: str) -> bool:
        """Whether a text is the first columns of a row, and nothing else."""
        tokens = text.split()
        return any(
            len(tokens) < len(columns)
            and all(map(fits, columns, tokens))
            and aligned(spans(text), self._header.ends_of(columns)[: len(tokens)])
            for columns in self._header.layouts()
        )

    def _is_head(self, text: str) -> bool:
        """Whether a piece surely begins a row: its first tokens are those of the first columns."""
        token_spans = spans(text[: self._header.ends[-1]])
        fitting = [
            fits(name, text[start:end])
            for name, (start, end) in zip(self._header.columns, token_spans, strict=False)
        ]
        in_place = bool(token_spans) and token_spans[0][1] == self._header.ends[0]
        enough = 2 if in_place else 3
        return (all(fitting[:3]) and len(fitting) >= enough) or (in_place and len(fitting) == 1)

    def _is_tail(self, text: str) -> bool:
        """Whether a piece surely ends a row: its tokens, but for a cut first one, fit the last
        columns."""
        tokens = text.split()
        names = self._header.columns[-len(tokens) :]
        return 2 <= len(tokens) < len(self._header.columns) and all(
            map(fits, names[1:], tokens[1:])
        )
