"""Points in several processes of this machine."""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from experiments.execution.executor import LONGEST_CHUNK, Run, T, chunks
from topologies.errors import InputError

LOSSES = 3
"""A chunk whose worker dies this often is given up."""


@dataclass(frozen=True)
class Processes:
    """Workers that are forked from this process, one for each chunk, so that they inherit its
    compiled code.

    The chunk of a worker that dies runs again.
    """

    jobs: int

    def map(self, run: Run[T], costs: Mapping[int, float]) -> Iterator[tuple[int, T]]:
        """As :meth:`experiments.execution.executor.Executor.map` says. The cheapest point runs
        here, before workers are forked: it loads the compiled code that all need. Where each point
        is as much work as a chunk, the workers load it."""
        first = sorted(costs, key=lambda number: costs[number])[:1]
        first = [number for number in first if costs[number] < LONGEST_CHUNK]
        yield from zip(first, run(first), strict=True)
        remaining = {number: cost for number, cost in costs.items() if number not in first}
        waiting, losses = deque(chunks(remaining, self.jobs)), Counter[int]()
        running: dict[Connection, tuple[ForkProcess, list[int]]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    chunk = waiting.popleft()
                    process, pipe = _started(run, chunk)
                    running[pipe] = process, chunk
                pipe = wait(list(running))[0]  # type: ignore[assignment]
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):
                    answer = None
                process, chunk = running.pop(pipe)
                _end(process, pipe)
                if answer is None:
                    _count_loss(losses, chunk)
                    waiting.appendleft(chunk)
                elif isinstance(answer, Exception):
                    raise answer
                else:
                    yield from zip(chunk, answer, strict=True)
        finally:
            for pipe, (process, _) in running.items():
                _end(process, pipe)


def _started(run: Run[T], chunk: Sequence[int]) -> tuple[ForkProcess, Connection]:
    """A worker, and the pipe that gets its results."""
    context = get_context("fork")
    pipe, end = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(end, run, chunk, os.getpid()), daemon=True)
    process.start()
    end.close()
    return process, pipe


def _end(process: ForkProcess, pipe: Connection) -> None:
    """Kill the process, whatever it does."""
    process.kill()
    process.join()
    pipe.close()


def _work(pipe: Connection, run: Run[T], chunk: Sequence[int], parent: int) -> None:
    """Run a chunk. Ctrl-C is for the parent to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # PR_SET_PDEATHSIG of Linux.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        answer: list[T] | Exception = list(run(chunk))
    except Exception as error:
        error.add_note(traceback.format_exc())
        answer = error
    pipe.send(answer)


def _count_loss(losses: Counter[int], chunk: Sequence[int]) -> None:
    losses[chunk[0]] += 1
    if losses[chunk[0]] == LOSSES:
        last = f" to {chunk[-1] + 1}" if len(chunk) > 1 else ""
        raise InputError(
            f"a worker died {LOSSES} times at point {chunk[0] + 1}{last}: it may need more memory "
            f"than there is, take fewer --jobs"
        )
