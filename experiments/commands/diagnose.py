"""`simctl diagnose`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments import output
from experiments.options.log_options import CurvePlot, Family, InPlace, LogRanks
from experiments.options.machine_options import MachineOptions
from experiments.options.options import ProfileLevel, ProfileName, ReportOptions
from experiments.pages.reports.result import Result, check_files
from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.diagnosis import Diagnosis, Difference
    from experiments.diagnosis.expectation import Expectation
    from experiments.measurements import Curve, Failure, Measurements
    from experiments.profiles.profile_document import Calibrated
    from topologies.catalogue import Blueprint
    from topologies.topology import Topology


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
        from experiments.pages.reports.diagnosis_story import pictures

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
        for line in measurements.skipped:
            output.note(f"skipped {line}")
        for line in doubts([result.curve for result in results]):
            output.note(line)
        records = [row for result in results for row in point_records(result)]
        answer = Result(
            "diagnose",
            diagnosis_report(results, differences, failures),
            [*records, *map(failure_record, failures)],
            self._parameters(),
            pictures=pictures(results) if self.report else (),
            words=_advice(differences, failures),
        )
        answer.write(report=self.report)
        answer.show(self.format)
        return int(any(result.abnormal for result in results) or bool(differences or failures))

    def records(self) -> list[output.Record]:
        """The points, without printing them."""
        from experiments.diagnosis.diagnosis_records import point_records

        _, results, _ = self._diagnosed()
        return [record for result in results for record in point_records(result)]

    def _job(self) -> int:
        """Print what each rank of a job did, how fast each collective was, and what is abnormal; 1
        if anything is. Raises InputError for options that --job does not take."""
        from experiments.traces.job_calls import JobCalls
        from experiments.traces.job_folder import read_job
        from experiments.traces.job_tables import group_rows, normal, problems, rank_rows

        taken = {"logs", "job", "report", "format"}
        for each in fields(self):
            if each.name not in taken and getattr(self, each.name) != each.default:
                option = f"--{each.name.replace('_', '-')} {str(getattr(self, each.name))[:40]}"
                raise InputError(f"--job and {option}: leave one of them out")
        check_files(report=self.report)
        job = JobCalls(read_job(self.logs))
        ranks, groups, wrong = (
            [row._asdict() for row in rows]
            for rows in (rank_rows(job), group_rows(job), problems(job))
        )
        report = {"ranks": ranks, "collectives": groups, "problems": wrong}
        words: dict[str, object] = {"calls": len(job.calls), "seconds": job.seconds}
        words |= {} if wrong else {"normal": normal(job)}
        answer = Result(
            "job",
            report,
            _job_records(report),
            {"logs": ",".join(map(str, self.logs))},
            words=words,
        )
        answer.write(report=self.report)
        answer.show(self.format)
        return int(bool(wrong))

    def _diagnosed(self) -> tuple[Measurements, list[Diagnosis], tuple[Difference, ...]]:
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


def _advice(
    differences: Sequence[Difference], failures: Sequence[Failure]
) -> dict[str, Sequence[str]]:
    from experiments.diagnosis.advice import advice, remedies
    from experiments.diagnosis.findings import Finding, FindingKind

    slower = (Finding(FindingKind.SLOWER_SETUP, (), 1.0, ""),)
    between = advice(differences[0].slower, slower) if differences else ()
    return {"between": [*between], "tests": [*remedies(failures)] if failures else []}


def _job_records(report: Mapping[str, Sequence[output.Record]]) -> list[output.Record]:
    from experiments.traces.job_tables import GroupRow, RankRow

    columns = dict.fromkeys(("row", *RankRow._fields, *GroupRow._fields, "problem", "text"))
    parts = {"rank": report["ranks"], "collective": report["collectives"]}
    rows = [{**columns, "row": name, **row} for name, part in parts.items() for row in part]
    return rows + [
        {**columns, "row": "problem", "problem": each["kind"], "text": each["text"]}
        for each in report["problems"]
    ]
