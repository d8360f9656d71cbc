"""`simctl validate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import isclose, isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from experiments import output
from experiments.options.completion import algorithm_names, algorithm_options, completer
from experiments.options.log_options import JudgingOptions, LogRanks, ranks_of
from experiments.options.machine_options import library_of
from experiments.options.options import AlgorithmFile, option
from experiments.options.profile_options import SimulationOptions
from experiments.options.values import parse_algorithm, parse_rank_count
from experiments.pages.reports.result import Picture, Result
from topologies.errors import InputError
from topologies.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from experiments.measurements import Curve
    from experiments.simulations.validation import ComparedPoint, Validation
    from simulator.collectives import Algorithm
    from topologies.topology import Topology


@dataclass(frozen=True, kw_only=True)
class Validate(JudgingOptions, SimulationOptions):
    """Compare measured logs with the simulation.

    With --fit, the errors at the sizes that the fit has not seen are printed separately. With
    --profile or --library, each time has an interval, and the last lines say where your machine
    stands among measured machines. With --held-out a profile is judged by the runs as a whole, and
    the same kind of model is fitted to a part of them and compared with the other part.
    """

    EXAMPLES: ClassVar = (
        "validate nccl.log --fit --plot fit.png",
        "validate runs.csv --profile mine.yaml --held-out --tolerance 0.15",
    )

    algo: str | None = option(
        "The algorithm to simulate. [default: by collective]",
        autocompletion=completer(algorithm_names, algorithm_options),
    )
    algo_file: AlgorithmFile = None
    fit: bool = option(
        "Fit α and β on every other size; judge on the others.", "--fit", default=False
    )
    p: LogRanks = None

    def run(self) -> int:
        """Print every curve beside its simulation, or the errors of the profile on all."""
        from experiments.commands import judged_runs
        from experiments.measurements import read_all
        from experiments.measurements.curve_checks import chosen_curves

        self._check()
        self.written_files.check()
        if self.held_out:
            return judged_runs.run(self)
        measurements = read_all(self.logs, self.family)
        curves = chosen_curves(measurements.curves, self.only, self.forced)
        results = [self._validated(*pair) for pair in self._pairs(curves)]
        if not results:
            raise InputError(f"{str(self.logs[0])!r}: {_no_curve(self._algorithm)}")
        pictures = [
            Picture(f"Measured and predicted: {each.title}", (each,), f"{number}-{each.collective}")
            for number, each in enumerate(results, 1)
        ]
        answer = self._answer(results, pictures)
        output.note_skipped(measurements.skipped)
        answer.publish(self.written_files, self.format)
        return 0

    def _check(self) -> None:
        """Raise InputError for options that do not go with each other."""
        wrong: tuple[str, ...] = ("tolerance", "compare")
        if self.held_out:
            wrong = (*(self.values_of(Validate).keys() - self.values_of(JudgingOptions).keys()),)
        why = " and --held-out: leave one of them out"
        self.refuse(sorted(wrong), why if self.held_out else ": it goes with --held-out")
        if not self.fit:
            return
        names = "profile", "library", "level", "bandwidth", "latency"
        self.refuse(names, ": --fit finds α and β itself, leave one of them out")
        self.refuse(("sharing",), ": --fit shares links by fifo, leave one of them out")
        if self.machine.kind != "shape":
            raise InputError(
                f"--fit finds one α and β for all links, {self.machine.text} has its own: take a "
                f"shape, or no --fit"
            )

    @cached_property
    def _algorithm(self) -> Algorithm | None:
        """None: the first algorithm of each curve's collective."""
        return parse_algorithm(self.algo, self.algo_file) if self.algo or self.algo_file else None

    @property
    def resolved(self) -> output.Record:
        """The machine. Its links are fitted, or those that it is declared with."""
        unused = dict.fromkeys(("placement", "sharing", "engine", "symmetry"))
        return unused if self.held_out else {"topology": self.machine.text}

    def _validated(self, curve: Curve, algorithms: Sequence[Algorithm]) -> Validation:
        from experiments.simulations.validation import validate, validate_under

        ranks = ranks_of(curve, parse_rank_count(self.p) if self.p else None)
        if ranks is None:
            raise InputError(f"{curve.source}: it does not say how many ranks took part: give --p")

        def build(
            ranks: int, servers: int, latency: float | None, bandwidth: float | None
        ) -> Topology:
            return self.machine.with_links(bandwidth, latency).build(ranks, servers)

        if self.calibration is not None:
            servers = max(each.servers for each in algorithms)
            machine = self.machine.for_job(ranks, curve.nodes or 0).build(ranks, servers)
            return validate_under(
                self.calibration,
                curve,
                self._may_have_run(curve, machine) or algorithms,
                ranks,
                machine,
                in_place=self.in_place,
                rules=self.rules,
            )
        return validate(
            curve,
            algorithms[0],
            ranks,
            build,
            fit=self.fit,
            in_place=self.in_place,
            rules=self.rules,
        )

    def _pairs(self, curves: Sequence[Curve]) -> Iterator[tuple[Curve, Sequence[Algorithm]]]:
        """Each curve with the algorithms that may have run; the others are named."""
        chosen = self._algorithm
        for curve in curves:
            name = Path(curve.source).name
            algorithms = [chosen] if chosen else _declared(curve.pattern)[:1]
            if not algorithms:
                output.note(
                    f"skipped {curve.collective} of {name}: no algorithm for it, choose one with "
                    f"--algo"
                )
            elif curve.collective not in (algorithms[0].collective.name, "unknown") and (
                curve.pattern != algorithms[0].collective.name
            ):
                output.note(
                    f"skipped {curve.collective} of {name}: {algorithms[0].name} is "
                    f"{algorithms[0].collective.name}"
                )
            else:
                yield curve, algorithms

    def _may_have_run(self, curve: Curve, machine: Topology) -> list[Algorithm]:
        """The algorithm that the curve is labelled with, or those that the library chooses from.
        None if the user chose, or nothing is known of the library."""
        known = library_of(self.profile, self.library)
        if self._algorithm is not None or known is None:
            return []
        library = known.on(self.machine)
        names = library.algorithms_on(machine, curve.pattern, curve.algorithm)
        return [each for each in _declared(curve.pattern) if each.name in names]

    def _answer(self, results: list[Validation], pictures: Sequence[Picture]) -> Result:
        report = list(map(_record, results))
        records = [row for result in results for row in _rows(result)]
        machine = None if self.fit else self.machine
        words: dict[str, object] = {"standing": self._standing(results)}
        if self.fit:
            words |= {result.title: self._links(result) for result in results}
        about = self.parameters, machine, self.calibration, pictures
        return Result("validate", report, records, *about, words=words)

    def _links(self, result: Validation) -> str:
        """The options of the links that were fitted; empty if the bandwidth is unknown."""
        assert result.fit is not None
        if not isfinite(result.fit.bandwidth):
            return ""
        gap, machine = self.machine.options.get("gap"), self.machine.text
        bandwidth, latency = format_bandwidth(result.fit.bandwidth), result.fit.latency
        links = f"--bandwidth {bandwidth} --latency {format_seconds(latency)}"
        if isinstance(gap, float) and gap and "gap=" not in machine:
            links += f" --gap {format_seconds(gap)}"
        return links

    def _standing(self, results: Sequence[Validation]) -> list[str]:
        """Where the machine stands among measured machines."""
        import numpy as np

        from experiments.calibration.standing import calibrated, standing, unmeasured
        from experiments.profiles.interval_levels import level_of
        from simulator.uncertainty.interval import LEVEL

        known = library_of(self.profile, self.library)
        if known is None or self.format != "table":
            return []
        points = [point for result in results for point in result.points if not point.wrong]
        errors = [
            abs(log((point.expected_s or point.predicted_s) / point.measured_s)) for point in points
        ]
        inside = [point.inside for point in points if point.inside is not None]
        try:
            others = calibrated() if self.profile else unmeasured(known.name)
        except InputError as nothing:
            output.note(f"{nothing}: there are no results to compare yours with")
            return []
        share = (
            sum(inside) / len(inside)
            if inside and isclose(level_of(self.calibration), LEVEL)
            else None
        )
        return [*standing(others, np.array(errors), share)] if errors else []


def _no_curve(chosen: Algorithm | None) -> str:
    if chosen is None:
        return "no curve to simulate: choose an algorithm for it with --algo"
    return (
        f"no curve to simulate by {chosen.name}, which is {chosen.collective.name}: choose another "
        f"algorithm, or leave out --algo"
    )


def _declared(collective: str) -> list[Algorithm]:
    from simulator.collectives import algorithms

    return [each for each in algorithms().values() if each.collective.name == collective]


def _record(result: Validation) -> dict[str, object]:
    fit = result.fit._asdict() if result.fit else None
    points = {"points": list(map(_fields, result.points))}
    record = asdict(replace(result, fit=None, points=()))
    return record | points | {"fit": fit, "mean_abs_error": _means(result)}


def _fields(point: ComparedPoint) -> output.Record:
    """The fields that a point has, and whether it is inside its interval."""
    fields = {name: value for name, value in asdict(point).items() if value is not None}
    return fields if point.inside is None else fields | {"inside": point.inside}


def _means(result: Validation) -> dict[str, float | None]:
    errors = {name: result.errors(fitted) for name, fitted in (("fitted", True), ("unseen", False))}
    return {name: float(values.mean()) if len(values) else None for name, values in errors.items()}


def _rows(result: Validation) -> list[output.Record]:
    about: output.Record = {
        "title": result.title,
        "algorithm": result.algorithm,
        "ranks": result.ranks,
    }
    return [{**about, **_fields(point)} for point in result.points]
