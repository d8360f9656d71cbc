"""The options of where many points run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.execution.choice import Execution

MOST_JOBS = 1024

Jobs = Annotated[
    int, typer.Option(min=1, max=MOST_JOBS, help="The number of processes that simulate points.")
]
Dask = Annotated[
    str | None,
    typer.Option(help="Run on a Dask cluster: tcp://host:8786 or a scheduler file.", hidden=True),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with an interrupted run of the same --out.")
]


@dataclass(frozen=True)
class ExecutionOptions:
    """Where points run, as the user writes it."""

    jobs: Jobs = 1
    dask: Dask = None
    resume: Resume = False

    @property
    def execution(self) -> Execution:
        """The values of the options."""
        from experiments.execution.choice import Execution

        if self.dask is not None and self.jobs > 1:
            raise InputError(
                f"--jobs {self.jobs} with --dask: the cluster has its workers, leave out --jobs"
            )
        return Execution(self.jobs, self.dask, self.resume)
