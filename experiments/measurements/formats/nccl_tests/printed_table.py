"""The columns of an nccl-tests table and one row of it, read by the header's names."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_ALIASES = {
    "bytes": "size",
    "N": "count",
    "op": "redop",
    "res": "error",
    "cputime": "time",
    "#wrong": "wrong",
}
_START = re.compile(r"#?[ \t]*\b(?:timestamp[ \t]+)?(?:size|bytes)\b")
_UNIT = re.compile(r"\([^()]*\)")
_STAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2})")
_TOKEN = re.compile(r"\S+")
_WHOLE = re.compile(r"[0-9]{1,18}")
_LONGEST_HEADER = 2000

Span = tuple[int, int]


def _like(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda token: compiled.fullmatch(token) is not None


_number = _like(r"[0-9]{1,18}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,3})?|N/A|-?(?:inf|nan|Infinity|NaN)")
_COLUMNS: dict[str, Callable[[str], bool]] = {
    "size": _like(_WHOLE.pattern),
    "count": _like(_WHOLE.pattern),
    "type": _like(r"[A-Za-z]\w*"),
    "redop": _like(r"[A-Za-z]\w*"),
    "root": _like(r"-?[0-9]{1,9}"),
    "time": _number,
    "algbw": _number,
    "busbw": _number,
    "wrong": _number,
    "error": _number,
    "i_min": _number,
    "i_max": _number,
    "i_p99": _number,
    "i_cv%": _number,
}


def fits(name: str, token: str) -> bool:
    """Whether `token` can stand in the column `name`; a column nobody knows takes anything."""
    check = _COLUMNS.get(name)
    return check is None or check(token)


def spans(text: str) -> list[Span]:
    """Where each run of non-blank characters begins and ends."""
    return [match.span() for match in _TOKEN.finditer(text)]


def aligned(found: Sequence[Span], ends: Sequence[int]) -> bool:
    """Whether tokens end where their columns end.

    A number too wide for its column (a large #wrong) pushes the rest of its row to the right; it
    then stands right after the two blanks that separate columns, and only such a token may.
    """
    shift = previous = 0
    for (start, end), column in zip(found, ends, strict=True):
        drift = end - column - shift
        if drift < 0 or (drift > 0 and start - previous > 2):
            return False
        shift, previous = shift + drift, end
    return True


@dataclass(frozen=True)
class Cell:
    """One measurement as printed: time, algbw, busbw, #wrong, least time and cv in percent ("N/A":
    there is none)."""

    time: str
    algbw: str
    busbw: str
    wrong: str
    least: str = "N/A"
    cv: str = "N/A"


@dataclass(frozen=True)
class Row:
    """One row as printed; `spans` is where its tokens stand in the text, `columns` what they
    are."""

    line: int
    size: int
    count: int | None
    kind: str
    redop: str
    root: int | None
    cells: tuple[Cell, ...]
    spans: tuple[Span, ...]
    columns: tuple[str, ...]

    def doubtful_end(self) -> bool:
        """Whether the last token would be another valid value with digits cut off: a #wrong that is
        not 0."""
        return self.columns[-1] == "wrong" and self.cells[-1].wrong not in ("0", "N/A")


@dataclass(frozen=True)
class Header:
    """A table's columns: their names, where in the text they end, and what stands before each
    line."""

    line: int
    columns: tuple[str, ...]
    ends: tuple[int, ...]
    prefix: re.Pattern[str]
    per_second: float
    cpu_time: bool

    def strip(self, line: str) -> str:
        """`line` without the launcher's prefix that the header had too."""
        match = self.prefix.match(line)
        return line[match.end() :] if match else line

    def row(self, line: int, text: str) -> Row | None:
        """The row in `text` (without prefix), or None if it is not one complete row of this
        table."""
        if "timestamp" in self.columns:
            text = _STAMP.sub(r"\1T\2", text)
        found = spans(text)
        columns = self.without_redop() if len(found) == len(self.columns) - 1 else self.columns
        tokens = [text[start:end] for start, end in found]
        if len(tokens) != len(columns) or not all(map(fits, columns, tokens)):
            return None
        return _row(line, columns, tokens, found)

    def without_redop(self) -> tuple[str, ...]:
        """The columns of a row whose redop is blank, as some versions print it where nothing is
        reduced."""
        return tuple(name for name in self.columns if name != "redop")

    def ends_of(self, columns: Sequence[str]) -> tuple[int, ...]:
        """Where `columns` (all of them, or all but redop) end."""
        if len(columns) == len(self.columns):
            return self.ends
        return tuple(
            end for name, end in zip(self.columns, self.ends, strict=True) if name != "redop"
        )


def find_header(line: int, text: str) -> Header | None:
    """The header in `text`, or None if it has no size, time, algbw and busbw in their order."""
    if "algbw" not in text or "busbw" not in text or len(text) > _LONGEST_HEADER:
        return None
    start = _START.search(text)
    if start is None:
        return None
    rest = text[start.start() :].replace("#", " ", 1 if start[0][0] == "#" else 0)
    rest = _mended(_UNIT.sub(lambda unit: " " * len(unit[0]), rest))
    columns = tuple(_ALIASES.get(name, name) for name in rest.split())
    if not _is_table(columns) or ":" in rest:
        return None
    ends = tuple(end for _, end in spans(rest))
    per_second = 1e3 if "bytes" in rest.split() else 1e6
    return Header(
        line,
        columns,
        ends,
        prefix_pattern(text[: start.start()]),
        per_second,
        "cputime" in rest.split(),
    )


def _mended(header: str) -> str:
    """The header with its last name whole, if it was torn or written over there: both halves have
    the same names."""
    found = spans(header)
    names = [header[start:end] for start, end in found]
    times = [at for at, name in enumerate(names) if name == "time"]
    last = 2 * times[1] - times[0] - 1 if len(times) == 2 else len(names) + 1
    if last >= len(names):
        return f"{header.rstrip()} {names[times[1] - 1]}" if last == len(names) else header
    whole, written_over = names[times[1] - 1], any(":" in name for name in names[last:])
    cut = last == len(names) - 1 and whole.startswith(names[last])
    return header[: found[last][0]] + whole if cut or written_over else header


def _is_table(columns: tuple[str, ...]) -> bool:
    times = [at for at, name in enumerate(columns) if name == "time"]
    once = "size" in columns and all(
        columns.count(name) <= 1 for name in ("size", "count", "type", "redop", "root")
    )
    alike = len(times) == 1 or (len(times) == 2 and len(columns) >= 2 * times[1] - times[0])
    return (
        alike and once and all(columns[at : at + 3] == ("time", "algbw", "busbw") for at in times)
    )


def prefix_pattern(prefix: str) -> re.Pattern[str]:
    """Digits vary from line to line (time stamps), the rest of a launcher's prefix does not."""
    parts = re.split(r"([0-9]+)", prefix)
    varied = "".join("[0-9]+" if part.isdigit() else re.escape(part) for part in parts)
    if prefix[-1:].isdigit():  # or the digits that begin a row would go with it
        varied = varied.removesuffix("+") + f"{{{len(parts[-2])}}}"
    return re.compile(varied)


def _row(line: int, columns: tuple[str, ...], tokens: list[str], found: list[Span]) -> Row:
    named = dict(zip(columns, tokens, strict=True))
    cells = [_cell(columns[at:], tokens[at:]) for at, name in enumerate(columns) if name == "time"]
    return Row(
        line=line,
        size=int(named["size"]),
        count=int(named["count"]) if "count" in named else None,
        kind=named.get("type", ""),
        redop=named.get("redop", ""),
        root=int(named["root"]) if "root" in named else None,
        cells=tuple(cells),
        spans=tuple(found),
        columns=columns,
    )


def _cell(columns: tuple[str, ...], tokens: list[str]) -> Cell:
    ends = columns.index("time", 1) if "time" in columns[1:] else len(columns)
    named = dict(zip(columns[:ends], tokens, strict=False))
    return Cell(
        *(named.get(name, "N/A") for name in ("time", "algbw", "busbw", "wrong", "i_min", "i_cv%"))
    )
