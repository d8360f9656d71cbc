"""A training run as a graph of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simulator.collectives import find
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.steps.kinds import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    CALL,
    COMPUTATION,
    REDUCE_SCATTER,
)
from simulator.steps.step_graph import Call, StepGraph, step_graph
from simulator.training.plan import Plan
from topologies.errors import InputError
from topologies.topology import Ints

CALLED = {
    ALL_REDUCE: "ring",
    ALL_GATHER: "ring_all_gather",
    REDUCE_SCATTER: "ring_reduce_scatter",
    BROADCAST: "chain_broadcast",
}
"""An algorithm of each kind of collective."""


class _Call(NamedTuple):
    """A collective of all workers."""

    kind: int
    lane: int
    first: Ints
    """The operation with which each worker enters."""
    last: Ints
    """The operation with which each worker leaves."""


def tasks_of(plan: Plan, schedule: Schedule) -> StepGraph:
    """The computations and collectives of a run in which all transfers are written out.

    `schedule` is that of the plan, with the seconds that were simulated. To enter a collective is a
    task before it, where it takes time or others wait for it. Raises InputError if ranks wait for
    each other outside of collectives, as they do with a parameter server.
    """
    writer = _Writer(plan, schedule)
    computed = (schedule.kind == COMPUTE) & (schedule.rank < plan.workers)
    for operation in np.flatnonzero(computed).tolist():
        writer.add(operation)
    ranks = np.arange(plan.workers, dtype=np.int32)
    calls = [writer.call(call) for call in writer.calls]
    return step_graph(
        ranks[:, None],
        plan.lanes,
        dict(zip(_COLUMNS, zip(*writer.rows, strict=True), strict=True)),
        writer.after,
        calls=calls,
        groups={call.group: ranks[None, :] for call in calls},
        names=writer.names,
    )


_COLUMNS = ("place", "lane", "kind", "seconds", "call")


class _Writer:
    def __init__(self, plan: Plan, schedule: Schedule) -> None:
        self.schedule, self.calls = schedule, list(_calls(plan, schedule))
        self.rows = list[tuple[int, int, int, float, int]]()
        self.after, self.names = list[list[int]](), list[str]()
        self._owner = np.full(len(schedule), -1)
        for number, call in enumerate(self.calls):
            self._owner[call.first.min() : call.last.max() + 1] = number
        self._firsts = {operation for call in self.calls for operation in call.first.tolist()}
        self._lasts = {operation for call in self.calls for operation in call.last.tolist()}
        waits = np.repeat(np.arange(len(schedule)), np.diff(schedule.indptr))
        outside = self._owner[waits] != self._owner[schedule.indices]
        self._awaited = {*schedule.indices[outside].tolist()}
        self._ends = dict[int, int]()
        """The task that ends with an operation: the entry, of a call."""
        self._calling = dict[tuple[int, int], int]()
        """The task of each call and rank."""

    def _task(self, name: str, row: tuple[int, int, int, float, int], after: list[int]) -> int:
        self.names.append(name)
        self.rows.append(row)
        self.after.append(after)
        return len(self.names) - 1

    def add(self, operation: int) -> None:
        """Add a computation, or a call with the operation that enters it."""
        if operation in self._lasts:
            return
        schedule = self.schedule
        rank, lane = int(schedule.rank[operation]), int(schedule.lane[operation])
        phase, seconds = schedule.phases[schedule.phase[operation]], schedule.seconds[operation]
        before = schedule.predecessors(operation).tolist()
        after = sorted({self._end(each, rank, phase) for each in before})
        entered = operation in self._firsts
        if not entered or seconds or operation in self._awaited:
            name = f"enter {phase}" if entered else phase
            task = self._task(name, (rank, lane, COMPUTATION, float(seconds), -1), after)
            self._ends[operation], after = task, [task]
        if entered:
            number = int(self._owner[operation])
            self._calling[number, rank] = self._task(phase, (rank, lane, CALL, 0.0, number), after)

    def call(self, call: _Call) -> Call:
        """A collective of the tasks."""
        algorithm = find(CALLED[call.kind])
        nbytes = _bytes(self.schedule, int(call.first[0]))
        return Call(str(call.lane), algorithm.collective.name, nbytes, algorithm)

    def _end(self, operation: int, rank: int, phase: str) -> int:
        """The task that ends with an operation; for one within a call, the call."""
        number = self._ends.get(operation)
        if number is None:
            number = self._calling.get((int(self._owner[operation]), rank))
        if number is None or self.rows[number][0] != rank:
            raise _refusal(phase)
        return number


def _calls(plan: Plan, schedule: Schedule) -> Iterator[_Call]:
    """The collectives: each has a row of each worker among the spans."""
    rank, lane, first, last = plan.spans
    kind = plan.column("kind")[first].tolist()
    for begin in range(0, len(rank), plan.workers):
        rows = slice(begin, begin + plan.workers)
        everyone = np.array_equal(rank[rows], np.arange(plan.workers))
        if not everyone or kind[begin] not in CALLED:
            raise _refusal(schedule.phases[schedule.phase[first[begin]]])
        yield _Call(kind[begin], int(lane[begin]), first[rows], last[rows])


def _bytes(schedule: Schedule, operation: int) -> float:
    """The bytes of the slots that a rank enters with."""
    slot, count = schedule.target[operation], schedule.count[operation]
    shares = np.atleast_2d(schedule.shares)[0]
    return float(np.sum(shares[slot : slot + count]) * schedule.nbytes_total)


def _refusal(phase: str) -> InputError:
    return InputError(
        f"ranks wait for each other outside of collectives, in {phase[:40]!r}: Chakra traces are "
        f"of --strategy ddp or local_sgd"
    )
