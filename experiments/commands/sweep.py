"""`simctl sweep`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from experiments import output
from experiments.answer_blocks import Record, Say, StreamedTable
from experiments.options.completion import complete_algorithms
from experiments.options.options import CollectiveName, ReportOptions, option
from experiments.options.pattern_options import PatternOptions
from experiments.options.profile_options import SimulationOptions
from experiments.options.run_options import ExecutionOptions
from experiments.options.values import names_of, parse_algorithms, parse_ranks, usual_ranks
from experiments.pages.reports.result import Picture, Result
from experiments.templates import Column, Columns
from experiments.terms import footnote
from experiments.text_lines import narrowed, wrapped
from topologies.errors import InputError
from topologies.units import format_bytes, in_binary, parse_sizes

if TYPE_CHECKING:
    from experiments.execution.executor import Executor
    from experiments.execution.journal import Journal
    from experiments.simulations.grid import Grid, MissingPoint
    from experiments.simulations.measured_curves import MeasuredCurve
    from experiments.simulations.sweep_rows import SweepRow
    from simulator.collectives import Algorithm

NAMED = 8
"""Reasons that are named why points have no row, and numbers of ranks of each."""
STEPS = 9999
"""The most steps that a column has place for before it gets wider."""


@dataclass(frozen=True, kw_only=True)
class Sweep(PatternOptions, SimulationOptions, ReportOptions, ExecutionOptions):
    """Simulate algorithms at many rank counts and sizes.

    Each time is compared with the algorithm's formula and with a lower bound. The exit code is 1 if
    a check fails. It is 2 if a point cannot be simulated; all others are still printed.
    """

    EXAMPLES: ClassVar = ("sweep --algo ring,naive --p 2..64 --size 64MiB,1GiB --out sweep.csv",)

    algo: str | None = option(
        "Algorithms, comma-separated: see `simctl list algos`.  [default: ring; with a "
        "library what that takes]",
        word="[ALGO]",
        autocompletion=complete_algorithms,
    )
    algo_file: list[str] | None = option(
        "An algorithm in a file: FILE.py[:NAME], or .xml, .json, .goal of other tools. May be "
        "repeated.",
    )
    collective: CollectiveName = None
    p: str | None = option(
        "Numbers of ranks: 8, 2,4,8, 2..64 or 2..64:x2.  "
        "[default: all of the machine; 2..64 of a shape; with --matrix what the file says]",
        "--p",
        "--gpus",
    )
    size: str | None = option(
        "V, the size as nccl-tests counts it: 64MiB,1GiB or a range 1MiB..1GiB:x4.  "
        "[default: 64MiB; with --matrix what the file says]"
    )
    out: Path | None = option(
        "Write the table as FILE.csv or .parquet, and a second file that says how it was made.",
        writable=True,
    )
    metric: Literal["time", "busbw", "efficiency"] | None = option(
        "What the plot shows.  [default: busbw by size, time by ranks]", stored=False
    )
    measured: Path | None = option("A log or CSV whose points the plot shows too.", stored=False)
    format: Literal["table", "wide", "csv", "json"] = option(
        "Format of the output on stdout; wide has all columns.", default="table", stored=False
    )  # type: ignore[assignment]

    @cached_property
    def _algorithms(self) -> list[Algorithm]:
        named = parse_algorithms(self.algo, self.collective, self.algo_file, self.library_choices)
        return [self.patterned(each) for each in named]

    @cached_property
    def _ranks(self) -> str:
        usual = partial(usual_ranks, self.machine, self._algorithms, "2..64")
        return self.count_text(self.p, usual)

    @cached_property
    def grid(self) -> Grid:
        """The points. Raises InputError for options that have no meaning."""
        from experiments.simulations.grid import Grid

        points = self._algorithms, parse_ranks(self._ranks), parse_sizes(self.size_text(self.size))
        return Grid(*points, self.machine.build, self.rules, self.calibration)

    @property
    def resolved(self) -> output.Record:
        """The machine, algorithms and points that are simulated."""
        algorithms = self.algo or names_of(*self._algorithms)
        points = {"algo": algorithms, "p": self._ranks, "size": self.size_text(self.size)}
        return {**super().resolved, **points}

    def records(self) -> list[output.Record]:
        """The rows, without printing them."""
        from experiments.simulations.grid import sweep

        return [row.record() for row in sweep(self.grid)]

    def run(self) -> int:
        """Print the sweep, row by row; 1 if a check failed, else 2 if points were asked for that
        cannot be simulated."""
        from experiments.execution.journal import is_complete

        self._check_paths()
        if is_complete(self.out, self.parameters, self.resume):
            return 0
        measured = self._measured()
        self._announce()
        with self.execution(self.out, self.parameters) as (executor, journal):
            rows, missing = self._simulated(executor, journal)
            if rows:
                result = self._result(rows, measured)
                self._explain(result)
                result.write(self.written_files)
        if not rows:
            raise InputError(str(missing[0]))
        return _verdict(rows, missing)

    def _check_paths(self) -> None:
        self.written_files.check(output.TABLES)
        if not (self.plot or self.report):
            why = ": only a picture shows it: give --plot or --report too"
            self.refuse(("metric", "measured"), why)

    def _measured(self) -> list[MeasuredCurve]:
        """The measured curves that the plot shows. A note names the others of the log."""
        if self.measured is None:
            return []
        from experiments.simulations.measured_curves import measured_curves

        collectives = {each.collective.name: each.collective for each in self.grid.algorithms}
        points = [*collectives.values()], self.grid.ranks, self.grid.sizes
        curves, others = measured_curves(self.measured, *points)
        output.note(*(f"--measured {self.measured}: {other} is not drawn" for other in others))
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
        self, executor: Executor | None, journal: Journal | None
    ) -> tuple[list[SweepRow], list[MissingPoint]]:
        from experiments.execution.journal import Countdown
        from experiments.simulations.algorithm_remarks import ineffective_labels, unmeant_sizes
        from experiments.simulations.grid import sweep

        grid, progress = self.grid, output.Progress("points simulated")
        countdown = Countdown(progress, grid.costs, journal.results if journal else ())
        print_row = self._printer(self._say(progress))
        missing: list[MissingPoint] = []
        rows: list[SweepRow] = []
        for row in sweep(grid, executor, journal, countdown, missing.append):
            rows.append(row)
            print_row(row.record())
        progress.clear()
        for algorithm in grid.algorithms:
            names = algorithm.listed_name
            ranks = dict.fromkeys(
                row.ranks for row in rows if row.algorithm.partition(":")[0] == names
            )
            labels = ineffective_labels(grid.profile, [algorithm], [*ranks], self.machine.build)
            output.note(*labels)
        output.note(*unmeant_sizes(grid.algorithms, grid.sizes))
        return rows, missing

    def _say(self, progress: output.Progress | None = None) -> Say:
        """Print a row, in place of the progress on a terminal. Where nobody reads on, files still
        count."""
        kept = bool(self.out or self.plot or self.report)

        def say(text: str) -> None:
            if progress:
                progress.clear()
            if kept:
                output.is_read(text)
            else:
                output.say(text)

        return say

    def _printer(self, say: Say) -> Callable[[Record], None]:
        """What prints a row as soon as it is there: json is printed at the end."""
        if self.format == "json":
            return lambda row: None
        if self.format == "csv":
            heads = iter([True])
            return lambda row: say(
                output.to_csv([row], headed=next(heads, False)).removesuffix("\n")
            )
        from experiments.pages.reports.sweep_story import shown

        is_wide, columns = self.format == "wide", self._columns
        table = StreamedTable(columns, self._widths(columns), say, self.machine.description)
        return lambda row: table({**shown(row), **({"verdict": row["verdict"]} if is_wide else {})})

    @cached_property
    def _columns(self) -> Columns:
        """The columns that the terminal has place for."""
        from experiments.simulations.sweep_rows import COLUMNS, RARE, WIDE

        profile, is_wide = self.grid.profile, self.format == "wide"
        absent = [] if self.grid.rules.fair_tolerance else ["off by"]
        absent += [] if profile and profile.uncertainty else ["expected", "interval", "unsure"]
        absent += [] if profile and profile.protocols else ["protocol"]
        columns = {
            heading: column
            for heading, column in (WIDE if is_wide else COLUMNS).items()
            if heading not in absent
        }
        widths = self._widths(columns)
        shown = [*columns] if is_wide else narrowed(widths, RARE, 100)
        binary = in_binary(self.grid.sizes)
        sure = profile and profile.uncertainty
        level = f"{sure.level:.0%} of runs" if sure else ""
        known = {name: _in_unit(column, binary) for name, column in columns.items()}
        return {level if name == "interval" else name: known[name] for name in shown}

    def _widths(self, columns: Columns) -> dict[str, int]:
        """Characters of the widest cells to come, as far as they are known."""
        grid = self.grid
        names = {name for each in grid.algorithms for name in each.by_library or (each.name,)}
        if grid.profile is not None:
            names |= {grid.profile.divided(name, size) for name in names for size in grid.sizes}
        texts = {
            "algorithm": [*names],
            "p": [str(max(grid.ranks))],
            "size": [format_bytes(size, in_binary(grid.sizes)) for size in grid.sizes],
            "verdict": ["not claimed"],
            "bound": [f"cut of {max(grid.ranks) // 2} of {max(grid.ranks)} ranks"],
            "steps": [str(STEPS)],
            **{name: ["999.9ms - 999.9ms"] for name in columns if name.endswith("of runs")},
            "protocol": [each.name for each in grid.profile.protocols] if grid.profile else [],
            **{heading: ["999.9ms"] for heading in ("time", "formula", "expected", "off by")},
            **{heading: ["999.9GB/s"] for heading in ("busbw", "algbw")},
        }
        return {heading: max(map(len, [heading, *texts.get(heading, [])])) for heading in columns}

    def _explain(self, result: Result) -> None:
        """Print json, or what the words of the table mean and what no time includes."""
        if self.format == "json":
            output.say(output.to_json(result.report))
        elif self.format != "csv":
            more = ["expected"] if "expected" in self._columns else []
            terms = [
                *more,
                "V",
                *(
                    each
                    for each in ("off by", "of bound", "busbw", "redundant")
                    if each in self._columns
                ),
            ]
            words = {str(row["verdict"]).partition(":")[0] for row in result.report}
            terms += [word for word in ("not claimed", "FAIL") if word in words]
            terms += ["--format wide"] * (self.format == "table")
            lines = f"\n{footnote(terms)}\n\n{result.text('')}".rstrip().split("\n")
            self._say()("\n".join(part for line in lines for part in wrapped(line, 100)))

    def _result(self, rows: Sequence[SweepRow], measured: Sequence[MeasuredCurve]) -> Result:
        profile = f" (profile {self.calibration.name})" if self.calibration else ""
        names = dict.fromkeys(each.collective.name for each in self.grid.algorithms)
        subject = f"{', '.join(names)} on {self.machine.text}{profile}"
        records = [row.record() for row in rows]
        pictures = [Picture(f"All curves: {subject}", (rows, self.metric, subject, measured))]
        about = self.parameters, self.machine, self.calibration
        return Result("sweep", records, records, *about, pictures)


def _in_unit(column: Column, binary: bool) -> Column:
    """The column, if of bytes, in a unit of the same family as the sizes."""
    if not (isinstance(column, str) and column.endswith("_B")):
        return column
    field = column

    def text(row: Record) -> str:
        return "-" if row[field] is None else format_bytes(row[field], binary)

    return text


def _verdict(rows: Sequence[SweepRow], missing: Sequence[MissingPoint]) -> int:
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
