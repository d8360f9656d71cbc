"""CSV files of one measured curve: size_bytes and time_us, and whatever else stands beside them."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from experiments.measurements.about import About, about
from experiments.measurements.loading import load
from experiments.measurements.measurement import (
    COLLECTIVES,
    UNKNOWN,
    Curve,
    Measurements,
    Point,
    canonical,
    tally,
)
from topologies.errors import InputError

_REQUIRED = ("size_bytes", "time_us")
_SHOWN = 3
_TOLERANCE = 0.05

_Key = tuple[str | None, int | None]


@dataclass
class _Table:
    """The rows of a CSV as points, by the collective and ranks of their own columns, and what was wrong."""

    points: dict[_Key, dict[int, Point]] = field(default_factory=dict)
    in_place: dict[_Key, dict[int, Point]] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    disagree: list[int] = field(default_factory=list)


def looks_like_csv(text: str, path: Path) -> bool:
    """Whether a file is meant as a CSV: by its first line, or by its name unless it has a log's columns."""
    first = text.lstrip().partition("\n")[0]
    named = path.suffix.lower() == ".csv" and "redop" not in text
    return named or any(name in first for name in _REQUIRED)


def read_csv(path: Path) -> Measurements:
    """The curve in the CSV at `path` (several if its columns `collective` and `ranks` vary).

    Needs columns size_bytes and time_us (microseconds); knows inplace_time_us, algbw_GBps, collective, ranks.
    What the columns leave open is looked up in `index.csv` beside the file or one folder up,
    then in the file's name.
    Raises InputError when the file cannot be read, or a row is not what its header says.
    """
    return parse_csv(load(path), path)


def parse_csv(text: str, path: Path) -> Measurements:
    """The curves in the text of a CSV that came from `path`. Raises InputError as `read_csv`."""
    table = _Table()
    try:
        for line, row in _rows(text, path):
            _read_row(table, line, row)
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV: {error}") from None
    if table.mistakes:
        more = f"; and {len(table.mistakes) - _SHOWN} more" if len(table.mistakes) > _SHOWN else ""
        raise InputError(f"{path} {'; '.join(table.mistakes[:_SHOWN])}{more}")
    if not table.points:
        raise InputError(f"{path}: a header and no rows with a size and a time above 0: expected at least one")
    known = about(path)
    curves = tuple(_curve(table, key, known, path) for key in table.points)
    return Measurements(curves, (tally("row", "of size or time 0", table.empty),) if table.empty else ())


def _rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    header = [name.strip() for name in next((row for row in reader if row), [])]
    missing = [name for name in _REQUIRED if name not in header]
    if missing:
        raise InputError(
            f"{path} line {reader.line_num}: no column {' and '.join(missing)}: expected size_bytes,time_us"
        )
    if len(set(header)) < len(header):
        raise InputError(f"{path} line {reader.line_num}: a column name twice: expected each once")
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"{path} line {reader.line_num}: {len(row)} values under {len(header)} columns")
        yield reader.line_num, dict(zip(header, map(str.strip, row), strict=True))


def _read_row(table: _Table, line: int, row: dict[str, str]) -> None:
    try:
        size, time_us, in_place_us = _size(row["size_bytes"]), _time("time_us", row), _in_place(row)
        key = _collective(row.get("collective", "")), _ranks(row.get("ranks", ""))
    except ValueError as error:
        table.mistakes.append(f"line {line}: {error}")
        return
    if size == 0 or time_us / 1e6 == 0:
        table.empty.append(line)
        return
    if size in table.points.setdefault(key, {}):
        table.mistakes.append(f"line {line}: size_bytes {size} a second time: expected each size once")
    table.points[key][size] = Point(size, time_us / 1e6)
    if in_place_us:
        table.in_place.setdefault(key, {})[size] = Point(size, in_place_us / 1e6)
    if _disagrees(row.get("algbw_GBps", ""), size / time_us / 1e3):
        table.disagree.append(line)


def _number(name: str, text: str) -> float:
    try:
        value = float(text.replace("_", "?"))
    except ValueError:
        raise ValueError(f"{name} {text[:40]!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} {text[:40]!r}: expected a finite number above 0")
    return value


def _size(text: str) -> int:
    value = _number("size_bytes", text)
    if value != int(value):
        raise ValueError(f"size_bytes {text[:40]!r}: expected a whole number of bytes")
    return int(text) if text.isascii() and text.isdigit() else int(value)


def _time(name: str, row: dict[str, str]) -> float:
    return _number(name, row[name])


def _in_place(row: dict[str, str]) -> float | None:
    return _time("inplace_time_us", row) if row.get("inplace_time_us") else None


def _collective(text: str) -> str | None:
    if text and canonical(text) is None:
        raise ValueError(f"collective {text[:40]!r}: expected one of {', '.join(COLLECTIVES)}")
    return canonical(text) if text else None


def _ranks(text: str) -> int | None:
    if text and not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 10**8):
        raise ValueError(f"ranks {text[:40]!r}: expected a whole number above 0")
    return int(text) if text else None


def _disagrees(printed: str, computed: float) -> bool:
    """Whether a bandwidth column says something else than size / time (a time in another unit, mostly)."""
    try:
        value = float(printed)
    except ValueError:
        return False
    return value > 0 and abs(value - computed) > _TOLERANCE * computed


def _curve(table: _Table, key: _Key, known: About, path: Path) -> Curve:
    points = sorted(table.points[key].values(), key=lambda point: point.size)
    in_place = sorted(table.in_place.get(key, {}).values(), key=lambda point: point.size)
    notes = known.notes
    guessed = [
        what
        for what, given, guess in zip(("collective", "ranks"), key, (known.collective, known.ranks), strict=True)
        if known.guessed and given is None and guess is not None
    ]
    if guessed:
        notes += (f"{' and '.join(guessed)} by the file's name",)
    if 0 < len(in_place) < len(points):
        notes += (f"in-place times for {len(in_place)} of {len(points)} sizes",)
    if table.disagree:
        notes += (tally("row", "whose algbw_GBps is not size_bytes / time_us (another unit?)", table.disagree),)
    collective, ranks = key[0] or known.collective or UNKNOWN, key[1] or known.ranks
    return Curve(collective, ranks, known.nodes, tuple(points), tuple(in_place), str(path), notes)
