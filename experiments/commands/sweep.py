"""`simctl sweep`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments import output
from experiments.commands.answer import Answer
from experiments.options.execution_options import ExecutionOptions
from experiments.options.options import (
    AlgorithmFiles,
    Algorithms,
    AlgorithmWord,
    CollectiveName,
    Metric,
    Out,
    ReportOptions,
    word_or_option,
)
from experiments.options.pattern_options import PatternOptions
from experiments.options.profile_options import SimulationOptions
from experiments.streaming import Column, Csv, Say, Table
from topologies.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.execution.executor import Executor
    from experiments.execution.journal import Journal
    from experiments.simulations.grid import Grid, MissingPoint
    from experiments.simulations.measured_curves import MeasuredCurve
    from experiments.simulations.sweep_rows import SweepRow
    from simulator.collectives import Algorithm

NAMED = 8
"""Reasons that are named why points have no row, and numbers of ranks of each."""


@dataclass(frozen=True, kw_only=True)
class Sweep(PatternOptions, SimulationOptions, ReportOptions, ExecutionOptions):
    """Simulate algorithms at many rank counts and sizes.

    Each time is compared with the algorithm's formula and with a lower bound. The exit code is 1 if
    a check fails. It is 2 if a point cannot be simulated; all others are still printed.
    """

    EXAMPLES: ClassVar = ("sweep --algo ring,naive --p 2..64 --size 64MiB,1GiB --out sweep.csv",)

    word: AlgorithmWord = None
    algo: Algorithms = None
    algo_file: AlgorithmFiles = None
    collective: CollectiveName = None
    p: Annotated[
        str | None,
        typer.Option(
            "--p",
            "--gpus",
            help="Numbers of ranks: 8, 2,4,8, 2..64 or 2..64:x2.  "
            "[default: all of the machine; 2..64 of a shape; with --matrix what the file says]",
        ),
    ] = None
    size: Annotated[
        str | None,
        typer.Option(
            help="V, the size as nccl-tests counts it: 64MiB,1GiB or a range 1MiB..1GiB:x4.  "
            "[default: 64MiB; with --matrix what the file says]"
        ),
    ] = None
    out: Out = None
    metric: Annotated[
        Metric | None,
        typer.Option(help="What the plot shows.  [default: busbw by size, time by ranks]"),
    ] = None
    measured: Annotated[
        Path | None, typer.Option(help="A log or CSV whose points the plot shows too.")
    ] = None
    wide: Annotated[bool, typer.Option("--wide", help="Print all columns of the table.")] = False

    @cached_property
    def _algorithms(self) -> list[Algorithm]:
        from experiments.options.values import parse_algorithms

        algo = word_or_option(self.word, self.algo)
        named = parse_algorithms(algo, self.collective, self.algo_file, self.library_choices)
        return [self.patterned(each) for each in named]

    @cached_property
    def _ranks(self) -> str:
        """The numbers of ranks as text."""
        from experiments.options.values import usual_ranks

        usual = partial(usual_ranks, self.machine, self._algorithms, "2..64")
        return self.count_text(self.p, usual)

    @cached_property
    def grid(self) -> Grid:
        """The points. Raises InputError for options that have no meaning."""
        from experiments.options.values import parse_ranks
        from experiments.simulations.grid import Grid
        from topologies.units import parse_sizes

        points = self._algorithms, parse_ranks(self._ranks), parse_sizes(self.size_text(self.size))
        return Grid(*points, self.machine.build, self.rules, self.calibration)

    @property
    def facts(self) -> dict[str, output.Value]:
        """The parameters that are stored with the result."""
        from experiments.options.values import named

        profile = {"profile": self.calibration.name} if self.calibration else {}
        return {
            **profile,
            **self.simulation_parameters,
            **named(word_or_option(self.word, self.algo), self.algo_file, self._algorithms),
            "p": self._ranks,
            "size": self.size_text(self.size),
            **self.pattern_parameters,
            "proof_seed": 0,
        }

    def records(self) -> list[output.Record]:
        """The rows, without printing them."""
        from experiments.simulations.grid import sweep

        return [row.record() for row in sweep(self.grid)]

    def run(self) -> int:
        """Print the sweep, row by row; 1 if a check failed, else 2 if points were asked for that
        cannot be simulated."""
        from experiments.execution.journal import Journal, is_complete

        self._check_paths()
        if is_complete(self.out, self.facts, self.resume):
            return 0
        measured = self._measured()
        self._announce()
        with ExitStack() as stack:
            journal = None
            if self.out:
                journal = stack.enter_context(
                    Journal(self.out, output.facts(self.facts), self.resume)
                )
            executor = stack.enter_context(closing(self.executor()))
            rows, missing = self._simulated(executor, journal)
            if rows:
                self._keep(rows, measured)
            if journal:
                journal.remove()
        if not rows:
            raise InputError(str(missing[0]))
        return _verdict(rows, missing)

    def _check_paths(self) -> None:
        output.check_different({"out": self.out, "plot": self.plot, "report": self.report})
        output.check_table(self.out, output.TABLES)
        output.check_writable(self.plot, output.PICTURES)
        output.check_writable(self.report, output.REPORTS)
        if self.metric and not (self.plot or self.report):
            raise InputError(
                f"--metric {self.metric}: only a picture shows it: give --plot or --report too"
            )

    def _measured(self) -> list[MeasuredCurve]:
        """The measured curves that the plot shows. A note names the others of the log."""
        if self.measured is None:
            return []
        if self.plot is None and self.report is None:
            raise InputError(
                f"--measured {self.measured}: only a picture shows it: give --plot too"
            )
        from experiments.simulations.measured_curves import measured_curves

        collectives = {each.collective.name: each.collective for each in self.grid.algorithms}
        points = [*collectives.values()], self.grid.ranks, self.grid.sizes
        curves, others = measured_curves(self.measured, *points)
        for other in others:
            output.note(f"--measured {self.measured}: {other} is not drawn")
        return curves

    def _announce(self) -> None:
        """Refuse what takes hours or does not fit, and say of what takes minutes how long.

        A cluster may have more memory and processes than this machine.
        """
        from experiments.simulations import workload

        if self.processes and not self.force:
            self.grid.check(self.processes)
        workload.announce(self.grid.points, len(self.grid.costs), self.processes or 1)

    def _simulated(
        self, executor: Executor, journal: Journal | None
    ) -> tuple[list[SweepRow], list[MissingPoint]]:
        """Simulate the points and print the rows as they come."""
        from experiments.commands.sweep_table import columns, explanation
        from experiments.execution.results import Countdown
        from experiments.simulations.algorithm_remarks import ineffective_labels, unmeant_sizes
        from experiments.simulations.grid import sweep

        grid, progress = self.grid, output.Progress("points simulated")
        countdown = Countdown(progress, grid.costs, journal.results if journal else ())
        say = _say(progress, kept=bool(self.out or self.plot or self.report))
        asked = grid.algorithms, grid.ranks, grid.sizes, grid.profile
        shown = columns(*asked, wide=self.wide, inexact=grid.rules.fair_tolerance > 0)
        print_row = self._printer(shown, say)
        missing: list[MissingPoint] = []
        rows: list[SweepRow] = []
        for row in sweep(grid, executor, journal, countdown, missing.append):
            rows.append(row)
            print_row(row)
        for algorithm in grid.algorithms:
            names = algorithm.listed_name
            ranks = dict.fromkeys(
                row.ranks for row in rows if row.algorithm.partition(":")[0] == names
            )
            labels = ineffective_labels(grid.profile, [algorithm], [*ranks], self.machine.build)
            for line in labels:
                output.note(line)
        for line in unmeant_sizes(grid.algorithms, grid.sizes):
            output.note(line)
        if self.format == "json" and rows:
            output.say(output.to_json([row.record() for row in rows]))
        elif self.format == "table" and rows:
            say(f"\n{explanation(rows, shown, wide=self.wide)}")
        return rows, missing

    def _printer(self, columns: Sequence[Column[SweepRow]], say: Say) -> Callable[[SweepRow], None]:
        """What prints a row as soon as it is there: json is printed at the end."""
        if self.format == "json":
            return lambda row: None
        if self.format == "csv":
            print_record = Csv(say)
            return lambda row: print_record(row.record())
        return Table(columns, say, self.machine.description)

    def _keep(self, rows: Sequence[SweepRow], measured: Sequence[MeasuredCurve]) -> None:
        """Write the table, the plot and the report."""
        metric = self.metric.value if self.metric else None
        profile = f" (profile {self.calibration.name})" if self.calibration else ""
        names = dict.fromkeys(each.collective.name for each in self.grid.algorithms)
        subject = f"{', '.join(names)} on {self.machine.text}{profile}"

        def draw() -> Figure:
            from experiments.pictures.sweep_curves import sweep_drawing

            return sweep_drawing(rows, metric, subject, measured)

        records, pictures = [row.record() for row in rows], [(f"All curves: {subject}", draw)]
        about = self.facts, self.machine, self.calibration
        Answer("sweep", records, records, *about, pictures).write(self.out, self.plot, self.report)


def _say(progress: output.Progress, kept: bool) -> Say:
    """Print a row, in place of the progress on a terminal. Where nobody reads on, files that are
    `kept` still count."""

    def say(text: str) -> None:
        progress.clear()
        if kept:
            output.is_read(text)
        else:
            output.say(text)

    return say


def _verdict(rows: Sequence[SweepRow], missing: Sequence[MissingPoint]) -> int:
    """The exit code, explained on stderr."""
    wrong = [point for point in missing if point.wrong]
    _note_missing("skipped", [point for point in missing if not point.wrong])
    _note_missing("failed", wrong)
    failed = sum(row.verdict.failed for row in rows)
    if failed:
        share = f"{failed} of {output.counted(len(rows), 'point')}"
        output.note(f"{share} failed a check: this is a bug in simctl, please report it")
    return 1 if failed else 2 if wrong else 0


def _note_missing(verb: str, points: Sequence[MissingPoint]) -> None:
    """Print a line on stderr for each algorithm and reason, with its first numbers of ranks.

    `verb` begins each line. After `NAMED` lines the last line counts all points.
    """
    reasons: dict[tuple[str, str], list[int]] = {}
    for point in points:
        reasons.setdefault((point.algorithm, point.why), []).append(point.ranks)
    for (algorithm, reason), ranks in list(reasons.items())[:NAMED]:
        numbers = [str(number) for number in dict.fromkeys(ranks)]
        dots = ["..."] if len(numbers) > NAMED else []
        output.note(f"{verb} {algorithm}, {', '.join(numbers[:NAMED] + dots)} ranks: {reason}")
    if len(reasons) > NAMED:
        output.note(f"{verb} {output.counted(len(points), 'point')} in all")
