"""Starts ranks on this machine, listens to them, and ends them all."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Pipe, wait
from typing import Any

from experiments.measure.launcher import GRACE_SECONDS, Complaint, MeasurementFailed, blame
from experiments.measure.points import MeasurementPlan
from experiments.measure.result_rows import ResultRow
from topologies.errors import InputError

WORKER = "from experiments.measure.worker import main; main()"
"""What every process runs."""
QUIET = {"TORCH_CPP_LOG_LEVEL": "FATAL", "OMP_NUM_THREADS": "1"}


def launch(plan: MeasurementPlan, on_row: Callable[[ResultRow], object]) -> None:
    """Measure with `plan.ranks` processes on this machine; `on_row` gets every point.

    Without an `init` they meet in a temporary file. gloo uses the loopback device unless
    GLOO_SOCKET_IFNAME is set. All processes have ended when this returns or raises.

    Raises MeasurementFailed if a rank fails, is killed or does not answer. Raises InputError if
    the ranks cannot begin: they do not meet, or the device is missing.
    """
    with tempfile.TemporaryDirectory(prefix="simctl-") as folder:
        plan = replace(plan, init=plan.init or f"file://{folder}/store")
        with _workers(plan) as workers:
            _listen(plan, on_row, workers)


@contextmanager
def _workers(plan: MeasurementPlan) -> Iterator[dict[Any, subprocess.Popen[bytes]]]:
    """Start the ranks, and kill them when the block ends: their processes in the order of ranks, by
    the pipes of their events."""
    workers: dict[Any, subprocess.Popen[bytes]] = {}
    try:
        for rank in range(plan.ranks):
            reading_end, writing_end = Pipe(duplex=False)
            with writing_end:
                workers[reading_end] = _started(plan, rank, writing_end.fileno())
        yield workers
    finally:
        for process in workers.values():
            process.kill()
        for pipe, process in workers.items():
            process.communicate()
            pipe.close()


def _started(plan: MeasurementPlan, rank: int, pipe: int) -> subprocess.Popen[bytes]:
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
            pickle.dumps(plan).hex(),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[pipe],
        env=QUIET | loopback | os.environ,
        process_group=0,
    )


def _listen(
    plan: MeasurementPlan,
    on_row: Callable[[ResultRow], object],
    workers: Mapping[Any, subprocess.Popen[bytes]],
) -> None:
    """Listen to the ranks until all are done, or one failed and GRACE is over."""
    rank_of = {pipe: rank for rank, pipe in enumerate(workers)}
    points: dict[int, str] = {}
    complaints: dict[int, Complaint] = {}
    ended: dict[int, int] = {}
    done: set[int] = set()
    deadline: float | None = None
    while len(done) < plan.ranks:
        seconds = plan.patience if deadline is None else max(0.0, deadline - time.monotonic())
        pipes = wait(list(rank_of), seconds)
        for pipe in pipes:
            rank = rank_of[pipe]
            match _event(pipe):
                case {"at": where}:
                    points[rank] = where
                case {"row": fields}:
                    on_row(ResultRow(**fields))
                case {"refused": message}:
                    raise InputError(message)
                case {"failed": complaint}:
                    complaints[rank] = complaint
                case {"done": _}:
                    done.add(rank)
                case _:
                    del rank_of[pipe]
                    if rank not in complaints and rank not in done:
                        ended[rank] = workers[pipe].wait()
        failed = len(complaints) + len(ended)
        if failed and deadline is None:
            deadline = time.monotonic() + min(GRACE_SECONDS, plan.timeout)
        if not pipes or (failed and failed + len(done) == plan.ranks):
            raise MeasurementFailed(blame(plan.ranks, complaints, ended, points))


def _event(pipe: Any) -> Any:
    """The next event of a rank; None if it has ended."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None
