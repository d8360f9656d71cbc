"""Reads CSV files of measured curves: size_bytes, time_us and optional columns."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.measurements.collectives import UNKNOWN
from experiments.measurements.curve import Curve, Measurements, Point, tally
from experiments.measurements.formats.runs_csv import csv_cells
from experiments.measurements.formats.runs_csv.csv_cells import IDENTITY, Cells
from experiments.measurements.formats.runs_csv.csv_index import about, lines
from experiments.measurements.networks import network_by_words
from experiments.output import counted
from topologies.errors import InputError

_SHOWN = 3


@dataclass
class _CurveRows:
    """The rows of one curve."""

    named: Curve
    """What their cells say of the curve, without points."""
    points: dict[int, Point] = field(default_factory=dict)
    """Points out of place, by size."""
    in_place: dict[int, Point] = field(default_factory=dict)
    """Points in place, by size."""
    disagree: list[int] = field(default_factory=list)
    """Lines whose bandwidth is not size / time."""


@dataclass
class _CsvTable:
    """The rows of a CSV."""

    curves: dict[Curve, _CurveRows] = field(default_factory=dict)
    """The rows of each curve."""
    by_cells: dict[tuple[str, ...], _CurveRows] = field(default_factory=dict)
    """The same by the cells that name the curve."""
    mistakes: list[str] = field(default_factory=list)
    """Mistakes, with their lines."""
    empty: list[int] = field(default_factory=list)
    """Lines of size or time 0."""
    unread: list[str] = field(default_factory=list)
    """Columns with unknown names."""


def looks_like_csv(text: str, path: Path) -> bool:
    """Whether a file is meant as a CSV: by its first line, or by its name unless it has a column
    of a log."""
    first = text.lstrip().partition("\n")[0]
    named = path.suffix.lower() == ".csv" and "redop" not in text
    return named or any(name in first for name in csv_cells.REQUIRED)


def parse_csv(text: str, path: Path) -> Measurements:
    """The curves in the text of the CSV at `path`: one for each collective, algorithm, protocol,
    ranks, ...

    The columns size_bytes and time_us (microseconds) are required. Of the other columns only those
    in `csv_cells.KNOWN` are read. Rows with in_place 1, and the times under inplace_time_us, are
    the curve's `in_place`. If the columns do not tell something, it is read from `index.csv` in the
    folder of the file or one folder up, or else from the file's name.

    Raises InputError if a row does not fit the header.
    """
    table = _CsvTable()
    try:
        for line, row in _rows(text, path, table):
            _read_row(table, line, row)
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV: {error}") from None
    if table.mistakes:
        more = f"; and {len(table.mistakes) - _SHOWN} more" if len(table.mistakes) > _SHOWN else ""
        raise InputError(f"{path} {'; '.join(table.mistakes[:_SHOWN])}{more}")
    measured = [rows for rows in table.curves.values() if rows.points or rows.in_place]
    if not measured:
        raise InputError(
            f"{path}: a header and no rows with a size and a time above 0: expected at least one"
        )
    guess, by_name = about(path)
    curves = tuple(_curve(rows, guess, by_name, path) for rows in measured)
    return Measurements(curves, tuple(_skipped(table)))


def _skipped(table: _CsvTable) -> Iterator[str]:
    if table.unread:
        names = ", ".join(table.unread)
        yield f"{counted(len(table.unread), 'column')} with names not known here: {names}"
    if table.empty:
        yield tally("row", "of size or time 0", table.empty)


def _rows(text: str, path: Path, table: _CsvTable) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(lines(text, path), skipinitialspace=True)
    header = [name.strip() for name in next((row for row in reader if row), [])]
    missing = [name for name in csv_cells.REQUIRED if name not in header]
    if missing:
        raise InputError(
            f"{path} line {reader.line_num}: no column {' and '.join(missing)}: expected "
            f"size_bytes,time_us"
        )
    if len(set(header)) < len(header):
        raise InputError(f"{path} line {reader.line_num}: a column name twice: expected each once")
    table.unread = [name[:40] for name in header if name not in csv_cells.KNOWN]
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(
                f"{path} line {reader.line_num}: {counted(len(row), 'value')} under "
                f"{counted(len(header), 'column')}"
            )
        yield reader.line_num, dict(zip(header, map(str.strip, row), strict=True))


def _read_row(table: _CsvTable, line: int, row: Cells) -> None:
    try:
        rows = _rows_of(table, row)
        size = csv_cells.size(row)
        time_us = csv_cells.time("time_us", row["time_us"])
        in_place_us = csv_cells.time("inplace_time_us", row.get("inplace_time_us") or "0")
        point = csv_cells.point(size, time_us, row)
        in_place = csv_cells.in_place(row)
    except ValueError as error:
        table.mistakes.append(f"line {line}: {error}")
        return
    if point.time_s == 0 or (size == 0 and rows.named.collective != "barrier"):
        table.empty.append(line)
        return
    points = rows.in_place if in_place else rows.points
    if size in points:
        table.mistakes.append(f"line {line}: {_repeated(size, table.unread)}")
    points[size] = point
    if in_place_us and not in_place:
        rows.in_place[size] = Point(size, in_place_us / 1e6)
    if _disagrees(row.get("algbw_GBps", ""), size / time_us / 1e3):
        rows.disagree.append(line)


def _repeated(size: int, unread: list[str]) -> str:
    """The mistake of a size that comes twice, and how to tell the two curves apart."""
    hint = f" (put what {', '.join(unread[:_SHOWN])} says under topology)" if unread else ""
    return f"size_bytes {size} a second time: expected each size once{hint}"


def _rows_of(table: _CsvTable, row: Cells) -> _CurveRows:
    """The rows of the curve that a row is of. Equal cells are read once."""
    texts = tuple(row.get(name, "") for name in IDENTITY)
    if texts not in table.by_cells:
        named = csv_cells.identity(row)
        table.by_cells[texts] = table.curves.setdefault(named, _CurveRows(named))
    return table.by_cells[texts]


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
    ranks, nodes = curve.ranks, curve.nodes
    per_node = ranks // nodes if ranks and nodes and ranks % nodes == 0 else None
    guessed = [name for name in ("collective", "ranks") if getattr(guess, name)] if by_name else []
    return replace(
        curve,
        notes=(*guess.notes, *_notes(rows, [name for name in guessed if name not in identity])),
        gpus_per_node=guess.gpus_per_node or per_node,
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
