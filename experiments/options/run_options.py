"""The options of where runs are simulated, and of what is written of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.answer_files import NO_TRANSFERS, TraceChoice
from experiments.options.options import Options, ReportOptions, RunTimeline, option
from experiments.options.profile_options import SimulationOptions
from experiments.output import Record, facts
from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.execution.executor import Executor
    from experiments.execution.journal import Journal

MOST_JOBS = 1024


@dataclass(frozen=True)
class ExecutionOptions(Options):
    """Where points run, as the user writes it."""

    jobs: str = option(
        "The number of processes that simulate points; or a Dask cluster: tcp://host:8786 or "
        "a scheduler file.",
        default="1",
        stored=False,
    )
    resume: bool = option(
        "Go on with an interrupted run of the same --out.",
        "--resume",
        default=False,
        stored=False,
    )

    @property
    def processes(self) -> int:
        """The processes of this machine; 0 if a cluster runs the points. Raises InputError for too
        few or too many."""
        if not re.fullmatch(r"-?\d+", self.jobs, re.ASCII):
            return 0
        number = int(self.jobs[:40])
        if not 1 <= number <= MOST_JOBS:
            raise InputError(f"--jobs {self.jobs[:40]}: expected 1 to {MOST_JOBS} processes")
        return number

    @property
    def are_usual(self) -> bool:
        """Whether this process alone runs all points, from the start."""
        return self.processes == 1 and not self.resume

    @contextmanager
    def execution(
        self, out: Path | None, parameters: Record
    ) -> Iterator[tuple[Executor | None, Journal | None]]:
        """What runs the points, if not this process, and the journal of the file to come, which is
        removed when all is done. Raises InputError if a cluster cannot run them."""
        from experiments.execution.journal import Journal

        with ExitStack() as stack:
            journal = None
            if out:
                journal = stack.enter_context(Journal(out, facts(parameters), self.resume))
            executor: Executor | None = None
            if self.processes > 1:
                from experiments.execution.process_pool import Processes

                executor = stack.enter_context(closing(Processes(self.processes)))
            elif not self.processes:
                from experiments.execution.dask_cluster import DaskCluster

                executor = stack.enter_context(closing(DaskCluster(self.jobs)))
            yield executor, journal
            if journal:
                journal.remove()


_RANKS = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", re.ASCII)
MOST = 2**20


def parse_rank_list(option: str, text: str) -> tuple[int, ...]:
    """The ranks of "0-7,9" or "0-14:2" in their order. Raises InputError, which names the option.

    >>> parse_rank_list("--ranks", "0-6:2,7")
    (0, 2, 4, 6, 7)
    """
    ranks: list[int] = []
    for part in text.split(","):
        match = _RANKS.fullmatch(part.strip())
        if match is None:
            raise InputError(
                f"{option}: {part[:40]!r} is no rank or range: write 0-7, 0-14:2 or 0,8"
            )
        first, last, step = (None if number is None else int(number) for number in match.groups())
        assert first is not None
        last = first if last is None else last
        if last < first:
            raise InputError(f"{option}: {part!r} runs backwards: write {last}-{first}")
        if step == 0 or last > MOST:
            raise InputError(f"{option}: {part!r}: ranks are at most {MOST}, a step is 1 or more")
        ranks += range(first, last + 1, step or 1)
    return tuple(ranks)


@dataclass(frozen=True)
class TraceOptions(Options):
    """What a trace has, as the user writes it."""

    ranks: str | None = option(
        "With a trace as --timeline: only these ranks, like 0-7,9 or 0,8. transfers=no: a "
        "Chrome trace without transfers.  [default: all]",
        hidden=True,
        stored=False,
    )

    @property
    def choice(self) -> TraceChoice:
        """The values of the options. Raises InputError."""
        parts = (self.ranks or "").split(",")
        ranks = ",".join(part for part in parts if part != NO_TRANSFERS)
        chosen = tuple(sorted({*parse_rank_list("--ranks", ranks)})) if ranks else None
        return TraceChoice(chosen, NO_TRANSFERS not in parts, ranks)


@dataclass(frozen=True, kw_only=True)
class JobOptions(SimulationOptions, TraceOptions, ReportOptions, ExecutionOptions):
    """Where a training job runs, and what is written of it."""

    timeline: RunTimeline = None
    out: Path | None = option(
        "Write the table as FILE.csv or .parquet, and a second file that says how it was "
        "made. FILE.json stores the result for simctl report.",
        writable=True,
    )
