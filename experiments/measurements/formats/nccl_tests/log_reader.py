"""Reads logs of nccl-tests and rccl-tests, also with launchers' prefixes and damaged lines."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from experiments.measurements.curve import Curve, Failure, Measurements, no_rows, tally
from experiments.measurements.formats.nccl_tests.dead_tests import alone, died
from experiments.measurements.formats.nccl_tests.log_sections import LoggedTest, LogTests, cut
from experiments.measurements.formats.nccl_tests.processes import processes
from experiments.measurements.formats.nccl_tests.table_curves import (
    Skipped,
    curves_of,
    skipped_lines,
)
from experiments.measurements.formats.nccl_tests.torn_rows import read_rows
from experiments.measurements.networks import network_of
from topologies.errors import InputError


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
    unfinished = None if text.endswith(("\n", "\r")) else text.count("\n") + 1
    job_curves: list[Curve] = []
    failures: list[Failure] = []
    for run in sections.runs:
        curves = list(_curves(run, source, skipped, unfinished))
        job_curves += curves
        bare = run.header is not None and run.header.line in skipped["bare"]
        failures += died(run, curves, source, bare=bare, last=run is sections.runs[-1])
    if not job_curves:
        raise no_rows(_reason(sections, source, skipped_lines(skipped)), failures)
    return Measurements(tuple(job_curves), skipped_lines(skipped), tuple(failures))


def _curves(
    run: LoggedTest, source: str, skipped: Skipped, unfinished: int | None
) -> Iterator[Curve]:
    if run.header is not None:
        rows = read_rows(run.header, run.lines, run.step, unfinished)
        yield from curves_of(run, run.header, rows, f"{source}:{run.header.line}", skipped)


def _separate_jobs(count: int, parts: Sequence[str], source: str) -> Measurements:
    """The curves of `count` processes that did not join one job, and one failure for all."""
    jobs, refusals = [], []
    for part in parts:
        try:
            jobs.append(_job(part, source))
        except InputError as error:
            refusals.append(str(error))
    measured = [replace(curve, alone=True) for job in jobs for curve in job.curves]
    failure = alone(source, count, max((curve.ranks or 1 for curve in measured), default=1))
    if not measured:
        raise no_rows("; ".join(dict.fromkeys(refusals)), (failure,))
    skipped = dict.fromkeys([line for job in jobs for line in job.skipped] + refusals)
    if count > len(parts):
        skipped[f"all processes after the first {len(parts)}: not read"] = None
    failures = (failure, *(failure for job in jobs for failure in job.failures))
    return Measurements(tuple(measured), tuple(skipped), failures)


def _reason(sections: LogTests, source: str, skipped: Sequence[str]) -> str:
    """Why a log has no curve: no table, no rows, or no usable row."""
    header = next((header for _, header in sections.tables()), None)
    if header is None:
        return (
            f"no nccl-tests table in {source}: expected a header line with size, time, algbw, busbw"
        )
    if skipped == (tally("table", "without rows", [header.line]),):
        return (
            f"{source} line {header.line}: a table header with no rows below: the log was cut short"
        )
    return f"no usable row in {source}: {'; '.join(skipped)}"
