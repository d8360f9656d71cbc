"""What one rank does of a schedule, worked out once: messages to post, messages to wait for,
elements to move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from experiments.measure.signals import with_signals
from experiments.measure.slot_layout import Layout, Span
from simulator.kernels import dependencies
from simulator.schedules.schedule import COMPUTE, Schedule
from topologies._compile import kernel
from topologies.errors import InputError


class Message(NamedTuple):
    """One end of a transfer, which both ends know as `number`: the elements to send, or where to
    receive."""

    number: int
    sends: bool
    peer: int
    span: Span


class Post(NamedTuple):
    """Messages to begin, all at once."""

    messages: tuple[Message, ...]


class Wait(NamedTuple):
    """The number of a message to wait for."""

    number: int


class Move(NamedTuple):
    """Elements to copy to others, or to add to them."""

    source: Span
    target: Span
    adds: bool


class Program(NamedTuple):
    """Instructions on an array of `size` elements: the slots, then one element for signals, then
    inboxes."""

    instructions: tuple[Post | Wait | Move, ...]
    size: int


def compile_program(
    schedule: Schedule, rank: int, elements: int, *, tagged: bool = True
) -> Program:
    """What `rank` does of a schedule for a buffer of `elements` elements, a multiple of its
    granularity.

    Each end of an operation begins when all that it waits for is done, as far as that end takes
    part in it. Of what is under way, a rank first waits for what its earliest operation needs.
    Nothing can so block for good, whatever arrives first: let i be the first operation of all that
    is not done. An end that has not begun it lacks the news of one before i, which is done, and
    waits for nothing that an operation after i needs first.

    Without tags (NCCL) the order tells messages apart: operations equally deep in the schedule are
    posted together in its order, and are waited for before the next. Raises InputError if the
    schedule computes, or moves slots to slots of another size.
    """
    if np.any(schedule.kind == COMPUTE):
        raise InputError("a schedule with computations cannot be run: only transfers can")
    told = with_signals(schedule)
    writer = _Writer(Layout(told, elements).size)
    tasks = _tasks(told, rank, Layout(told, elements))
    if tagged:
        _write_by_need(tasks, writer)
    else:
        _write_by_depth(tasks, told, writer)
    return Program(tuple(writer.instructions), writer.size)


@dataclass
class _Task:
    """A rank's part of an operation: `peer` is None if it is local. `needed` are the operations
    that wait for it."""

    number: int
    sends: bool
    peer: int | None
    source: Span
    target: Span
    adds: bool
    waits: int = 0
    needed: list[int] = field(default_factory=list)


class _Writer:
    """Writes instructions, and finds place for what is received to be added: a place that is free
    again is reused."""

    def __init__(self, slots: int) -> None:
        self.instructions: list[Post | Wait | Move] = []
        self.size = slots + 1
        self._signal = Span(slots, slots + 1)
        self._free: dict[int, list[Span]] = {}
        self._inboxes: dict[int, Span] = {}

    def post(self, tasks: Iterable[_Task]) -> None:
        messages = tuple(self._message(task, task.peer) for task in tasks if task.peer is not None)
        if messages:
            self.instructions.append(Post(messages))

    def wait(self, task: _Task) -> None:
        self.instructions.append(Wait(task.number))
        inbox = self._inboxes.pop(task.number, None)
        if inbox is not None:
            self.instructions.append(Move(inbox, task.target, True))
            self._free[inbox.end - inbox.begin].append(inbox)

    def move(self, task: _Task) -> None:
        if task.source != task.target or task.adds:
            self.instructions.append(Move(task.source, task.target, task.adds))

    def _message(self, task: _Task, peer: int) -> Message:
        span = task.source if task.sends else task.target
        if span.begin == span.end:
            span = self._signal
        elif task.adds and not task.sends:
            span = self._inboxes[task.number] = self._inbox(span.end - span.begin)
        return Message(task.number, task.sends, peer, span)

    def _inbox(self, elements: int) -> Span:
        free = self._free.setdefault(elements, [])
        if free:
            return free.pop()
        self.size += elements
        return Span(self.size - elements, self.size)


def _tasks(schedule: Schedule, rank: int, layout: Layout) -> dict[int, _Task]:
    """What `rank` takes part in, by number, in order."""
    tasks: dict[int, _Task] = {}
    for number in np.flatnonzero((schedule.rank == rank) | (schedule.peer == rank)).tolist():
        sender, receiver = int(schedule.rank[number]), int(schedule.peer[number])
        source, target, count = (
            int(column[number]) for column in (schedule.source, schedule.target, schedule.count)
        )
        peer = None if sender == receiver else receiver if sender == rank else sender
        spans = layout.span(source, count), layout.span(target, count)
        moved, room = (span.end - span.begin for span in spans)
        if moved != room:
            raise InputError(f"operation {number} moves {moved} elements to where {room} belong")
        task = tasks[number] = _Task(
            number, sender == rank, peer, *spans, bool(schedule.reduces[number])
        )
        for before in schedule.predecessors(number).tolist():
            if before in tasks:
                tasks[before].needed.append(number)
                task.waits += 1
    return tasks


def _write_by_need(tasks: dict[int, _Task], writer: _Writer) -> None:
    """Begin all that can begin, receives first; then wait for what the earliest operation needs."""
    ready = [task for task in tasks.values() if not task.waits]
    under_way: list[tuple[float, int]] = []
    while ready or under_way:
        writer.post(sorted(ready, key=lambda task: (task.sends, task.number)))
        for task in ready:
            if task.peer is not None:
                heappush(under_way, (min(task.needed, default=np.inf), task.number))
        done = [task for task in ready if task.peer is None]
        for task in done:
            writer.move(task)
        if not done:
            done = [tasks[heappop(under_way)[1]]]
            writer.wait(done[0])
        ready = _released(tasks, done)


def _released(tasks: dict[int, _Task], done: Iterable[_Task]) -> list[_Task]:
    """What can begin now that `done` are done."""
    released = []
    for number in (number for task in done for number in task.needed):
        tasks[number].waits -= 1
        if not tasks[number].waits:
            released.append(tasks[number])
    return released


def _write_by_depth(tasks: dict[int, _Task], schedule: Schedule, writer: _Writer) -> None:
    """All messages as deep as each other, then what is local and as deep."""
    depth = kernel(dependencies.chain, len(schedule))(
        schedule.remote.astype(np.int8), schedule.indptr, schedule.indices
    )
    groups: dict[int, list[_Task]] = {}
    for task in tasks.values():
        groups.setdefault(int(depth[task.number]), []).append(task)
    for level in sorted(groups):
        messages = [task for task in groups[level] if task.peer is not None]
        writer.post(messages)
        for task in messages:
            writer.wait(task)
        for task in groups[level]:
            if task.peer is None:
                writer.move(task)
