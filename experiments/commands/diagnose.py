"""`simctl diagnose`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments import output
from experiments.commands.answer import Answer, check_files
from experiments.options.log_options import CurvePlot, Family, InPlace, LogRanks
from experiments.options.machine_options import MachineOptions
from experiments.options.options import ProfileLevel, ProfileName, ReportOptions
from experiments.templates import render
from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.diagnosis import Diagnosis, Difference
    from experiments.diagnosis.expectation import Expectation
    from experiments.measurements import Curve, Failure, Measurements
    from experiments.profiles.profile_document import Calibrated
    from topologies.catalogue import Blueprint
    from topologies.topology import Topology

FEW = 4
"""Curves up to which every size is printed; of more, only what was found."""


@dataclass(frozen=True, kw_only=True)
class Diagnose(MachineOptions, ReportOptions):
    """Say whether a measured curve is normal, and what to try.

    The report has regimes, abnormal sizes and what limits the curve. With --job it says which rank
    of a job was late, what communication was hidden, and the bus bandwidth of each size. The exit
    code is 1 if anything is abnormal.
    """

    EXAMPLES: ClassVar = (
        "diagnose nccl.log --topology mn5_acc --plot normal.png",
        "diagnose --job traces/",
    )

    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG",
            help="nccl-tests, OSU or CSV files, or folders of them; with --job traces.",
        ),
    ]
    job: Annotated[
        bool,
        typer.Option(
            "--job",
            help="LOG are traces of all ranks of a job: Kineto's, or dumps of torch's flight "
            "recorder.",
        ),
    ] = False
    profile: ProfileName = None
    level: ProfileLevel = None
    family: Family = None
    p: LogRanks = None
    in_place: InPlace = False
    plot: CurvePlot = None

    def run(self) -> int:
        """Print what is found in each curve and between them; 1 if anything is abnormal."""
        from experiments.diagnosis.diagnosis_records import (
            diagnosis_report,
            failure_record,
            point_records,
        )
        from experiments.measurements import doubts

        if self.job:
            return self._job()
        check_files(plot=self.plot, report=self.report)
        measurements, results, differences = self._diagnosed()
        failures = measurements.failures
        if self.plot:
            from experiments.pictures.figure_file import write_figures
            from experiments.pictures.result_curves import diagnosis_drawing

            names = (str(number) for number in range(1, len(results) + 1))
            drawings = [partial(diagnosis_drawing, result) for result in results]
            write_figures(self.plot, dict(zip(names, drawings, strict=True)))
        report = diagnosis_report(results, differences, failures)
        if self.report:
            from experiments.pages.reports.log_results import diagnosed
            from experiments.pages.reports.report_file import write

            write(self.report, diagnosed(report, results, self._parameters()))
        for line in measurements.skipped:
            output.note(f"skipped {line}")
        for line in doubts([result.curve for result in results]):
            output.note(line)
        records = [row for result in results for row in point_records(result)]
        answer = Answer("diagnose", report, [*records, *map(failure_record, failures)])
        answer.show(self.format, lambda: _text(results, differences, failures))
        return int(any(result.abnormal for result in results) or bool(differences or failures))

    def records(self) -> list[output.Record]:
        """The points, without printing them."""
        from experiments.diagnosis.diagnosis_records import point_records

        _, results, _ = self._diagnosed()
        return [record for result in results for record in point_records(result)]

    def _job(self) -> int:
        """Print who was late in a job. Raises InputError for options that --job does not take."""
        from experiments.commands import diagnose_job

        taken = {"logs", "job", "report", "format"}
        for each in fields(self):
            if each.name not in taken and getattr(self, each.name) != each.default:
                option = f"--{each.name.replace('_', '-')} {str(getattr(self, each.name))[:40]}"
                raise InputError(f"--job and {option}: leave one of them out")
        return diagnose_job.run(self.logs, self.format, self.report)

    def _diagnosed(self) -> tuple[Measurements, list[Diagnosis], tuple[Difference, ...]]:
        """What the logs contain, what is found in each curve, and between them."""
        from experiments.diagnosis import compare, diagnose
        from experiments.diagnosis.comparison import among
        from experiments.measurements import read_all
        from experiments.options.values import parse_rank_count

        if self.level is not None and self.profile is None:
            raise InputError(f"--level {self.level:g} goes with --profile: write both")
        expected, ranks = self._expectation(), parse_rank_count(self.p) if self.p else None
        measurements = read_all(self.logs, self.family, failed=True)
        curves = list(_curves(measurements, ranks, self.in_place))
        if not curves and not measurements.failures:
            which = "in-place " if self.in_place else ""
            raise InputError(f"{self.logs[0]}: no {which}times in it")
        progress, results = output.Progress("curves"), []
        for done, curve in enumerate(curves):
            progress(done, len(curves))
            results.append(diagnose(curve, expected))
        progress(len(curves), len(curves))
        return measurements, among(results), compare(curves)

    def _expectation(self) -> Expectation | None:
        from experiments.calibration.libraries import library
        from experiments.diagnosis import simulated
        from experiments.diagnosis.expectation import profiled
        from topologies.catalogue import find

        machine, profile = self.optional_blueprint, self._calibrated
        if profile is None:
            return simulated(partial(_of_curve, machine)) if machine else None
        known = machine or find(profile.machine)
        kind = library(profile.library).on(known)
        return profiled(profile, kind, partial(_of_curve, known), self.level)

    @cached_property
    def _calibrated(self) -> Calibrated | None:
        from experiments.profiles import find

        return None if self.profile is None else find(self.profile)

    def _parameters(self) -> dict[str, output.Value]:
        machine = self.optional_blueprint
        return {
            "logs": ",".join(map(str, self.logs)),
            "topology": machine.text if machine else None,
            "profile": self._calibrated.profile if self._calibrated else None,
            "family": self.family,
            "in_place": self.in_place,
        }


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


def _of_curve(machine: Blueprint, curve: Curve) -> Callable[[int, int], Topology]:
    return machine.for_job(curve.ranks or 0, curve.nodes or 0).build


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
    from experiments.diagnosis.advice import advice
    from experiments.diagnosis.findings import Finding, FindingKind

    if differences:
        yield "\nbetween set-ups"
        yield from (f"  abnormal: {difference.text}" for difference in differences)
        slower = Finding(FindingKind.SLOWER_SETUP, (), 1.0, "")
        yield from (f"  try: {line}" for line in advice(differences[0].slower, (slower,)))


def _failures(failures: Sequence[Failure]) -> Iterator[str]:
    from experiments.diagnosis.advice import remedies

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
    from experiments.diagnosis.diagnosis_records import point_columns, point_records
    from experiments.measurements.curve import COLLECTIVE, NO_FOOTER

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
    sure = diagnosis.expected.intervals if diagnosis.expected else ()
    yield render(list(point_records(diagnosis)), point_columns(curve.ranks))
    if sure:
        yield f"  interval: of {sure[0].level:.0%} of runs"
