"""The curves of one table of nccl-tests, from a log or from JSON."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from experiments.measurements.collectives import bus_factor
from experiments.measurements.curve import NO_FOOTER, Curve, Point, Skipped, tally
from experiments.measurements.formats.log_sections import LoggedTest
from experiments.measurements.formats.log_settings import forced, library, variables
from experiments.measurements.formats.participants import (
    RankCount,
    confirms,
    contradicts,
    count_ranks,
    gpu_model,
    name_collective,
)
from experiments.measurements.formats.printed_table import (
    Interval,
    PrintedCell,
    PrintedHeader,
    PrintedRow,
    bus_ratio,
    copies,
    finite,
    measured,
    row_agrees,
)
from experiments.measurements.formats.tuning_lines import labels_of
from experiments.output import counted


@dataclass(frozen=True)
class _Table:
    """The rows of one table with the same data type, reduction and root."""

    run: LoggedTest
    header: PrintedHeader
    rows: tuple[PrintedRow, ...]
    ranks: RankCount
    notes: tuple[str, ...]


def curves_of(
    run: LoggedTest, header: PrintedHeader, source: str, skipped: Skipped
) -> Iterator[Curve]:
    """The curves of one table: one for each data type, reduction and root.

    Lines that are not used are added to `skipped`.
    """
    copies_of_rows = [copies(row) for row in run.rows]
    usual = _usual(copies_of_rows)
    skipped["torn"] += [*run.begun]
    if not run.rows and not run.begun:
        skipped["bare"].append(header.line)
    kinds: dict[tuple[str, str, int | None], list[PrintedRow]] = defaultdict(list)
    for row, number in zip(run.rows, copies_of_rows, strict=True):
        # a row may have lost digits of its size
        if number in (None, usual):
            kinds[row.kind, row.redop, row.root].append(row)
        else:
            skipped["torn"].append(row.line)
    notes = _run_notes(run, header)
    for (kind, redop, root), rows in kinds.items():
        series = (
            f"type {kind}, redop {redop or 'none'}, root {root}: one of {len(kinds)} series in "
            f"its table"
        )
        table = _Table(
            run, header, tuple(rows), _ranks(run), notes + ((series,) if len(kinds) > 1 else ())
        )
        curve = _curve(_checked(table, skipped), source, skipped)
        if curve.points or curve.in_place:
            yield curve


def _usual(numbers: Sequence[float | None]) -> float:
    """The number that most rows have: a whole size is count times type or more, so 1 or more."""
    counts = Counter(number for number in numbers if number is not None and number >= 1)
    return max(counts, key=lambda number: (counts[number], number), default=1.0)


def _run_notes(run: LoggedTest, header: PrintedHeader) -> tuple[str, ...]:
    notes = list(run.notes)
    if header.cpu_time:
        notes.append("times are cputime: until the call returned, not until the data was there")
    if not run.closed:
        notes.append(NO_FOOTER)
    return tuple(notes)


def _ranks(run: LoggedTest) -> RankCount:
    if not run.devices and len(run.nranks) == 1:
        (ranks,) = run.nranks
        return RankCount(
            ranks,
            None,
            (f"no list of devices: {counted(ranks, 'rank')} by NCCL's own 'nranks {ranks}'",),
        )
    return count_ranks(run.devices)


def _checked(table: _Table, skipped: Skipped) -> _Table:
    """The table without rows of size 0, infinite numbers, or numbers that contradict each other."""
    infinite = {row.line for row in table.rows if not all(map(finite, row.cells))}
    rows = [row for row in table.rows if row.size and row.line not in infinite]
    skipped["infinite"] += infinite
    skipped["empty"] += [row.line for row in table.rows if not row.size]
    factor, notes = _convention(rows, table)
    consistent = tuple(row for row in rows if row_agrees(row, table.header.per_second, factor))
    skipped["inconsistent"] += sorted({row.line for row in rows} - {row.line for row in consistent})
    return replace(table, rows=consistent, notes=table.notes + notes)


def _convention(rows: Sequence[PrintedRow], table: _Table) -> tuple[float, tuple[str, ...]]:
    """algbw over size / time: 1, but (n-1)/n in hypercube, and until 2020 in all-gather."""
    parts = bus_factor("all_gather", table.ranks.ranks or 1)
    per_second = table.header.per_second
    plain, old = (
        sum(row_agrees(row, per_second, factor) for row in rows) for factor in (1.0, parts)
    )
    if old <= plain or old * 2 <= len(rows):
        return 1.0, ()
    return parts, (
        f"algbw is (n-1)/n of size / time, n = {table.ranks.ranks}: hypercube, or a version "
        f"before 2.0.9",
    )


def _curve(table: _Table, source: str, skipped: Skipped) -> Curve:
    collective, ranks, notes = _identity(table)
    run = table.run
    # Its own settings before those that are exported for all tests.
    settings = run.exported | run.settings
    label, (version, doubt), (device, mixed) = (
        forced(settings, collective),
        library(settings),
        gpu_model(run.devices),
    )
    series: dict[str, tuple[Point, ...]] = {"out-of-place": (), "in-place": ()}
    sizes = [row.size for row in table.rows]
    labels = labels_of(run.choices, collective, ranks.ranks, sizes)
    for at, place in enumerate(run.places):
        timed = [row for row in table.rows if at < len(row.cells)]
        skipped["untimed"] += [row.line for row in timed if not measured(row.cells[at])]
        usable = [row for row in timed if measured(row.cells[at])]
        points, remarks = _points(table, usable, at, place)
        series[place] = tuple(
            replace(point, ran=" ".join(labels.get(point.size, ()))) for point in points
        )
        notes += remarks
    return Curve(
        collective,
        ranks.ranks,
        ranks.nodes,
        series["out-of-place"],
        series["in-place"],
        source,
        (*notes, *label.notes, *doubt, *mixed),
        algorithm=label.algorithm,
        protocol=label.protocol,
        library=version,
        gpus_per_node=ranks.per_node,
        device=device,
        dtype=table.rows[0].kind if table.rows else "",
        capped=run.capped,
        unfinished=not run.closed,
        variables=variables(settings),
        hosts=tuple(sorted({entry.host for entry in run.devices if entry.host})),
    )


def _identity(table: _Table) -> tuple[str, RankCount, tuple[str, ...]]:
    if not table.rows:
        return "unknown", table.ranks, table.notes
    run, rows, ranks = table.run, table.rows, table.ranks
    programs = [run.started] if run.started else run.programs
    ratio = bus_ratio(rows, table.header.per_second)
    collective, note = name_collective(programs, rows, ranks.ranks, ratio)
    if ranks.ranks and contradicts(collective, ranks.ranks, ratio):
        ranks = RankCount(
            None,
            None,
            (f"number of ranks unknown: busbw is not {collective}'s on {ranks.ranks} ranks",),
        )
    elif ranks.ranks is None and not ranks.notes:
        ranks = _by_threads(run, collective, ratio)
    return collective, ranks, (*((note,) if note else ()), *ranks.notes, *table.notes)


def _by_threads(run: LoggedTest, collective: str, ratio: Interval | None) -> RankCount:
    if run.threads and confirms(collective, run.threads, ratio):
        return RankCount(
            run.threads,
            1,
            (f"no list of devices: {counted(run.threads, 'rank')} by nThread x nGpus and busbw",),
        )
    return RankCount(None, None, ("number of ranks unknown: no list of devices",))


def _points(
    table: _Table, rows: Sequence[PrintedRow], at: int, place: str
) -> tuple[tuple[Point, ...], tuple[str, ...]]:
    """The points of one half of the table, one a size, and notes on wrong results and repeated
    sizes."""
    numbered = [(row.line, _point(row.size, row.cells[at], table)) for row in rows]
    wrong = [line for line, point in numbered if point.wrong]
    notes: tuple[str, ...] = ()
    if wrong:
        notes += (
            f"wrong results {place}: {tally('row', 'with #wrong above 0', wrong, table.run.unit)}",
        )
    points = sorted((point for _, point in numbered), key=lambda point: (point.size, point.time_s))
    sizes = [list(group) for _, group in groupby(points, key=lambda point: point.size)]
    if len(sizes) < len(points):
        repeats = max(map(len, sizes))
        notes += (
            f"sizes measured up to {repeats} times {place}: the (lower) median time of each "
            f"is kept",
        )
    return tuple(group[(len(group) - 1) // 2] for group in sizes), notes


def _point(size: int, cell: PrintedCell, table: _Table) -> Point:
    minimum, cv = (None if text == "N/A" else float(text) for text in (cell.least, cell.cv))
    return Point(
        size,
        float(cell.time) / table.header.per_second,
        None if cell.wrong == "N/A" else int(float(cell.wrong)),
        None if cv is None else cv / 100,
        table.run.iterations,
        None if minimum is None else minimum / table.header.per_second,
    )
