"""`simctl sweep`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from experiments import output
from experiments.commands.answer import Answer
from experiments.commands.sweep_table import columns, explanation
from experiments.execution.choice import HERE, Execution
from experiments.execution.executor import Executor
from experiments.execution.journal import Journal, is_complete
from experiments.execution.results import Countdown
from experiments.simulations import workload
from experiments.simulations.grid import Grid, MissingPoint, sweep
from experiments.simulations.ineffective_labels import ineffective_labels
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.size_ranges import unmeant_sizes
from experiments.simulations.sweep_rows import SweepRow
from experiments.streaming import Column, Csv, Say, Table
from simulator.collectives import Algorithm, Collective
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.simulations.measured_curves import MeasuredCurve

NAMED = 8
"""Reasons that are named why points have no row, and numbers of ranks of each."""


@dataclass(frozen=True)
class Request:
    """What to simulate."""

    algorithms: Sequence[Algorithm]
    ranks: Sequence[int]
    sizes: Sequence[float]
    """In bytes."""
    machine: Blueprint
    rules: Rules = DEFAULT
    profile: Profile | None = None
    """A calibrated library, whose protocols are simulated."""
    parameters: Mapping[str, output.Value] = field(default_factory=dict)
    """The options as the user writes them: stored with the result."""

    @cached_property
    def grid(self) -> Grid:
        """The points."""
        points = self.algorithms, self.ranks, self.sizes
        return Grid(*points, self.machine.build, self.rules, self.profile)

    @property
    def facts(self) -> dict[str, output.Value]:
        """The parameters that are stored with the result."""
        profile = {"profile": self.profile.name} if self.profile else {}
        return {**profile, **self.parameters, "proof_seed": 0}


class Show(NamedTuple):
    """How to print the rows, and where else to put them."""

    how: str = "table"
    """table, csv or json."""
    wide: bool = False
    """Whether the table has all columns."""
    out: Path | None = None
    plot: Path | None = None
    metric: str | None = None
    """What the plot shows; None: what suits it."""
    measured: Path | None = None
    """A log whose points the plot shows too."""
    report: Path | None = None


def run(request: Request, show: Show, execution: Execution = HERE) -> int:
    """Print the sweep, row by row; 1 if a check failed, else 2 if points were asked for that cannot
    be simulated."""
    _check_paths(show)
    if is_complete(show.out, request.facts, execution.resume):
        return 0
    measured = _measured(request, show)
    _announce(request, execution)
    with ExitStack() as stack:
        journal = None
        if show.out:
            facts = output.facts(request.facts)
            journal = stack.enter_context(Journal(show.out, facts, execution.resume))
        executor = stack.enter_context(closing(execution.executor()))
        rows, missing = _simulated(request, show, executor, journal)
        if rows:
            _keep(request, show, rows, measured)
        if journal:
            journal.remove()
    if not rows:
        raise InputError(str(missing[0]))
    return _verdict(rows, missing)


def _simulated(
    request: Request, show: Show, executor: Executor, journal: Journal | None
) -> tuple[list[SweepRow], list[MissingPoint]]:
    """Simulate the points and print the rows as they come."""
    progress = output.Progress("points simulated")
    countdown = Countdown(progress, request.grid.costs, journal.results if journal else ())
    say = _say(progress, kept=bool(show.out or show.plot or show.report))
    inexact = request.rules.fair_tolerance > 0
    asked = request.algorithms, request.ranks, request.sizes, request.profile
    shown = columns(*asked, wide=show.wide, inexact=inexact)
    print_row = _printer(show.how, shown, say, request.machine)
    missing, rows = list[MissingPoint](), list[SweepRow]()
    for row in sweep(request.grid, executor, journal, countdown, missing.append):
        rows.append(row)
        print_row(row)
    for line in _ineffective(request, rows):
        output.note(line)
    for line in unmeant_sizes(request.algorithms, request.sizes):
        output.note(line)
    if show.how == "json" and rows:
        output.say(output.to_json([row.record() for row in rows]))
    elif show.how == "table" and rows:
        say(f"\n{explanation(rows, shown, wide=show.wide)}")
    return rows, missing


def _ineffective(request: Request, rows: Sequence[SweepRow]) -> Iterator[str]:
    for algorithm in request.algorithms:
        ranks = dict.fromkeys(row.ranks for row in rows if _listed(row) == algorithm.listed_name)
        build = request.machine.build
        yield from ineffective_labels(request.profile, [algorithm], [*ranks], build)


def _listed(row: SweepRow) -> str:
    return row.algorithm.partition(":")[0]


def _keep(
    request: Request, show: Show, rows: Sequence[SweepRow], measured: Sequence[MeasuredCurve]
) -> None:
    """Write the table, the plot and the report."""
    subject = _subject(request)

    def draw() -> Figure:
        from experiments.pictures.sweep_curves import sweep_drawing

        return sweep_drawing(rows, show.metric, subject, measured)

    records, pictures = [row.record() for row in rows], [(f"All curves: {subject}", draw)]
    about = request.facts, request.machine, request.profile
    Answer("sweep", records, records, *about, pictures).write(show.out, show.plot, show.report)


def _subject(request: Request) -> str:
    """Collective and machine, for the title of a picture."""
    profile = f" (profile {request.profile.name})" if request.profile else ""
    return f"{', '.join(_collectives(request))} on {request.machine.text}{profile}"


def _collectives(request: Request) -> dict[str, Collective]:
    return {algorithm.collective.name: algorithm.collective for algorithm in request.algorithms}


def _measured(request: Request, show: Show) -> list[MeasuredCurve]:
    """The measured curves that the plot shows. A note names the others of the log."""
    if show.measured is None:
        return []
    if show.plot is None and show.report is None:
        raise InputError(f"--measured {show.measured}: only a picture shows it: give --plot too")
    from experiments.simulations.measured_curves import measured_curves

    collectives = list(_collectives(request).values())
    curves, others = measured_curves(show.measured, collectives, request.ranks, request.sizes)
    for other in others:
        output.note(f"--measured {show.measured}: {other} is not drawn")
    return curves


def _printer(
    how: str, columns: Sequence[Column[SweepRow]], say: Say, machine: Blueprint
) -> Callable[[SweepRow], None]:
    """What prints a row as soon as it is there: json is printed at the end."""
    if how == "json":
        return lambda row: None
    if how == "csv":
        print_record = Csv(say)
        return lambda row: print_record(row.record())
    return Table(columns, say, machine.description)


def _check_paths(show: Show) -> None:
    out, plot = show.out, show.plot
    output.check_different({"out": out, "plot": plot, "report": show.report})
    output.check_table(out, output.TABLES)
    output.check_writable(plot, output.PICTURES)
    output.check_writable(show.report, output.REPORTS)
    if show.metric and not (plot or show.report):
        raise InputError(
            f"--metric {show.metric}: only a picture shows it: give --plot or --report too"
        )


def _announce(request: Request, execution: Execution) -> None:
    """Refuse what takes hours or does not fit, and say of what takes minutes how long.

    A cluster may have more memory and processes than this machine.
    """
    grid = request.grid
    if execution.dask is None and not request.rules.force:
        grid.check(execution.jobs)
    workload.announce(grid.points, len(grid.costs), execution.jobs)


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
