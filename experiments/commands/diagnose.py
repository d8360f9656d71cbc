"""`simctl diagnose`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from experiments import output
from experiments.options.completion import collective_names, completer
from experiments.options.log_options import CurvePlot, Family, InPlace, LogRanks, ranks_of
from experiments.options.machine_options import MachineOptions
from experiments.options.options import LibraryVersion, ReportOptions, argument, option
from experiments.options.profile_options import ProfileOptions
from experiments.options.values import parse_rank_count
from experiments.pages.reports.result import Result
from topologies.errors import InputError
from topologies.units import parse_bandwidth, parse_bytes

if TYPE_CHECKING:
    from experiments.diagnosis import Diagnosis, Difference
    from experiments.diagnosis.expectation import Expectation
    from experiments.diagnosis.library_expectation import LibraryExpectation
    from experiments.measurements import Curve, Failure, Measurements
    from experiments.profiles.profile_document import Calibrated
    from topologies.catalogue import Blueprint
    from topologies.topology import Topology


@dataclass(frozen=True, kw_only=True)
class Diagnose(MachineOptions, ProfileOptions, ReportOptions):
    """Say whether measured times are normal, and what to try.

    Each size is compared with what the library should give on the machine. The report has abnormal
    sizes, regimes, what limits the curve and what may be wrong. With --job it says which rank of a
    job was late. The exit code is 1 if anything is abnormal or below expectation.
    """

    EXAMPLES: ClassVar = (
        "diagnose nccl.log --topology mn5_acc --plot normal.png",
        "diagnose --topology hgx_h100:nodes=2 --size 8GiB --busbw 231GB/s",
        "diagnose --job traces/",
    )

    logs: list[Path] | None = argument(
        "[LOG...]",
        "nccl-tests, OSU, CSV or NCCL Inspector files, or folders of them; with --job traces.",
    )
    collective: str | None = option(
        "That of --busbw, like all_to_all.  [default: all_reduce]",
        autocompletion=completer(collective_names),
    )
    size: str | None = option("V of --busbw, as nccl-tests counts it, like 8GiB.")
    busbw: str | None = option("One measured bus bandwidth, like 231GB/s, instead of a LOG.")
    job: bool = option(
        "LOG are traces of all ranks of a job: Kineto's, or dumps of torch's flight "
        "recorder; or the JSON of NCCL's RAS.",
        "--job",
        default=False,
    )
    library_version: LibraryVersion = None
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

        self.written_files.check()
        if self.job:
            return self._job()
        measurements, results, differences = self._diagnosed()
        failures = measurements.failures
        output.note_skipped(measurements.skipped)
        output.note(*doubts([result.curve for result in results]))
        records = [row for result in results for row in point_records(result)]
        answer = Result(
            "diagnose",
            diagnosis_report(results, differences, failures),
            [*records, *map(failure_record, failures)],
            self.parameters,
            pictures=pictures(results),
            words=_advice(differences, failures),
        )
        answer.publish(self.written_files, self.format)
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
        from experiments.traces.ras_status import read_status

        taken = {"logs", "job", "report", "format"}
        others = self.values_of(Diagnose).keys() - taken
        self.refuse(sorted(others), ": leave one of them out", "--job and ")
        if not self.logs:
            raise InputError("--job: name the traces of its ranks, or their folder")
        words: dict[str, object] = {}
        if (status := read_status(self.logs)) is not None:
            tables: dict[str, Sequence[Any]] = dict(
                zip(("communicators", "problems"), status, strict=True)
            )
        else:
            job = JobCalls(read_job(self.logs))
            abnormal = problems(job)
            tables = {"ranks": rank_rows(job), "collectives": group_rows(job), "problems": abnormal}
            words = {"calls": len(job.calls), "seconds": job.seconds}
            words |= {} if abnormal else {"normal": normal(job)}
        report = {name: [row._asdict() for row in rows] for name, rows in tables.items()}
        wrong = report["problems"]
        answer = Result(
            "job" if status is None else "status",
            report,
            _job_records(report),
            self.parameters,
            words=words,
        )
        answer.publish(self.written_files, self.format)
        return int(bool(wrong))

    def _diagnosed(self) -> tuple[Measurements, list[Diagnosis], tuple[Difference, ...]]:
        from experiments.diagnosis import compare, diagnose
        from experiments.diagnosis.comparison import among

        measurements = self._point() if self.busbw is not None else self._read()
        curves, expected = measurements.curves, self._expectation()
        machine = self.optional_blueprint
        progress, results = output.Progress("curves"), []
        for done, curve in enumerate(curves):
            progress(done, len(curves))
            results.append(diagnose(curve, expected))
        progress(len(curves), len(curves))
        if machine is not None or self._calibrated is not None:
            self._check_expected(results)
        results = among(results)
        if self._calibrated is None:
            results = [replace(each, causes=self._library.causes(each)) for each in results]
        return measurements, results, compare(curves)

    def _check_expected(self, results: Sequence[Diagnosis]) -> None:
        """Say of which curves nothing is expected. Raises InputError if that is the number that the
        user writes."""
        for each in results:
            if each.expected is None:
                curve = each.curve
                ranks = "give --p" if curve.ranks is None else f"on {curve.ranks} ranks"
                text = f"{curve.source}: nothing is expected for {curve.collective}, {ranks}"
                if self.busbw is not None:
                    raise InputError(text)
                output.note(text)

    def _read(self) -> Measurements:
        """The curves of the logs that have points."""
        from experiments.measurements import read_all

        names = "collective", "size", "library_version"
        self.refuse(names, " goes with --busbw: write both")
        if not self.logs:
            raise InputError(
                "nothing to diagnose: name a LOG, or one number like --topology hgx_h100 --size "
                "8GiB --busbw 231GB/s"
            )
        ranks = self._ranks
        measurements = read_all(self.logs, self.family, failed=True)
        curves = tuple(_curves(measurements, ranks, self.in_place))
        if not curves and not measurements.failures:
            which = "in-place " if self.in_place else ""
            raise InputError(f"{self.logs[0]}: no {which}times in it")
        return replace(measurements, curves=curves)

    def _point(self) -> Measurements:
        """The one number that the user writes, as a curve of one point."""
        from experiments.diagnosis.library_expectation import measured_on
        from experiments.measurements import Measurements, Point
        from experiments.measurements.collectives import bus_factor

        if self.logs:
            raise InputError(f"--busbw {self.busbw} and {self.logs[0]}: leave one of them out")
        for name in ("topology", "size"):
            if getattr(self, name) is None:
                raise InputError(f"--busbw {self.busbw}: give --{name} as well")
        alone = f"--busbw {self.busbw} and "
        self.refuse(("family", "in_place"), ": leave one of them out", alone)
        machine, size = self.blueprint, parse_bytes(str(self.size))
        ranks = self._ranks or machine.whole().ranks
        library = self.library
        collective, version = self.collective or "all_reduce", self.library_version
        curve = measured_on(machine, collective, ranks, library, version)
        seconds = size * bus_factor(curve.collective, ranks) / parse_bandwidth(str(self.busbw))
        return Measurements((replace(curve, points=(Point(int(size), seconds),)),))

    @property
    def _ranks(self) -> int | None:
        return parse_rank_count(self.p) if self.p else None

    def _expectation(self) -> Expectation:
        from experiments.calibration.libraries import library
        from experiments.diagnosis import profiled
        from experiments.profiles.interval_levels import at_level
        from topologies.catalogue import find

        machine, profile = self.optional_blueprint, self._calibrated
        if profile is None:
            if machine is None and self.library is None:
                why = " goes with --topology, --library or --profile: write one of them"
                self.refuse(("level",), why)
            return self._library
        self.refuse(("library",), " and --profile: leave one of them out")
        machine = machine or find(profile.machine)
        simulation, by = at_level(profile.simulated(), self.level), f"the profile {profile.profile}"
        name = f"{profile.profile}, of {profile.machine}"
        kind = library(profile.library).on(machine)
        return profiled(simulation, kind, partial(_of_curve, machine), by, name)

    @cached_property
    def _library(self) -> LibraryExpectation:
        from experiments.diagnosis.library_expectation import LibraryExpectation
        from simulator.uncertainty.interval import LEVEL

        level = LEVEL if self.level is None else self.level
        library = self.library
        return LibraryExpectation(self.optional_blueprint, library, level)

    @cached_property
    def _calibrated(self) -> Calibrated | None:
        from experiments.profiles import find

        return None if self.profile is None else find(self.profile)

    @property
    def resolved(self) -> output.Record:
        """The machine, which may be unknown."""
        return {"placement": None} if self.topology is None else super().resolved


def _curves(measurements: Measurements, ranks: int | None, in_place: bool) -> Iterator[Curve]:
    for curve in measurements.curves:
        count = ranks_of(curve, ranks)
        points = curve.in_place if in_place else curve.points or curve.in_place
        if points:
            in_place_points = () if in_place or not curve.points else curve.in_place
            yield replace(curve, ranks=count, points=points, in_place=in_place_points)


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
    from experiments.traces.ras_status import CommunicatorRow

    status = "communicators" in report
    of_rows = CommunicatorRow._fields if status else (*RankRow._fields, *GroupRow._fields)
    columns = dict.fromkeys(("row", *of_rows, "problem", "text"))
    names = ("communicator",) if status else ("rank", "collective")
    parts = {name: report[f"{name}s"] for name in names}
    rows = [{**columns, "row": name, **row} for name, part in parts.items() for row in part]
    return rows + [
        {**columns, "row": "problem", "problem": each["kind"], "text": each["text"]}
        for each in report["problems"]
    ]
