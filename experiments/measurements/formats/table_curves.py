"""The curves of one table of nccl-tests, from a log or from JSON."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from experiments.measurements.collectives import UNKNOWN, bus_factor
from experiments.measurements.curve import NO_FOOTER, Curve, Point, Skipped, tally
from experiments.measurements.formats.log_sections import LoggedTest
from experiments.measurements.formats.log_settings import forced, labels_of, library, variables
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
    PrintedRow,
    bus_ratio,
    copies,
    finite,
    measured,
    row_agrees,
)
from experiments.output import counted


def curves_of(run: LoggedTest, source: str, skipped: Skipped) -> Iterator[Curve]:
    """The curves of the table of a test: one for each data type, reduction and root.

    Lines that are not used are added to `skipped`.
    """
    copies_of_rows = [copies(row) for row in run.rows]
    usual = _usual(copies_of_rows)
    skipped["torn"] += [*run.begun]
    if not run.rows and not run.begun:
        skipped["bare"].append(run.header.line if run.header else 1)
    kinds: dict[tuple[str, str, int | None], list[PrintedRow]] = defaultdict(list)
    for row, number in zip(run.rows, copies_of_rows, strict=True):
        # a row may have lost digits of its size
        if number in (None, usual):
            kinds[row.kind, row.redop, row.root].append(row)
        else:
            skipped["torn"].append(row.line)
    ranks, notes = _ranks(run), _run_notes(run)
    for (kind, redop, root), rows in kinds.items():
        series = (
            f"type {kind}, redop {redop or 'none'}, root {root}: one of {len(kinds)} series in "
            f"its table"
        )
        consistent, remarks = _consistent(run, rows, ranks.ranks, skipped)
        remarks = (*notes, *(series,) * (len(kinds) > 1), *remarks)
        curve = _curve(run, consistent, ranks, remarks, source, skipped)
        if curve.points or curve.in_place:
            yield curve


def _usual(numbers: Sequence[float | None]) -> float:
    """The number that most rows have: a whole size is count times type or more, so 1 or more."""
    counts = Counter(number for number in numbers if number is not None and number >= 1)
    return max(counts, key=lambda number: (counts[number], number), default=1.0)


def _run_notes(run: LoggedTest) -> tuple[str, ...]:
    notes = list(run.notes)
    if run.joined:
        notes.append(tally("row", "torn in two and put together again", run.joined))
    if run.cpu_time:
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


def _consistent(
    run: LoggedTest, rows: Sequence[PrintedRow], ranks: int | None, skipped: Skipped
) -> tuple[list[PrintedRow], tuple[str, ...]]:
    """The rows without those of size 0, infinite numbers, or numbers that contradict each other.

    algbw is size / time, but (n-1)/n of that in hypercube, and until 2020 in all-gather: then there
    is a note.
    """
    skipped["infinite"] += [row.line for row in rows if not all(map(finite, row.cells))]
    skipped["empty"] += [row.line for row in rows if not row.size]
    whole = [row for row in rows if row.size and all(map(finite, row.cells))]
    parts = bus_factor("all_gather", ranks or 1)
    plain, old = (
        [row for row in whole if row_agrees(row, run.per_second, factor)] for factor in (1.0, parts)
    )
    is_old = len(old) > len(plain) and len(old) * 2 > len(whole)
    consistent = old if is_old else plain
    lines = {row.line for row in consistent}
    skipped["inconsistent"] += [row.line for row in whole if row.line not in lines]
    note = f"algbw is (n-1)/n of size / time, n = {ranks}: hypercube, or a version before 2.0.9"
    return consistent, (note,) * is_old


def _curve(
    run: LoggedTest,
    rows: Sequence[PrintedRow],
    listed: RankCount,
    remarks: tuple[str, ...],
    source: str,
    skipped: Skipped,
) -> Curve:
    collective, ranks, notes = _identity(run, rows, listed)
    notes += remarks
    # Its own settings before those that are exported for all tests.
    settings = run.exported | run.settings
    label, (version, doubt), (device, mixed) = (
        forced(settings, collective),
        library(settings),
        gpu_model(run.devices),
    )
    series: dict[str, tuple[Point, ...]] = {"out-of-place": (), "in-place": ()}
    sizes = [row.size for row in rows]
    labels = labels_of(run.choices, collective, ranks.ranks, sizes)
    for at, place in enumerate(run.places):
        timed = [row for row in rows if at < len(row.cells)]
        skipped["untimed"] += [row.line for row in timed if not measured(row.cells[at])]
        usable = [row for row in timed if measured(row.cells[at])]
        points, doubts = _points(run, usable, at, place)
        series[place] = tuple(
            replace(point, ran=" ".join(labels.get(point.size, ()))) for point in points
        )
        notes += doubts
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
        dtype=rows[0].kind if rows else "",
        capped=run.capped,
        unfinished=not run.closed,
        variables=variables(settings),
        hosts=tuple(sorted({entry.host for entry in run.devices if entry.host})),
    )


def _identity(
    run: LoggedTest, rows: Sequence[PrintedRow], ranks: RankCount
) -> tuple[str, RankCount, tuple[str, ...]]:
    if not rows:
        return UNKNOWN, ranks, ()
    programs = [run.started] if run.started else run.programs
    ratio = bus_ratio(rows, run.per_second)
    collective, note = name_collective(programs, rows, ranks.ranks, ratio)
    if ranks.ranks and contradicts(collective, ranks.ranks, ratio):
        ranks = RankCount(
            None,
            None,
            (f"number of ranks unknown: busbw is not {collective}'s on {ranks.ranks} ranks",),
        )
    elif ranks.ranks is None and not ranks.notes:
        ranks = _by_threads(run, collective, ratio)
    return collective, ranks, (*filter(None, [note]), *ranks.notes)


def _by_threads(run: LoggedTest, collective: str, ratio: Interval | None) -> RankCount:
    if run.threads and confirms(collective, run.threads, ratio):
        return RankCount(
            run.threads,
            1,
            (f"no list of devices: {counted(run.threads, 'rank')} by nThread x nGpus and busbw",),
        )
    return RankCount(None, None, ("number of ranks unknown: no list of devices",))


def _points(
    run: LoggedTest, rows: Sequence[PrintedRow], at: int, place: str
) -> tuple[tuple[Point, ...], tuple[str, ...]]:
    """The points of one half of the table, one a size, and notes on wrong results and repeated
    sizes."""
    numbered = [(row.line, _point(row.size, row.cells[at], run)) for row in rows]
    wrong = [line for line, point in numbered if point.wrong]
    notes: tuple[str, ...] = ()
    if wrong:
        notes += (f"wrong results {place}: {tally('row', 'with #wrong above 0', wrong, run.unit)}",)
    points = sorted((point for _, point in numbered), key=lambda point: (point.size, point.time_s))
    sizes = [list(group) for _, group in groupby(points, key=lambda point: point.size)]
    if len(sizes) < len(points):
        repeats = max(map(len, sizes))
        notes += (
            f"sizes measured up to {repeats} times {place}: the (lower) median time of each "
            f"is kept",
        )
    return tuple(group[(len(group) - 1) // 2] for group in sizes), notes


def _point(size: int, cell: PrintedCell, run: LoggedTest) -> Point:
    minimum, cv = (None if text == "N/A" else float(text) for text in (cell.least, cell.cv))
    return Point(
        size,
        float(cell.time) / run.per_second,
        None if cell.wrong == "N/A" else int(float(cell.wrong)),
        None if cv is None else cv / 100,
        run.iterations,
        None if minimum is None else minimum / run.per_second,
    )
