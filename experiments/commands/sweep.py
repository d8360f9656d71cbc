"""`simctl sweep`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from experiments import output
from experiments.commands.sweep_table import columns, explanation
from experiments.simulations import workload
from experiments.simulations.ineffective_labels import ineffective_labels
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.sweep_rows import MissingPoint, SweepRow, sweep
from experiments.streaming import Column, Csv, Say, Table
from simulator.collectives import Algorithm
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.errors import InputError

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

    @property
    def points(self) -> int:
        """The number of rows."""
        return len(self.algorithms) * len(self.ranks) * len(self.sizes)

    @property
    def work(self) -> list[float]:
        """The operations of each algorithm at each number of ranks."""
        protocols = len(self.profile.protocols) if self.profile else 1
        return workload.work(self.algorithms, self.ranks, len(self.sizes) * protocols)


class Show(NamedTuple):
    """How to print the rows, and where else to put them."""

    how: str = "table"
    """table, csv or json."""
    wide: bool = False
    """Whether the table has all columns."""
    out: Path | None = None
    plot: Path | None = None
    metric: str = "time"
    """What the plot shows."""


def run(request: Request, show: Show) -> int:
    """Print the sweep, row by row; 1 if a check failed, else 2 if points were asked for that cannot
    be simulated."""
    _check_paths(show)
    _announce(request)
    progress = output.Progress("numbers of ranks simulated")
    say = _say(progress, kept=bool(show.out or show.plot))
    columns = _columns(request, show.wide)
    print_row = _printer(show.how, columns, say)
    missing, rows = list[MissingPoint](), list[SweepRow]()
    for row in _rows(request, progress, missing.append):
        rows.append(row)
        print_row(row)
    if not rows:
        raise InputError(str(missing[0]))
    for line in _ineffective(request, rows):
        output.note(line)
    _keep(request, show, rows)
    if show.how == "json":
        output.say(output.to_json([row.record() for row in rows]))
    elif show.how == "table":
        say(f"\n{explanation(rows, columns, wide=show.wide)}")
    return _verdict(rows, missing)


def _rows(
    request: Request, progress: output.Progress, missing: Callable[[MissingPoint], None]
) -> Iterator[SweepRow]:
    return sweep(
        request.algorithms,
        request.ranks,
        request.sizes,
        request.machine.build,
        request.rules,
        _timed(progress, request.work),
        missing,
        request.profile,
    )


def _ineffective(request: Request, rows: Sequence[SweepRow]) -> Iterator[str]:
    for algorithm in request.algorithms:
        ranks = dict.fromkeys(row.ranks for row in rows if row.algorithm == algorithm.name)
        yield from ineffective_labels(request.profile, [algorithm], ranks)


def _keep(request: Request, show: Show, rows: Sequence[SweepRow]) -> None:
    """Write the table and the plot."""
    if show.out:
        profile = {"profile": request.profile.name} if request.profile else {}
        provenance = output.provenance(**request.parameters, proof_seed=0, **profile)
        output.write_table(show.out, [row.record() for row in rows], provenance)
    if show.plot:
        from experiments.pictures.sweep_curves import sweep_figure

        output.write(show.plot, sweep_figure(rows, show.metric, show.plot.suffix[1:]))


def _columns(request: Request, wide: bool) -> list[Column[SweepRow]]:
    protocols = [protocol.name for protocol in request.profile.protocols] if request.profile else []
    return columns(request.algorithms, request.ranks, request.sizes, protocols=protocols, wide=wide)


def _printer(how: str, columns: Sequence[Column[SweepRow]], say: Say) -> Callable[[SweepRow], None]:
    """What prints a row as soon as it is there: json is printed at the end."""
    if how == "json":
        return lambda row: None
    if how == "csv":
        print_record = Csv(say)
        return lambda row: print_record(row.record())
    return Table(columns, say)


def _check_paths(show: Show) -> None:
    out, plot = show.out, show.plot
    output.check_writable(out)
    output.check_writable(out and output.meta_of(out))
    output.check_writable(plot, output.PICTURES)
    if out and plot and out.resolve() == plot.resolve():
        raise InputError(f"--out and --plot are both {str(out)!r}: name two files")


def _announce(request: Request) -> None:
    """Refuse what would take days, and say of what takes minutes how long."""
    operations, points = sum(request.work), output.counted(request.points, "point")
    workload.check(operations, points)
    if operations > workload.MANY:
        least = workload.duration(operations * workload.SECONDS)
        output.note(
            f"{points} with about {workload.in_words(operations)} operations: this takes {least} "
            f"or more"
        )


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


def _timed(progress: output.Progress, work: Sequence[float]) -> Callable[[int, int], None]:
    """Progress with the time left, as the work that is done tells it."""
    start, spent = monotonic(), list(accumulate(work, initial=0.0))

    def tell(done: int, total: int) -> None:
        share = spent[done] / spent[-1]
        seconds_to_go = (
            f", {workload.duration((monotonic() - start) * (1 / share - 1))} left" if share else ""
        )
        progress(done, total, seconds_to_go)

    return tell


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
        numbers = [str(number) for number in dict.fromkeys(ranks[:NAMED])]
        dots = ["..."] if len(ranks) > NAMED else []
        output.note(f"{verb} {algorithm}, {', '.join(numbers + dots)} ranks: {reason}")
    if len(reasons) > NAMED:
        output.note(f"{verb} {output.counted(len(points), 'point')} in all")
