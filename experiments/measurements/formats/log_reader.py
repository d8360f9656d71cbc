"""Reads logs of nccl-tests and rccl-tests, also with launchers' prefixes, damaged lines, or several
jobs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from experiments.measurements.curve import (
    ALONE,
    DIED,
    Curve,
    Failure,
    Measurements,
    Skipped,
    no_rows,
    skipped_lines,
    tally,
)
from experiments.measurements.formats.log_sections import LoggedTest, LogTests, cut
from experiments.measurements.formats.table_curves import curves_of
from experiments.measurements.formats.text import streams
from experiments.measurements.networks import network_of
from experiments.output import counted
from topologies.errors import InputError
from topologies.units import format_bytes

_DEVICE = re.compile(
    r"#\s{0,9}Rank\s{1,9}([0-9]{1,7})\s[^#\n]{0,99}?"
    r"\bPid\s{1,9}([0-9]{1,9})\s{1,9}on\s{1,90}(\S{1,255})"
)
_ROW = re.compile(r"\s{0,20}([0-9]{1,18})\s{1,20}[0-9]{1,18}\s{1,20}[a-z]")
_ONCE = (
    "nccl-tests version",
    "Collective test starting",
    "nThread",
    "Using devices",
    "out-of-place",
    "algbw",
    "(elements)",
    "Out of bounds",
    "Avg bus",
    "Collective test concluded",
)
"""Words of the lines that each process prints once for each test."""
_HEADER, _FOOTER = "algbw", "Avg bus"
READ_PROCESSES = 64
"""Processes whose lines are read."""


def processes(text: str) -> tuple[int, tuple[str, ...]]:
    """The number of processes of a log, and the text of each of the first READ_PROCESSES; 0 for one
    job. In a text, the lines of the other processes are blank.
    """
    if text.count("Pid") < 2 and text.count("nranks 1") < 2:
        return 0, ()
    lines = text.split("\n")
    tags = _tags(lines)
    count = len(tags) or _interleaved(lines)
    if count < 2:
        return 0, ()
    pieces_by_line = _by_tag(lines, tags) if tags else _by_order(lines, count)
    parts: list[list[str]] = [[] for _ in range(min(count, READ_PROCESSES))]
    for pieces in pieces_by_line:
        for number, part in enumerate(parts):
            part.append(pieces.get(number, pieces.get(None, "")))
    return count, tuple("\n".join(part) for part in parts)


def _devices(lines: Iterable[str]) -> list[tuple[str, str, str]]:
    """What the launcher puts before each line of a list of devices, the number of its rank, and its
    process: host and number."""
    matches = ((line, _DEVICE.search(line)) for line in lines)
    return [(line[: at.start()], at[1], f"{at[3]} {at[2]}") for line, at in matches if at]


def _alone(lines: Iterable[str]) -> list[tuple[str, str, str]]:
    """As :func:`_devices`, by the processes that NCCL itself says are of one rank."""
    matches = (
        re.search(r"([\w.-]{1,255}):([0-9]{1,9}):[0-9]{1,9}\b.{0,99}\brank 0 nranks 1\b", line)
        for line in lines
        if "nranks 1" in line
    )
    return [("", "0", f"{at[1]} {at[2]}") for at in matches if at]


def _tags(lines: Sequence[str]) -> list[str]:
    """The launcher's tags, if several processes have one each and each lists itself as rank 0.

    A tag ends with the number of a process, and stands before every header and footer: a time stamp
    does not.
    """
    lines = [piece for line in lines for piece in streams(line)]
    devices = _devices(lines)
    tags = list(dict.fromkeys(tag for tag, _, _ in devices))
    numbers = {numbers[-1] for tag in tags if (numbers := re.findall("[0-9]+", tag))}
    roots = {tag for tag, rank, _ in devices if rank == "0"}
    edges = [line for line in lines if _HEADER in line or _FOOTER in line]
    tagged = all(line.startswith(tuple(tags)) for line in edges)
    return tags if len(numbers) == len(tags) > 1 and roots == set(tags) and tagged else []


def _interleaved(lines: Sequence[str]) -> int:
    """The number of processes that list themselves as rank 0 before the first test ends.

    It is 0 if one of them is not a separate job, or if the others started after the first had died.
    After the lists, separate jobs print several rows of one size, or a footer each.
    """
    ends = [number for number, line in enumerate(lines) if _FOOTER in line]
    listed = _devices if _devices(lines) else _alone
    devices = listed(lines[: ends[0]] if ends else lines)
    jobs = {process for _, rank, process in devices if rank == "0"}
    if len(jobs) < 2 or jobs != {process for _, _, process in devices}:
        return 0
    all_jobs = {process for _, rank, process in listed(lines) if rank == "0"}
    last_line = max(number for number, line in enumerate(lines) if listed([line]))
    lines_after = lines[last_line : next((end for end in ends if end > last_line), len(lines))]
    sizes = Counter(row[1] for line in lines_after if (row := _ROW.match(line)))
    together = 1 < max(sizes.values(), default=0) <= len(jobs)
    return len(jobs) if together or len(ends) == len(all_jobs) else 0


def _by_tag(lines: Iterable[str], tags: Sequence[str]) -> Iterator[dict[int | None, str]]:
    """What each process wrote in a line, by its number; under None what may be of any process."""
    for line in lines:
        yield {_tagged(piece, tags): piece for piece in streams(line)}


def _tagged(piece: str, tags: Sequence[str]) -> int | None:
    return next((number for number, tag in enumerate(tags) if piece.startswith(tag)), None)


def _by_order(lines: Iterable[str], count: int) -> Iterator[dict[int | None, str]]:
    """As :func:`_by_tag`, without tags.

    Nobody knows which process a line is of. Of lines of one kind, and of rows of one size, each
    process has one: the first is taken as the first one's.
    """
    met: Counter[str] = Counter()
    numbers: dict[str, int] = {}
    for line in lines:
        row = _ROW.match(line)
        kind = f"size {row[1]}" if row else next((kind for kind in _ONCE if kind in line), None)
        if match := _DEVICE.search(line):
            number = numbers.setdefault(f"{match[3]} {match[2]}", len(numbers))
            yield {number % count: line}
        elif kind is None:
            yield {None: line}
        else:
            if kind == _HEADER and met[kind] % count == 0:
                met = Counter({each: met[each] for each in _ONCE})
            met[kind] += 1
            yield {(met[kind] - 1) % count: line}


def died(
    run: LoggedTest, curves: Sequence[Curve], source: str, *, bare: bool, last: bool
) -> Iterator[Failure]:
    """The failure of one test that died: before its table, without a row, or before its last size.

    `source` names the log. `bare` says that the table has no rows, `last` that no test follows.
    """
    name = (run.started or next(iter(run.programs), "") or "a test").removesuffix("_perf")
    why = f": {' '.join(run.failed.split())[:160]}" if run.failed else ""
    if run.header is None:
        if run.failed or (run.announced and not run.header_lost):
            yield Failure(DIED, source, f"{name} ended before its table{why}")
        return
    where = f"{source}:{run.header.line}"
    reached = max(
        (point.size for curve in curves for point in (*curve.points, *curve.in_place)), default=0
    )
    if bare:
        yield Failure(DIED, where, f"{name} has a table header and no rows{why}")
    elif not run.closed and (run.failed or _stopped(run, reached)):
        yield Failure(
            DIED, where, f"{name} ended after {format_bytes(reached)}{why or _asked(run, last)}"
        )


def _stopped(run: LoggedTest, reached: int) -> bool:
    if run.capped or run.largest is None or run.step is None:
        return False
    factor, more = run.step
    return reached * factor + more <= run.largest


def _asked(run: LoggedTest, last: bool) -> str:
    follows = "the log ends there" if last else "the next test follows"
    return f" of {format_bytes(run.largest)}, and {follows}" if run.largest else ""


def looks_like_log(text: str) -> bool:
    """Whether a text has the columns of an nccl-tests table."""
    return "algbw" in text and "busbw" in text


def parse_log(text: str, source: str) -> Measurements:
    """The curves in the text of the log `source`.

    A test becomes one curve, or several if it has several types, reductions or roots. Raises
    InputError if the text has no table or no usable row.
    """
    count, parts = processes(text)
    job = _separate_jobs(count, parts, source) if parts else _job(text, source)
    network = network_of(text)
    measured = (replace(curve, network=network, log=source) for curve in job.curves)
    return replace(job, curves=tuple(measured))


def _job(text: str, source: str) -> Measurements:
    """The curves, skipped lines and failures in the log of one job.

    Raises InputError if the log has no usable row.
    """
    sections = cut(text) if "algbw" in text or "nThread" in text else LogTests()
    skipped: Skipped = defaultdict(list, orphan=sections.orphans, long=sections.long)
    job_curves: list[Curve] = []
    failures: list[Failure] = []
    for run in sections.runs:
        curves: list[Curve] = []
        if header := run.header:
            curves += curves_of(run, f"{source}:{header.line}", skipped)
        job_curves += curves
        bare = header is not None and header.line in skipped["bare"]
        failures += died(run, curves, source, bare=bare, last=run is sections.runs[-1])
    if not job_curves:
        raise no_rows(_reason(sections, source, skipped_lines(skipped)), failures)
    return Measurements(tuple(job_curves), skipped_lines(skipped), tuple(failures))


def _separate_jobs(count: int, parts: Sequence[str], source: str) -> Measurements:
    """The curves of `count` processes that did not join one job, and one failure for all."""
    jobs, refusals = [], []
    for part in parts:
        try:
            jobs.append(_job(part, source))
        except InputError as error:
            refusals.append(str(error))
    measured = [replace(curve, alone=True) for job in jobs for curve in job.curves]
    ranks = max((curve.ranks or 1 for curve in measured), default=1)
    failure = Failure(
        ALONE,
        source,
        f"{count} processes of {counted(ranks, 'rank')} each and no job of {count * ranks}: "
        f"nccl-tests was built or started without MPI",
    )
    if not measured:
        raise no_rows("; ".join(dict.fromkeys(refusals)), (failure,))
    skipped = dict.fromkeys([line for job in jobs for line in job.skipped] + refusals)
    if count > len(parts):
        skipped[f"all processes after the first {len(parts)}: not read"] = None
    failures = (failure, *(failure for job in jobs for failure in job.failures))
    return Measurements(tuple(measured), tuple(skipped), failures)


def _reason(sections: LogTests, source: str, skipped: Sequence[str]) -> str:
    header = next((run.header for run in sections.runs if run.header), None)
    if header is None:
        return (
            f"no nccl-tests table in {source}: expected a header line with size, time, algbw, busbw"
        )
    if skipped == (tally("table", "without rows", [header.line]),):
        return (
            f"{source} line {header.line}: a table header with no rows below: the log was cut short"
        )
    return f"no usable row in {source}: {'; '.join(skipped)}"
