"""Tasks of ranks that wait for each other: computations, calls of collectives, and messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm, Fitted
from simulator.collectives.joined_calls import Call, Placed, add_call, fit_calls
from simulator.collectives.operation_counts import bounds
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError
from topologies.resources import Need, check
from topologies.topology import Floats, Ints, Topology

OPERATION = Need(1.2e-5, 300.0)
"""To write and simulate an operation."""


class Task(NamedTuple):
    """What a rank does after other tasks."""

    name: str
    rank: int
    lane: int
    """The lane on which it computes, or enters and leaves a communication."""
    after: tuple[int, ...] = ()
    """The tasks of the same rank that it waits for, by their numbers."""
    seconds: float = 0.0
    """The duration of a computation."""
    phase: str = "compute"


class GroupCall(NamedTuple):
    """A collective: a task of each rank of its group, by number. The first plays rank 0."""

    tasks: tuple[int, ...]
    algorithm: Algorithm
    nbytes: float
    """V of the collective."""
    group: str
    """The group. On each rank its calls follow each other in their order here, and share their
    buffers."""


class Message(NamedTuple):
    """A message between two ranks, which leaves whether or not the receiver waits. The send ends
    when the message has arrived; the receive ends then too, or when its rank gets there."""

    send: int
    receive: int
    nbytes: float


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Tasks of all ranks. Those that are part of no call and no message are computations."""

    ranks: int
    tasks: Sequence[Task]
    calls: Sequence[GroupCall] = ()
    messages: Sequence[Message] = ()


class Written(NamedTuple):
    """A task graph as a schedule."""

    schedule: Schedule
    topology: Topology
    """The machine, with the switches of all calls as further ranks."""
    first: Ints
    """The operation with which each task starts."""
    last: Ints
    """The operation with which each task ends."""


def write(graph: TaskGraph, topology: Topology, *, force: bool = False) -> Written:
    """The schedule of a task graph on a machine.

    Raises InputError if tasks wait for each other in a circle; and if there are too many operations
    for the free memory, unless by `force`.

    >>> from simulator.collectives import find
    >>> from topologies.shapes import star
    >>> tasks = [Task("a", 0, 0, seconds=1.0), Task("sum", 0, 1, (0,)), Task("sum", 1, 1)]
    >>> graph = TaskGraph(2, tasks, [GroupCall((1, 2), find("ring"), 8.0, "all")])
    >>> from simulator.engines import simulate
    >>> written = write(graph, star(2, bandwidth=1.0))
    >>> simulate(written.schedule, written.topology).makespan
    9.0
    """
    if not force:
        _check_size(graph, topology)
    placed, machine = _placed(graph, topology)
    slots = max((each.slot + each.schedule.buffer for each in placed), default=1)
    sizes = _sizes(placed, len(machine.placement), slots)
    total = float(sizes[:, :slots].sum(axis=1).max()) or 1.0
    builder = ScheduleBuilder(
        graph.ranks,
        total,
        slots=sizes[:, :slots] / total,
        scratch=sizes[:, slots:] / total,
        switches=len(machine.placement) - graph.ranks,
    )
    placed = [each._replace(scratch=slots + each.scratch) for each in placed]
    writer = _Writer(graph, builder, placed)
    for number in _in_order(graph, writer.after):
        writer.add(number)
    return Written(builder.build(), machine, writer.first, writer.last)


class _Writer:
    """Adds the tasks of a graph to a schedule."""

    def __init__(
        self, graph: TaskGraph, builder: ScheduleBuilder, placed: Sequence[Placed]
    ) -> None:
        self.graph, self.builder, self.placed = graph, builder, placed
        self.after = [list(task.after) for task in graph.tasks]
        """What each task waits for: of calls, also the call before in their group."""
        self.first = np.full(len(graph.tasks), -1, dtype=np.int32)
        self.last = np.full(len(graph.tasks), -1, dtype=np.int32)
        self._call_of = {task: k for k, call in enumerate(graph.calls) for task in call.tasks}
        self._sends = {message.send: message for message in graph.messages}
        self._arrivals = {message.receive: message.send for message in graph.messages}
        self._messages: dict[int, int] = {}
        latest: dict[tuple[str, int], int] = {}
        for call in graph.calls:
            for task in call.tasks:
                key = call.group, graph.tasks[task].rank
                if key in latest:
                    self.after[task].append(latest[key])
                latest[key] = task

    def add(self, number: int) -> None:
        """Add a task; with the first of a call all tasks of the call."""
        task = self.graph.tasks[number]
        if number in self._call_of:
            self._call(self._call_of[number])
            return
        self.builder.phase(task.phase)
        before = self.last[self.after[number]]
        if number in self._sends:
            message = self._sends[number]
            receiver = self.graph.tasks[message.receive].rank
            entered = self._compute(task, 0.0, before)
            sent = self.builder.signal(task.rank, receiver, nbytes=message.nbytes, after=entered)
            self._messages[number] = int(sent[0])
            self.first[number], self.last[number] = entered[0], sent[0]
        elif number in self._arrivals:
            arrival = self._messages[self._arrivals[number]]
            self.first[number] = self._compute(task, 0.0, before)[0]
            ends = np.array([self.first[number], arrival], dtype=np.int32)
            self.last[number] = self._compute(task, 0.0, ends)[0]
        else:
            self.first[number] = self.last[number] = self._compute(task, task.seconds, before)[0]

    def _compute(self, task: Task, seconds: float, before: Ints) -> Ints:
        return self.builder.compute(task.rank, seconds, lane=task.lane, after=before)

    def _call(self, number: int) -> None:
        call = self.graph.calls[number]
        tasks = list(call.tasks)
        rows = [self.last[self.after[task]] for task in tasks]
        before = np.full((len(rows), max(map(len, rows))), -1, dtype=np.int32)
        for row, operations in enumerate(rows):
            before[row, : len(operations)] = operations
        phase = self.graph.tasks[tasks[0]].phase
        entered, left = add_call(self.builder, self.placed[number], phase, before)
        self.first[tasks], self.last[tasks] = entered, left


def _check_size(graph: TaskGraph, topology: Topology) -> None:
    counts = Counter((call.algorithm, len(call.tasks)) for call in graph.calls)
    total = float(len(graph.tasks)) + sum(
        number * max(least for least, _ in bounds(algorithm, topology, ranks))
        for (algorithm, ranks), number in counts.items()
    )
    need = Need(total * OPERATION.seconds, total * OPERATION.nbytes)
    check(f"the tasks have {total:.3g} operations", need, "take fewer steps or ranks")


def _sizes(placed: Sequence[Placed], ranks: int, slots: int) -> Floats:
    """The bytes of each slot, those of scratch behind the others: of the largest call there."""
    scratch = max((each.scratch + _scratch(each.fitted) for each in placed), default=0)
    sizes = np.zeros((ranks, slots + scratch))
    for each in {(id(each.fitted), each.slot, each.scratch): each for each in placed}.values():
        child = each.schedule
        column = np.arange(child.slots)
        column += np.where(column < child.buffer, each.slot, slots + each.scratch - child.buffer)
        where = np.ix_(each.numbers, column)
        sizes[where] = np.maximum(sizes[where], child.shares * child.nbytes_total)
    return sizes


def _scratch(fitted: Fitted) -> int:
    return fitted.schedule.slots - fitted.schedule.buffer


def _placed(graph: TaskGraph, topology: Topology) -> tuple[list[Placed], Topology]:
    """Where the slots of each call are, scratch counted from 0, and the machine with the switches
    of all calls: those that are the same on the machine are the same ranks."""
    calls = [_call(graph, call) for call in graph.calls]
    fitted, numbers = fit_calls(calls, topology), dict[int, Ints]()
    placement, further = [topology.placement[: graph.ranks]], graph.ranks
    sizes: dict[_Group, list[int]] = {}
    members: dict[_Group, list[Ints]] = defaultdict(list)
    groups = [
        _Group(whole.group, call.ranks) for whole, call in zip(graph.calls, calls, strict=True)
    ]
    for group, each in zip(groups, fitted, strict=True):
        if id(each) not in numbers:
            switches = each.topology.placement[each.schedule.workers :]
            numbers[id(each)] = np.append(group.ranks, further + np.arange(len(switches)))
            placement.append(switches)
            further += len(switches)
        buffer, scratch = sizes.get(group, (0, 0))
        sizes[group] = [max(buffer, each.schedule.buffer), max(scratch, _scratch(each))]
        members[group].append(numbers[id(each)])
    heights, begin = np.zeros((2, further), dtype=np.int64), dict[_Group, tuple[int, int]]()
    for group, size in sizes.items():
        everyone = np.unique(np.concatenate(members[group]))
        slot, scratch = heights[:, everyone].max(axis=1).tolist()
        begin[group] = slot, scratch
        heights[:, everyone] = np.add(begin[group], size)[:, None]
    placed = [
        Placed(call, each, *begin[group], numbers[id(each)].astype(np.int32))
        for call, group, each in zip(calls, groups, fitted, strict=True)
    ]
    return placed, replace(topology, placement=np.concatenate(placement))


class _Group(NamedTuple):
    """A group of ranks, which has buffers of its own."""

    name: str
    ranks: tuple[int, ...]


def _call(graph: TaskGraph, call: GroupCall) -> Call:
    tasks = [graph.tasks[task] for task in call.tasks]
    return Call(call.algorithm, tuple(task.rank for task in tasks), call.nbytes, tasks[0].lane)


def _in_order(graph: TaskGraph, after: Sequence[Sequence[int]]) -> list[int]:
    """The tasks, one of each call, so that each comes after those that it waits for.

    Else those come first that come first on their rank: what gets to a link at the same time is
    served in this order.
    """
    count, place = defaultdict[int, int](int), list[int]()
    for each in graph.tasks:
        place.append(count[each.rank])
        count[each.rank] += 1
    unit = np.arange(len(graph.tasks))
    for call in graph.calls:
        unit[list(call.tasks)] = min(call.tasks)
    waits: dict[int, set[int]] = {int(number): set() for number in unit}
    for number, before in enumerate(after):
        waits[int(unit[number])].update(unit[list(before)].tolist())
    for message in graph.messages:
        waits[message.receive].add(message.send)
    followers = defaultdict[int, list[int]](list)
    for number, before_all in waits.items():
        for task in before_all:
            followers[task].append(number)
    missing = {number: len(before_all) for number, before_all in waits.items()}
    ready = [(place[number], number) for number, waiting in missing.items() if not waiting]
    heapify(ready)
    order = []
    while ready:
        _, number = heappop(ready)
        order.append(number)
        for follower in followers[number]:
            missing[follower] -= 1
            if not missing[follower]:
                heappush(ready, (place[follower], follower))
    if len(order) < len(missing):
        stuck = [graph.tasks[number] for number, waiting in missing.items() if waiting]
        names = ", ".join(f"{task.name[:40]!r} of rank {task.rank}" for task in stuck[:2])
        raise InputError(f"{len(stuck)} tasks wait for each other in a circle: {names}")
    return order
