"""Points in several processes of this machine."""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import NamedTuple

from experiments.execution.executor import LONGEST_CHUNK, Run, T, chunks
from topologies.errors import InputError

LOSSES = 3
"""A chunk whose worker dies this often is given up."""


class _Worker(NamedTuple):
    """A process, and the end of its pipe that is here."""

    process: ForkProcess
    pipe: Connection

    def end(self) -> None:
        """Kill the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Processes:
    """Workers that are forked from this process, so that they inherit its compiled code.

    A worker that dies is replaced, and its chunk runs again.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, list[int]]] = {}

    def map(self, run: Run[T], costs: Mapping[int, float]) -> Iterator[tuple[int, T]]:
        """As :meth:`experiments.execution.executor.Executor.map` says. The cheapest point runs
        here, before the workers are forked: it loads the compiled code that all need. Where each
        point is as much work as a chunk, the workers load it."""
        first = sorted(costs, key=lambda number: costs[number])[:1]
        first = [number for number in first if costs[number] < LONGEST_CHUNK]
        yield from zip(first, run(first), strict=True)
        remaining = {number: cost for number, cost in costs.items() if number not in first}
        waiting, losses = deque(chunks(remaining, self.jobs)), Counter[int]()
        try:
            self._assign(waiting, run)
            while self._busy:
                for pipe in wait(list(self._busy)):
                    worker, chunk = self._busy.pop(pipe)  # type: ignore[call-overload]
                    try:
                        answer = worker.pipe.recv()
                    except (EOFError, OSError):
                        worker.end()
                        _count_loss(losses, chunk)
                        waiting.appendleft(chunk)
                        chunk, answer = [], []
                    else:
                        self._idle.append(worker)
                    if isinstance(answer, Exception):
                        raise answer
                    self._assign(waiting, run)
                    yield from zip(chunk, answer, strict=True)
        finally:
            self.close()

    def _assign(self, waiting: deque[list[int]], run: Run[T]) -> None:
        while waiting and len(self._busy) < self.jobs:
            worker = self._idle.pop() if self._idle else _started(run)
            chunk = waiting.popleft()
            self._busy[worker.pipe] = worker, chunk
            try:
                worker.pipe.send(chunk)
            except OSError:
                continue  # the worker is dead, which its pipe says when it is read

    def close(self) -> None:
        """Kill the workers."""
        for worker in (*self._idle, *(worker for worker, _ in self._busy.values())):
            worker.end()
        self._idle.clear()
        self._busy.clear()


def _started(run: Run[T]) -> _Worker:
    context = get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, here, run, os.getpid()), daemon=True)
    process.start()
    there.close()
    return _Worker(process, here)


def _serve(pipe: Connection, other_end: Connection, run: Run[T], parent: int) -> None:
    """Run chunks until this process is killed. Ctrl-C is for the parent to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # PR_SET_PDEATHSIG of Linux.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        return
    other_end.close()
    while True:
        chunk = pipe.recv()
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
