"""Which executor runs the points of a command."""

from __future__ import annotations

from typing import NamedTuple

from experiments.execution.executor import Executor, Serial


class Execution(NamedTuple):
    """Where points run, and whether an earlier run goes on."""

    jobs: int = 1
    """The number of processes of this machine."""
    dask: str | None = None
    """The address or the file of a Dask scheduler, instead."""
    resume: bool = False

    def executor(self) -> Executor:
        """What runs the points, to be closed after use. Raises InputError if a cluster cannot."""
        if self.dask is not None:
            from experiments.execution.dask_cluster import DaskCluster

            return DaskCluster(self.dask)
        if self.jobs > 1:
            from experiments.execution.process_pool import Processes

            return Processes(self.jobs)
        return Serial()


HERE = Execution()
"""This process alone."""
