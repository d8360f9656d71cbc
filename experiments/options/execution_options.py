"""The options of where many points run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.execution.executor import Executor
from experiments.execution.journal import Journal
from experiments.options.options import Options, option
from experiments.output import Record, facts
from topologies.errors import InputError

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
