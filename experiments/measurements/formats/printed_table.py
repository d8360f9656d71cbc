"""The header and the rows of an nccl-tests table by the names of its columns, and whether size,
time and bandwidth of a row agree."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from experiments.measurements.formats.text import TableHeader, prefix_pattern

_ALIASES = {
    "bytes": "size",
    "N": "count",
    "op": "redop",
    "res": "error",
    "cputime": "time",
    "#wrong": "wrong",
}
_STAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2})")
_FOREIGN = re.compile(r"[A-Za-z[]\S*[:\]]")
"""How lines of NCCL, launchers and other programs begin."""
_GLUED = re.compile(r"(?<!\S)([0-9.]{1,21}(?:e[+-][0-9]{2,3})?)(?=[A-Za-z][\w.-]{0,60}:[0-9])")
"""A value in front of such a line, without a blank."""
_WHOLE = re.compile(r"[0-9]{1,18}")
_WORD = re.compile(r"[A-Za-z]\w*")
_NUMBER = re.compile(
    r"[0-9]{1,18}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,3})?|N/A|-?(?:inf|nan|Infinity|NaN)"
)
_COLUMNS = {
    "size": _WHOLE,
    "count": _WHOLE,
    "type": _WORD,
    "redop": _WORD,
    "root": re.compile(r"-?[0-9]{1,9}"),
    "time": _NUMBER,
    "hipevt": _NUMBER,
    "algbw": _NUMBER,
    "busbw": _NUMBER,
    "wrong": _NUMBER,
    "error": _NUMBER,
    "i_min": _NUMBER,
    "i_max": _NUMBER,
    "i_p99": _NUMBER,
    "i_cv%": _NUMBER,
}


def fits(name: str, token: str) -> bool:
    """Whether `token` can stand in the column `name`; a column nobody knows takes anything."""
    pattern = _COLUMNS.get(name)
    return pattern is None or pattern.fullmatch(token) is not None


@dataclass(frozen=True)
class PrintedCell:
    """One measurement as printed; "N/A" if the table has none."""

    time: str
    algbw: str
    busbw: str
    wrong: str
    least: str = "N/A"
    """Time of the fastest repetition."""
    cv: str = "N/A"
    """Standard deviation over mean, in percent."""


@dataclass(frozen=True)
class PrintedRow:
    """One row as printed."""

    line: int
    size: int
    """Bytes."""
    count: int | None
    kind: str
    redop: str
    root: int | None
    """The root; -1 if the collective has none."""
    cells: tuple[PrintedCell, ...]
    """The measurements: out of place and in place."""


@dataclass(frozen=True)
class PrintedHeader(TableHeader):
    """The header of a table of nccl-tests."""

    per_second: float
    """Units of time in a second."""
    cpu_time: bool
    """Whether times end when the call returned."""

    def row(self, line: int, tokens: Sequence[str]) -> PrintedRow | None:
        """The row of these values, or None if they are not one complete row of this table.

        Some versions leave the redop blank where nothing is reduced. rccl-tests prints no time
        stamp in rows that are out of place alone.
        """
        for blank in ((), ("redop",), ("timestamp",), ("redop", "timestamp")):
            columns = [name for name in self.columns if name not in blank]
            if len(tokens) == len(columns) and all(map(fits, columns, tokens)):
                return _row(line, columns, tokens)
        return None

    def begins_row(self, tokens: Sequence[str]) -> bool:
        """Whether a row begins with these values: three or more, those of the first columns."""
        return len(tokens) > 2 and all(map(fits, self.columns[:3], tokens))


def values_of(text: str) -> list[str]:
    """The values at the start of a line, up to the text of another program.

    >>> values_of("   8   2  float node1:42:42 [0] NCCL INFO")
    ['8', '2', 'float']
    """
    words = _GLUED.sub(r"\1 ", _STAMP.sub(r"\1T\2", text)).split()
    return list(takewhile(lambda word: not _FOREIGN.match(word), words))


def find_header(line: int, text: str) -> PrintedHeader | None:
    """The header in `text`, or None if it has no size, time, algbw and busbw in their order."""
    if "algbw" not in text or "busbw" not in text or len(text) > 2000:
        return None
    start = re.search(r"#?[ \t]*\b(?:timestamp[ \t]+)?(?:size|bytes)\b", text)
    if start is None:
        return None
    columns_text = re.sub(r"\([^()]*\)", " ", text[start.start() :].removeprefix("#"))
    names = columns_text.split()
    columns = _in_both_places([_ALIASES.get(name, name) for name in names])
    if not _is_table(columns) or any(":" in name for name in columns):
        return None
    prefix = prefix_pattern(text[: start.start()])
    per_second = 1e3 if "bytes" in names else 1e6
    return PrintedHeader(line, columns, prefix, per_second, "cputime" in names)


def _in_both_places(columns: list[str]) -> tuple[str, ...]:
    """The columns, of which both places have the same: a header may be torn in its last name."""
    times = [at for at, name in enumerate(columns) if name == "time"]
    if len(times) != 2:
        return tuple(columns)
    first, second = times
    end = 2 * second - first
    is_torn = any(":" in name for name in columns[end - 1 :])
    more = () if is_torn else columns[end:]
    complete = columns[first : second - 1] == columns[second : end - 1]
    return (*columns[:second], *columns[first:second], *more) if complete else tuple(columns)


def _is_table(columns: tuple[str, ...]) -> bool:
    times = [at for at, name in enumerate(columns) if name == "time"]
    once = "size" in columns and all(
        columns.count(name) <= 1 for name in ("size", "count", "type", "redop", "root")
    )
    # rccl-tests can put the time between two events of HIP behind the time
    bandwidths = [at + 1 + (columns[at + 1 : at + 2] == ("hipevt",)) for at in times]
    known = all(columns[at : at + 2] == ("algbw", "busbw") for at in bandwidths)
    return len(times) in (1, 2) and once and known


def _row(line: int, columns: list[str], tokens: Sequence[str]) -> PrintedRow:
    named = dict(zip(columns, tokens, strict=True))
    cells = [_cell(columns[at:], tokens[at:]) for at, name in enumerate(columns) if name == "time"]
    return PrintedRow(
        line=line,
        size=int(named["size"]),
        count=int(named["count"]) if "count" in named else None,
        kind=named.get("type", ""),
        redop=named.get("redop", ""),
        root=int(named["root"]) if "root" in named else None,
        cells=tuple(cells),
    )


def _cell(columns: list[str], tokens: Sequence[str]) -> PrintedCell:
    ends = columns.index("time", 1) if "time" in columns[1:] else len(columns)
    named = dict(zip(columns[:ends], tokens, strict=False))
    return PrintedCell(
        *(named.get(name, "N/A") for name in ("time", "algbw", "busbw", "wrong", "i_min", "i_cv%"))
    )


_ELEMENT = {"char": 1, "half": 2, "bfloat16": 2, "int": 4, "float": 4, "double": 8}
_SLACK = 1e-6
Interval = tuple[float, float]


def interval(printed: str) -> Interval:
    """The values that print as `printed`.

    >>> interval("337.7")
    (337.65, 337.75)
    """
    mantissa, _, exponent = printed.partition("e")
    decimals = len(mantissa.partition(".")[2])
    half = 0.5 * 10.0 ** (int(exponent or 0) - decimals)
    return float(printed) - half, float(printed) + half


def finite(cell: PrintedCell) -> bool:
    """Whether all numbers of the cell are finite: after a time of 0 a benchmark prints inf or
    nan."""
    return all(text == "N/A" or math.isfinite(float(text)) for text in vars(cell).values())


def measured(cell: PrintedCell) -> bool:
    """Whether a time above zero stands in the cell."""
    return cell.time != "N/A" and float(cell.time) > 0


def agrees(size: int, cell: PrintedCell, per_second: float, factor: float = 1.0) -> bool:
    """Whether `factor` x size / time is the algbw (GB/s) that is printed, within the rounding of
    both."""
    if not finite(cell):
        return False
    if not measured(cell) or cell.algbw == "N/A":
        return True
    (low, high), (slow, fast) = interval(cell.algbw), _rate(size, cell, per_second)
    return slow * factor * (1 - _SLACK) <= high and low <= fast * factor * (1 + _SLACK)


def row_agrees(row: PrintedRow, per_second: float, factor: float = 1.0) -> bool:
    """Whether every measurement of the row agrees with its own algbw."""
    return all(agrees(row.size, cell, per_second, factor) for cell in row.cells)


def copies(row: PrintedRow) -> float | None:
    """Size in bytes over count x element size: 1, or the ranks; None if the type has no size."""
    element = _element(row.kind)
    return row.size / (row.count * element) if row.count and element else None


def bus_ratio(rows: Sequence[PrintedRow], per_second: float) -> Interval | None:
    """The interval of busbw / (size / time), by the row with most digits; None if it is too
    wide."""
    cells = [
        (float(cell.busbw), row.size, cell)
        for row in rows
        for cell in row.cells
        if _has_busbw(cell)
    ]
    if not cells:
        return None
    _, size, cell = max(cells, key=lambda entry: entry[0])
    (low, high), (slow, fast) = interval(cell.busbw), _rate(size, cell, per_second)
    ratio = low / fast * (1 - _SLACK), high / slow * (1 + _SLACK)
    return ratio if ratio[1] < 1.1 * ratio[0] else None


def _has_busbw(cell: PrintedCell) -> bool:
    return measured(cell) and cell.busbw != "N/A" and float(cell.busbw) > 0


def _rate(size: int, cell: PrintedCell, per_second: float) -> Interval:
    low, high = interval(cell.time)
    scale = size * per_second / 1e9
    return scale / high, scale / low if low > 0 else float("inf")


def _element(kind: str) -> int | None:
    if kind in _ELEMENT:
        return _ELEMENT[kind]
    if kind.startswith(("fp8", "f8", "float8")):
        return 1
    bits = kind.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8 if bits in ("8", "16", "32", "64") else None
