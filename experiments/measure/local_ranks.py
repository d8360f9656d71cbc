"""Starts ranks on this machine, listens to them, and ends them all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

from experiments.measure.blame import GRACE, Complaint, MeasurementFailed, blame
from experiments.measure.points import Plan
from experiments.measure.result_rows import ResultRow
from topologies.errors import InputError

WORKER = "from experiments.measure.worker import main; main()"
"""What every process runs."""
QUIET = {"TORCH_CPP_LOG_LEVEL": "FATAL", "OMP_NUM_THREADS": "1"}


class Worker(NamedTuple):
    """A rank on this machine."""

    process: subprocess.Popen[bytes]
    """Its process."""
    pipe: Connection
    """The pipe of its events."""


def launch(plan: Plan, on_row: Callable[[ResultRow], object]) -> None:
    """Measure with `plan.ranks` processes on this machine; `on_row` gets every point.

    Without an `init` they meet in a temporary file. gloo uses the loopback device unless
    GLOO_SOCKET_IFNAME is set. All processes have ended when this returns or raises.

    Raises MeasurementFailed if a rank fails, is killed or does not answer. Raises InputError if
    the ranks cannot begin: they do not meet, or the device is missing.
    """
    with tempfile.TemporaryDirectory(prefix="simctl-") as folder:
        plan = replace(plan, init=plan.init or f"file://{folder}/store")
        with _workers(plan) as workers:
            _Listener(plan, on_row, workers).listen()


@contextmanager
def _workers(plan: Plan) -> Iterator[list[Worker]]:
    """Start the ranks, and kill them when the block ends."""
    workers: list[Worker] = []
    try:
        for rank in range(plan.ranks):
            reading_end, writing_end = Pipe(duplex=False)
            with writing_end:
                workers.append(Worker(_started(plan, rank, writing_end.fileno()), reading_end))
        yield workers
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.communicate()
            worker.pipe.close()


def _started(plan: Plan, rank: int, pipe: int) -> subprocess.Popen[bytes]:
    """A process in a process group of its own, so that Ctrl-C reaches only its parent.

    It ends when its standard input closes, which happens when its parent ends.
    """
    loopback = {"GLOO_SOCKET_IFNAME": "lo"} if plan.backend == "gloo" else {}
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path[:] = {sys.path!r}\n{WORKER}",
            str(pipe),
            str(rank),
            plan.to_json(),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[pipe],
        env=QUIET | loopback | os.environ,
        process_group=0,
    )


class _Listener:
    """Listens to the ranks until all are done, or one failed and GRACE is over."""

    def __init__(
        self, plan: Plan, on_row: Callable[[ResultRow], object], workers: list[Worker]
    ) -> None:
        self._plan, self._on_row, self._workers = plan, on_row, workers
        self._open: dict[Any, int] = {worker.pipe: rank for rank, worker in enumerate(workers)}
        self._points: dict[int, str] = {}
        self._complaints: dict[int, Complaint] = {}
        self._ended: dict[int, int] = {}
        self._done: set[int] = set()

    def listen(self) -> None:
        deadline: float | None = None
        while len(self._done) < self._plan.ranks:
            seconds = (
                self._plan.patience if deadline is None else max(0.0, deadline - time.monotonic())
            )
            pipes = wait(list(self._open), seconds)
            for pipe in pipes:
                self._hear(pipe, self._open[pipe])
            failed = len(self._complaints) + len(self._ended)
            if failed and deadline is None:
                deadline = time.monotonic() + min(GRACE, self._plan.timeout)
            if not pipes or (failed and failed + len(self._done) == self._plan.ranks):
                raise MeasurementFailed(
                    blame(self._plan.ranks, self._complaints, self._ended, self._points)
                )

    def _hear(self, pipe: Any, rank: int) -> None:
        try:
            event = pipe.recv()
        except (EOFError, OSError):
            del self._open[pipe]
            if rank not in self._complaints and rank not in self._done:
                self._ended[rank] = self._workers[rank].process.wait()
            return
        match event:
            case {"at": where}:
                self._points[rank] = where
            case {"row": fields}:
                self._on_row(ResultRow(**fields))
            case {"refused": message}:
                raise InputError(message)
            case {"failed": complaint}:
                self._complaints[rank] = complaint
            case {"done": _}:
                self._done.add(rank)
