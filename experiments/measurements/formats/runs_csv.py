"""CSV files of measured curves: size_bytes, time_us and optional columns."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from experiments.measurements.collectives import COLLECTIVES, UNKNOWN, canonical
from experiments.measurements.curve import KINDS, Curve, Measurements, Point, ranks_per_node, tally
from experiments.measurements.formats.csv_index import about, lines
from experiments.measurements.formats.text import whole_number
from experiments.measurements.networks import network_by_words
from experiments.output import counted
from experiments.spellings import canonical_algorithm, canonical_protocol
from topologies.errors import InputError

REQUIRED = ("size_bytes", "time_us")
CURVE = ("collective", "algorithm", "protocol", "ranks", "nodes")
PROVENANCE = ("backend", "device", "dtype", "library", "topology", "source", "kind")
IDENTITY = (*CURVE, *PROVENANCE)
STATISTICS = ("min_us", "p90_us", "mean_us", "cv", "repetitions", "wrong", "ran")
COLUMNS = (*CURVE, "size_bytes", "in_place", "time_us", *STATISTICS, *PROVENANCE)
"""The header that is written."""
OLDER_NAMES = {"min_us": "time_min_us", "mean_us": "time_mean_us", "repetitions": "iters"}
IGNORED = ("inplace_time_us", "algbw_GBps", "busbw_GBps")
"""Columns that are no column of a written file and are not reported as unknown."""
SHOWN_MISTAKES = 3

Cells = Mapping[str, str]
_Value = TypeVar("_Value")


@dataclass
class _CurveRows:
    """The rows of one curve, as points by size."""

    named: Curve
    """The curve that the cells name, without points."""
    points: dict[int, Point] = field(default_factory=dict)
    in_place: dict[int, Point] = field(default_factory=dict)
    disagree: list[int] = field(default_factory=list)
    """Lines whose bandwidth is not size / time."""


def looks_like_csv(text: str, path: Path) -> bool:
    """Whether a file is meant as a CSV: by its first line, or by its name unless it has a column
    of a log."""
    first = text.lstrip().partition("\n")[0]
    named = path.suffix.lower() == ".csv" and "redop" not in text
    return named or any(name in first for name in REQUIRED)


def parse_csv(text: str, path: Path) -> Measurements:
    """The curves in the text of the CSV at `path`: one for each collective, algorithm, protocol,
    ranks, ...

    The columns size_bytes and time_us (microseconds) are required. Rows with in_place 1, and the
    times under inplace_time_us, are the curve's `in_place`. If the columns do not tell something,
    it is read from `index.csv` in the folder of the file or one folder up, or else from the file's
    name.

    Raises InputError if a row does not fit the header.
    """
    table = _CsvTable()
    try:
        table.read(text, path)
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV: {error}") from None
    if unshown := len(table.mistakes[SHOWN_MISTAKES:]):
        table.mistakes[SHOWN_MISTAKES:] = [f"and {unshown} more"]
    if table.mistakes:
        raise InputError(f"{path} {'; '.join(table.mistakes)}")
    measured = [rows for rows in table.curves.values() if rows.points or rows.in_place]
    if not measured:
        raise InputError(
            f"{path}: a header and no rows with a size and a time above 0: expected at least one"
        )
    guess, by_name = about(path)
    curves = tuple(_curve(rows, guess, by_name, path) for rows in measured)
    return Measurements(curves, tuple(table.skipped()))


class _CsvTable:
    """The rows of a CSV, by curve."""

    def __init__(self) -> None:
        self.curves: dict[Curve, _CurveRows] = {}
        self.by_cells: dict[tuple[str, ...], _CurveRows] = {}
        self.mistakes: list[str] = []
        self.empty: list[int] = []
        self.unread: list[str] = []

    def read(self, text: str, path: Path) -> None:
        reader = csv.reader(lines(text, path), skipinitialspace=True)
        header = [name.strip() for name in next((row for row in reader if row), [])]
        where = f"{path} line {reader.line_num}"
        if missing := [name for name in REQUIRED if name not in header]:
            names = " and ".join(missing)
            raise InputError(f"{where}: no column {names}: expected size_bytes,time_us")
        if len(set(header)) < len(header):
            raise InputError(f"{where}: a column name twice: expected each once")
        columns = {*COLUMNS, *OLDER_NAMES.values(), *IGNORED}
        self.unread = [name[:40] for name in header if name not in columns]
        for row in reader:
            if row and len(row) != len(header):
                values, names = counted(len(row), "value"), counted(len(header), "column")
                raise InputError(f"{path} line {reader.line_num}: {values} under {names}")
            try:
                if row:
                    self._read(reader.line_num, dict(zip(header, map(str.strip, row), strict=True)))
            except ValueError as error:
                self.mistakes.append(f"line {reader.line_num}: {error}")

    def skipped(self) -> Iterator[str]:
        if self.unread:
            names = ", ".join(self.unread)
            yield f"{counted(len(self.unread), 'column')} with names not known here: {names}"
        if self.empty:
            yield tally("row", "of size or time 0", self.empty)

    def _read(self, line: int, cells: Cells) -> None:
        rows, size = self._rows_of(cells), _size(cells["size_bytes"])
        time_us = _time("time_us", cells["time_us"])
        in_place_us = _time("inplace_time_us", cells.get("inplace_time_us") or "0")
        point = _point(size, time_us, cells)
        in_place = cells.get("in_place", "")
        if in_place not in ("", "0", "1"):
            raise ValueError(f"in_place {in_place[:40]!r}: expected 0 or 1")
        if time_us == 0 or (size == 0 and rows.named.collective != "barrier"):
            self.empty.append(line)
            return
        points = rows.in_place if in_place == "1" else rows.points
        if size in points:
            columns = ", ".join(self.unread[:SHOWN_MISTAKES])
            hint = f" (put what {columns} says under topology)" if columns else ""
            raise ValueError(f"size_bytes {size} a second time: expected each size once{hint}")
        points[size] = point
        if in_place_us and in_place != "1":
            rows.in_place[size] = Point(size, in_place_us / 1e6)
        if _disagrees(cells.get("algbw_GBps", ""), size / time_us / 1e3):
            rows.disagree.append(line)

    def _rows_of(self, cells: Cells) -> _CurveRows:
        """The rows of the curve that a row is of. Equal cells are read once."""
        texts = tuple(cells.get(name, "") for name in IDENTITY)
        if texts not in self.by_cells:
            named = _named(dict(zip(IDENTITY, texts, strict=True)))
            self.by_cells[texts] = self.curves.setdefault(named, _CurveRows(named))
        return self.by_cells[texts]


def _named(cells: Cells) -> Curve:
    """The curve, without points, that the cells of `IDENTITY` name; empty and None where they say
    nothing."""
    collective = canonical(cells["collective"])
    if cells["collective"] and collective is None:
        expected = f"expected one of {', '.join(COLLECTIVES)}"
        raise ValueError(f"collective {cells['collective'][:40]!r}: {expected}")
    if cells["kind"] not in ("", *KINDS):
        raise ValueError(f"kind {cells['kind'][:40]!r}: expected one of {', '.join(KINDS)}")
    ranks, nodes = (
        _count(name, cells[name]) if cells[name] else None for name in ("ranks", "nodes")
    )
    return Curve(
        collective or "",
        ranks,
        nodes,
        (),
        (),
        algorithm=canonical_algorithm(cells["algorithm"], collective),
        protocol=canonical_protocol(cells["protocol"]),
        **{name: cells[name] for name in PROVENANCE},  # type: ignore[arg-type]
    )


def _size(text: str) -> int:
    if (size := whole_number(text)) is not None:
        return size
    value = _number("size_bytes", text)
    if value != int(value) or value >= 1e18:
        raise ValueError(f"size_bytes {text[:40]!r}: expected a whole number of bytes below 1e18")
    return int(value)


def _number(name: str, text: str) -> float:
    try:
        value = float(text.replace("_", "?"))
    except ValueError:
        raise ValueError(f"{name} {text[:40]!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} {text[:40]!r}: expected a finite number above 0")
    return value


def _time(name: str, text: str) -> float:
    """Microseconds that a clock and patience can measure; 0 says that nothing was measured."""
    value = _number(name, text)
    if value and not 1e-3 <= value <= 6.1e11:
        raise ValueError(f"{name} {text[:40]!r}: expected microseconds, from 1 ns to a week")
    return value


def _point(size_B: int, time_us: float, cells: Cells) -> Point:
    def optional(name: str, read: Callable[[str, str], _Value]) -> _Value | None:
        text = cells.get(name) or cells.get(OLDER_NAMES.get(name, ""), "")
        return read(name, text) if text else None

    return Point(
        size_B,
        time_us / 1e6,
        optional("wrong", _whole),
        optional("cv", _number),
        optional("repetitions", _count),
        *(optional(name, _seconds) for name in ("min_us", "p90_us", "mean_us")),
        ran=_label(cells.get("ran", ""), canonical(cells.get("collective", ""))),
    )


def _label(text: str, collective: str | None) -> str:
    algorithm, *protocols = text.split() or [""]
    if len(protocols) > 1:
        raise ValueError(f"ran {text[:40]!r}: expected algorithm and protocol, like ring LL128")
    names = canonical_algorithm(algorithm, collective), *map(canonical_protocol, protocols)
    return " ".join(names)


def _seconds(name: str, text: str) -> float:
    return _number(name, text) / 1e6


def _whole(name: str, text: str) -> int:
    if (value := whole_number(text)) is None:
        raise ValueError(f"{name} {text[:40]!r}: expected a whole number")
    return value


def _count(name: str, text: str) -> int:
    if not (value := whole_number(text, digits=8)):
        raise ValueError(f"{name} {text[:40]!r}: expected a whole number above 0")
    return value


def _disagrees(printed: str, computed: float) -> bool:
    """Whether a bandwidth differs from size / time: mostly the time has another unit."""
    try:
        value = float(printed)
    except ValueError:
        return False
    return not math.isfinite(value) or (value > 0 and abs(value - computed) > 0.05 * computed)


def _curve(rows: _CurveRows, guess: Curve, by_name: bool, path: Path) -> Curve:
    """The curve of some rows: what their cells say, else the guess by the index or by the name."""
    identity = {name: value for name in IDENTITY if (value := getattr(rows.named, name))}
    fields = {"source": str(path), "collective": guess.collective or UNKNOWN} | identity
    points, in_place = (
        tuple(by_size[size] for size in sorted(by_size)) for by_size in (rows.points, rows.in_place)
    )
    curve = replace(guess, points=points, in_place=in_place, **fields)
    guessed = [name for name in ("collective", "ranks") if getattr(guess, name)] if by_name else []
    notes = _notes(rows, [name for name in guessed if name not in identity])
    return replace(
        curve,
        notes=(*guess.notes, *notes),
        gpus_per_node=guess.gpus_per_node or ranks_per_node(curve.ranks, curve.nodes),
        network=network_by_words(f"{curve.topology} {guess.machine}"),
    )


def _notes(rows: _CurveRows, guessed: list[str]) -> Iterator[str]:
    if guessed:
        yield f"{' and '.join(guessed)} by the file's name"
    if rows.points and 0 < len(rows.in_place) < len(rows.points):
        yield f"in-place times for {len(rows.in_place)} of {counted(len(rows.points), 'size')}"
    if rows.disagree:
        yield tally(
            "row", "whose algbw_GBps is not size_bytes / time_us (another unit?)", rows.disagree
        )


def write_runs(curves: Iterable[Curve]) -> str:
    """A CSV with a row a measured point: sizes in bytes, times in microseconds, empty where nothing
    is known.

    Notes, family and machine are not written: an index.csv has them.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for curve in curves:
        named = {name: getattr(curve, name) for name in IDENTITY}
        for in_place, points in ((0, curve.points), (1, curve.in_place)):
            writer.writerows(named | {"in_place": in_place} | _cells(point) for point in points)
    return file.getvalue()


def _cells(point: Point) -> dict[str, object]:
    times = {
        "time_us": point.time_s,
        "min_us": point.min_s,
        "p90_us": point.p90_s,
        "mean_us": point.mean_s,
    }
    return {
        "size_bytes": point.size,
        **{name: None if time is None else time * 1e6 for name, time in times.items()},
        **{name: getattr(point, name) for name in ("cv", "repetitions", "wrong", "ran")},
    }
