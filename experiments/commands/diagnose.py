"""`simctl diagnose`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from experiments import output
from experiments.calibration.libraries import library
from experiments.commands.answer import Answer, check_files
from experiments.diagnosis import Diagnosis, Difference, compare, diagnose, simulated
from experiments.diagnosis.advice import advice, remedies
from experiments.diagnosis.diagnosis_records import (
    diagnosis_report,
    failure_record,
    point_records,
)
from experiments.diagnosis.expectation import Expectation, profiled
from experiments.diagnosis.findings import Finding, FindingKind
from experiments.diagnosis.peers import among
from experiments.measurements import Curve, Failure, Measurements, doubts, read_all
from experiments.measurements.curve import COLLECTIVE, NO_FOOTER
from experiments.profiles.interval_levels import span
from experiments.profiles.profile_document import Calibrated
from topologies.catalogue import Blueprint
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

FEW = 4
"""Curves up to which every size is printed; of more, only what was found."""


@dataclass(frozen=True)
class Request:
    """What to diagnose, and what to expect of it."""

    logs: Sequence[Path]
    machine: Blueprint | None = None
    """Its links say how fast a curve can be. None: the profile's machine, or no expectation."""
    profile: Calibrated | None = None
    family: str | None = None
    """The series of a folder with an index."""
    ranks: int | None = None
    """The number of ranks, where the files do not say."""
    in_place: bool = False
    """Whether the in-place times count."""
    level: float | None = None
    """The share of runs that an interval of the profile holds; None is the profile's."""


def run(request: Request, plot: Path | None, how: str, page: Path | None = None) -> int:
    """Print what is found in each curve and between them; 1 if anything is abnormal."""
    check_files(plot=plot, report=page)
    measurements, results, differences = diagnosed_logs(request)
    failures = measurements.failures
    if plot:
        from experiments.pictures.diagnosis_curves import diagnosis_drawing
        from experiments.pictures.figure_file import write_figures

        numbered = enumerate(results, 1)
        write_figures(
            plot, {str(number): partial(diagnosis_drawing, result) for number, result in numbered}
        )
    report = diagnosis_report(results, differences, failures)
    if page:
        from experiments.pages.reports.log_results import diagnosed
        from experiments.pages.reports.report_file import write

        write(page, diagnosed(report, results, _parameters(request)))
    for line in measurements.skipped:
        output.note(f"skipped {line}")
    for line in doubts([result.curve for result in results]):
        output.note(line)
    records = [row for result in results for row in point_records(result)]
    answer = Answer("diagnose", report, [*records, *map(failure_record, failures)])
    answer.show(how, lambda: _text(results, differences, failures))
    return int(any(result.abnormal for result in results) or bool(differences or failures))


def diagnosed_logs(
    request: Request,
) -> tuple[Measurements, list[Diagnosis], tuple[Difference, ...]]:
    """What the logs contain, what is found in each curve, and between them."""
    logs, in_place = request.logs, request.in_place
    measurements = read_all(logs, request.family, failed=True)
    curves = list(_curves(measurements, request.ranks, in_place))
    if not curves and not measurements.failures:
        raise InputError(f"{logs[0]}: no {'in-place ' if in_place else ''}times in it")
    expected = _expectation(request)
    progress, results = output.Progress("curves"), []
    for done, curve in enumerate(curves):
        progress(done, len(curves))
        results.append(diagnose(curve, expected))
    progress(len(curves), len(curves))
    return measurements, among(results), compare(curves)


def _curves(measurements: Measurements, ranks: int | None, in_place: bool) -> Iterator[Curve]:
    for curve in measurements.curves:
        if ranks and curve.ranks and ranks != curve.ranks:
            raise InputError(
                f"{curve.source} has {output.counted(curve.ranks, 'rank')}: --p {ranks} "
                f"contradicts it, leave it out"
            )
        points = curve.in_place if in_place else curve.points or curve.in_place
        if points:
            in_place_points = () if in_place or not curve.points else curve.in_place
            yield replace(
                curve, ranks=ranks or curve.ranks, points=points, in_place=in_place_points
            )


def _expectation(request: Request) -> Expectation | None:
    machine, profile = request.machine, request.profile
    if profile is None:
        return simulated(partial(_of_curve, machine)) if machine else None
    known = machine or find_machine(profile.machine)
    kind = library(profile.library).on(known)
    return profiled(profile, kind, partial(_of_curve, known), request.level)


def _of_curve(machine: Blueprint, curve: Curve) -> Callable[[int, int], Topology]:
    return machine.for_job(curve.ranks or 0, curve.nodes or 0).build


def _parameters(request: Request) -> dict[str, output.Value]:
    return {
        "logs": ",".join(map(str, request.logs)),
        "topology": request.machine.text if request.machine else None,
        "profile": request.profile.profile if request.profile else None,
        "family": request.family,
        "in_place": request.in_place,
    }


def _text(
    results: Sequence[Diagnosis], differences: Sequence[Difference], failures: Sequence[Failure]
) -> str:
    died = {failure.source for failure in failures}
    blocks = [
        "\n".join(_lines(result, len(results) <= FEW, result.curve.source in died))
        for result in results
    ]
    parted = ("\n\n" if len(results) <= FEW else "\n").join(blocks)
    summary = [*_between(differences), *_failures(failures), _total(results, differences, failures)]
    return "\n".join([parted, *summary] if results else summary).lstrip("\n")


def _between(differences: Sequence[Difference]) -> Iterator[str]:
    if differences:
        yield "\nbetween set-ups"
        yield from (f"  abnormal: {difference.text}" for difference in differences)
        slower = Finding(FindingKind.SLOWER_SETUP, (), 1.0, "")
        yield from (f"  try: {line}" for line in advice(differences[0].slower, (slower,)))


def _failures(failures: Sequence[Failure]) -> Iterator[str]:
    if failures:
        yield "\ntests"
        yield from (
            f"  abnormal: {failure.kind}, {Path(failure.source).name}: {failure.text}"
            for failure in failures
        )
        yield from (f"  try: {line}" for line in remedies(failures))


def _total(
    results: Sequence[Diagnosis], differences: Sequence[Difference], failures: Sequence[Failure]
) -> str:
    counts = [
        f"{sum(result.abnormal for result in results)} of {output.counted(len(results), 'curve')} "
        f"abnormal"
    ]
    counts += (
        [f"{output.counted(len(differences), 'difference')} between set-ups"] if differences else []
    )
    counts += [f"{output.counted(len(failures), 'failure')} of tests"] if failures else []
    return "\n" + ", ".join(counts)


def _lines(diagnosis: Diagnosis, full: bool, died: bool) -> Iterator[str]:
    """The lines of one curve; `died`: a finding says already that its test did not end."""
    curve = diagnosis.curve
    ranks = output.counted(curve.ranks, "rank") if curve.ranks else "ranks unknown"
    kind = "" if curve.kind == COLLECTIVE else curve.kind
    about = ", ".join(
        word for word in (curve.collective, kind, ranks, curve.algorithm, curve.protocol) if word
    )
    yield f"{about}, {Path(curve.source).name}: {diagnosis.verdict}"
    yield from (
        f"  {'abnormal' if finding.alarm else 'note'}: {finding.kind}, {finding.text}"
        for finding in diagnosis.findings
    )
    if curve.unfinished and not died:
        yield f"  note: {NO_FOOTER}"
    if not full:
        return
    if curve.capped:
        yield "  note: the benchmark itself lowered its largest size for lack of memory: no fault"
    yield from (f"  {fact}" for fact in diagnosis.facts)
    yield from (f"  try: {line}" for line in diagnosis.advice)
    yield output.align(list(_table(diagnosis)))


def _table(diagnosis: Diagnosis) -> Iterator[list[str]]:
    head = ["  size", "time", "busbw" if diagnosis.curve.ranks else "algbw", "regime"]
    sure = diagnosis.expected.intervals if diagnosis.expected else ()
    heading = [f"{sure[0].level:.0%} of runs"] if sure else []
    yield [*head, *(("expected", *heading, "of it", "algorithm") if diagnosis.expected else ()), ""]
    binary = in_binary(map(float, diagnosis.columns.size))
    for row in point_records(diagnosis):
        size, time, rate = (
            float(row["size_B"] or 0),
            float(row["time_s"] or 0),
            float(row["busbw_Bps"] or 0),
        )
        cells = [
            f"  {format_bytes(size, binary)}",
            format_seconds(time),
            format_bandwidth(rate),
            str(row["regime"]),
        ]
        if diagnosis.expected:
            seconds, share = float(row["expected_s"] or 0), float(row["fraction"] or 0)
            low, high = (float(row.get(end) or 0) for end in ("low_s", "high_s"))
            ends = [span(low, high)] if sure else []
            cells += [format_seconds(seconds), *ends, f"{share:.0%}", str(row["algorithm"])]
        yield [*cells, str(row["abnormal"])]
