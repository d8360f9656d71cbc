"""Logs of nccl-tests and rccl-tests, as launchers, debug output and lost lines leave them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from experiments.measurements.checks import measured, row_agrees
from experiments.measurements.identity import (
    Ranks,
    bus_factor,
    confirms,
    contradicts,
    count_ranks,
    name_collective,
)
from experiments.measurements.loading import load
from experiments.measurements.measurement import Curve, Measurements, Point, tally
from experiments.measurements.rows import Rows, read_rows
from experiments.measurements.sections import Run, Sections, cut
from experiments.measurements.table import Header, Row
from topologies.errors import InputError

_EXPECTED = "expected a header line with size, time, algbw, busbw"
_REASONS = {
    "torn": ("row", "torn beyond repair"),
    "orphan": ("row", "without a table header above"),
    "inconsistent": ("row", "inconsistent (size / time is not the algbw printed)"),
    "empty": ("row", "of size 0"),
    "untimed": ("row", "with a time of 0 or N/A"),
    "bare": ("table", "without rows"),
    "long": ("line", "too long to read"),
}
_Skipped = dict[str, list[int]]


def read_log(path: Path) -> Measurements:
    """The curves in the log at `path`: one a test, or more if it has several types, reductions or roots.

    Raises InputError when the file cannot be read (see `loading.load`), has no table or no usable row.
    """
    return parse_log(load(path), str(path))


def parse_log(text: str, source: str) -> Measurements:
    """The curves in the text of a log that `source` names. Raises InputError as `read_log`."""
    sections = cut(text) if "algbw" in text else Sections()
    skipped: _Skipped = defaultdict(list, orphan=sections.orphans, long=sections.long)
    unfinished = None if text.endswith(("\n", "\r")) else text.count("\n") + 1
    curves = [
        curve
        for run, header in sections.tables()
        for curve in _curves(run, header, read_rows(header, run.lines, run.step, unfinished), source, skipped)
    ]
    counted = {reason: sorted(set(skipped[reason])) for reason in _REASONS}
    told = tuple(tally(*_REASONS[reason], lines) for reason, lines in counted.items() if lines)
    if not curves:
        raise InputError(_nothing(sections, source, told))
    return Measurements(tuple(curves), told)


def _nothing(sections: Sections, source: str, told: Sequence[str]) -> str:
    header = next((header for _, header in sections.tables()), None)
    if header is None:
        return f"no nccl-tests table in {source}: {_EXPECTED}"
    if told == (tally("table", "without rows", [header.line]),):
        return f"{source} line {header.line}: a table header with no rows below: the log was cut short"
    return f"no usable row in {source}: {'; '.join(told)}"


@dataclass(frozen=True)
class _Table:
    """The rows of one table that share data type, reduction and root."""

    run: Run
    header: Header
    rows: tuple[Row, ...]
    ranks: Ranks
    notes: tuple[str, ...]


def _curves(run: Run, header: Header, found: Rows, source: str, skipped: _Skipped) -> Iterator[Curve]:
    skipped["torn"] += found.torn
    if not found.rows and not found.torn:
        skipped["bare"].append(header.line)
    kinds: dict[tuple[str, str, int | None], list[Row]] = defaultdict(list)
    for row in found.rows:
        kinds[row.kind, row.redop, row.root].append(row)
    notes = _run_notes(run, header, found)
    for (kind, redop, root), rows in kinds.items():
        own = f"type {kind}, redop {redop or 'none'}, root {root}: one of {len(kinds)} series in its table"
        table = _Table(run, header, tuple(rows), _ranks(run), notes + ((own,) if len(kinds) > 1 else ()))
        curve = _curve(_checked(table, skipped), source, skipped)
        if curve.points or curve.in_place:
            yield curve


def _run_notes(run: Run, header: Header, found: Rows) -> tuple[str, ...]:
    notes = list(run.notes)
    if found.joined:
        notes.append(tally("row", "torn in two and put together again", found.joined))
    if header.cpu_time:
        notes.append("times are cputime: until the call returned, not until the data was there")
    if not run.closed:
        notes.append("no footer below the table: the log may be cut short")
    return tuple(notes)


def _ranks(run: Run) -> Ranks:
    if not run.devices and len(run.nranks) == 1:
        (ranks,) = run.nranks
        return Ranks(ranks, None, (f"no list of devices: {ranks} ranks by NCCL's own 'nranks {ranks}'",))
    return count_ranks(run.devices)


def _checked(table: _Table, skipped: _Skipped) -> _Table:
    """Without the rows of size 0 and those that disagree with themselves."""
    rows = [row for row in table.rows if row.size]
    skipped["empty"] += [row.line for row in table.rows if not row.size]
    factor, notes = _convention(rows, table)
    good = tuple(row for row in rows if row_agrees(row, table.header.per_second, factor))
    skipped["inconsistent"] += sorted({row.line for row in rows} - {row.line for row in good})
    return replace(table, rows=good, notes=table.notes + notes)


def _convention(rows: Sequence[Row], table: _Table) -> tuple[float, tuple[str, ...]]:
    """What algbw is of size / time: 1, but (n-1)/n in hypercube, and until 2020 in all-gather."""
    parts = bus_factor("all_gather", table.ranks.ranks or 1)
    per_second = table.header.per_second
    plain, old = (sum(row_agrees(row, per_second, factor) for row in rows) for factor in (1.0, parts))
    if old <= plain or old * 2 <= len(rows):
        return 1.0, ()
    return parts, (f"algbw is (n-1)/n of size / time, n = {table.ranks.ranks}: hypercube, or a version before 2.0.9",)


def _curve(table: _Table, source: str, skipped: _Skipped) -> Curve:
    collective, ranks, notes = _identity(table)
    series: dict[str, tuple[Point, ...]] = {"out-of-place": (), "in-place": ()}
    for at, place in enumerate(table.run.places):
        timed = [row for row in table.rows if at < len(row.cells)]
        skipped["untimed"] += [row.line for row in timed if not measured(row.cells[at])]
        usable = [row for row in timed if measured(row.cells[at])]
        series[place], more = _points(usable, at, place, table.header.per_second)
        notes += more
    where = f"{source}:{table.header.line}"
    return Curve(collective, ranks.ranks, ranks.nodes, series["out-of-place"], series["in-place"], where, notes)


def _identity(table: _Table) -> tuple[str, Ranks, tuple[str, ...]]:
    """The collective, the ranks, and all that is to be said so far."""
    if not table.rows:
        return "unknown", table.ranks, table.notes
    run, rows, per_second, ranks = table.run, table.rows, table.header.per_second, table.ranks
    named = [run.started] if run.started else run.named
    collective, note = name_collective(named, rows, ranks.ranks, per_second)
    if ranks.ranks and contradicts(collective, ranks.ranks, rows, per_second):
        ranks = Ranks(None, None, (f"number of ranks unknown: busbw is not {collective}'s on {ranks.ranks} ranks",))
    elif ranks.ranks is None and not ranks.notes:
        ranks = _by_threads(run, collective, rows, per_second)
    return collective, ranks, (*((note,) if note else ()), *ranks.notes, *table.notes)


def _by_threads(run: Run, collective: str, rows: Sequence[Row], per_second: float) -> Ranks:
    if run.threads and confirms(collective, run.threads, rows, per_second):
        return Ranks(run.threads, 1, (f"no list of devices: {run.threads} ranks by nThread x nGpus and busbw",))
    return Ranks(None, None, ("number of ranks unknown: no list of devices",))


def _points(rows: Sequence[Row], at: int, place: str, per_second: float) -> tuple[tuple[Point, ...], tuple[str, ...]]:
    """The points of one half of the table, one a size, and notes on wrong results and repeated sizes."""
    points = sorted((_point(row, at, per_second) for row in rows), key=lambda point: (point.size, point.time_s))
    wrong = [row.line for row in rows if _point(row, at, per_second).wrong]
    notes: tuple[str, ...] = ()
    if wrong:
        notes += (f"wrong results {place}: {tally('row', 'with #wrong above 0', wrong)}",)
    sizes = [list(same) for _, same in groupby(points, key=lambda point: point.size)]
    if len(sizes) < len(points):
        most = max(map(len, sizes))
        notes += (f"sizes measured up to {most} times {place}: the (lower) median time of each is kept",)
    return tuple(same[(len(same) - 1) // 2] for same in sizes), notes


def _point(row: Row, at: int, per_second: float) -> Point:
    cell = row.cells[at]
    wrong = None if cell.wrong == "N/A" else int(float(cell.wrong))
    return Point(row.size, float(cell.time) / per_second, wrong)
