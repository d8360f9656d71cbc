"""The program of a rank: its part of a schedule in an array of elements, with messages that say
when others are done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from simulator.kernels import dependencies
from simulator.kernels.records import Csr
from simulator.schedules.schedule import COMPUTE, TRANSFER, Schedule
from topologies.columns import owners, plain_rows
from topologies.errors import InputError
from topologies.jit import kernel
from topologies.topology import Flags, Ints


def with_signals(schedule: Schedule) -> Schedule:
    """The schedule, with a message wherever an operation waits for one between other ranks.

    A rank knows only the operations that it takes part in. Barriers wait for others, transfers of
    data do not.
    """
    operation = owners(schedule.indptr)
    far = _far(schedule, operation, schedule.indices)
    if not far.any():
        return schedule
    tokens, needs = _tokens(schedule, operation[far], schedule.indices[far])
    before, senders, receivers, finished = zip(*tokens, strict=True)
    at = np.array(before)
    place = np.arange(len(schedule)) + np.searchsorted(at, np.arange(len(schedule)), side="right")
    sent = at + np.arange(len(tokens))
    pairs = [(place[operation[~far]], place[schedule.indices[~far]])]
    pairs += [(np.array([place[i]]), np.array([sent[number]])) for i, number in needs]
    pairs += [
        (np.repeat(own, len(done)), place[list(done)])
        for own, done in zip(sent, finished, strict=True)
    ]
    values: dict[str, Any] = {
        "kind": TRANSFER,
        "rank": senders,
        "peer": receivers,
        "source": -1,
        "target": -1,
    }
    return _inserted(schedule, values, at, *map(np.concatenate, zip(*pairs, strict=True)))


def _far(schedule: Schedule, operation: Ints, before: Ints) -> Flags:
    """Whether each operation shares no rank with its predecessor."""
    ranks, ranks_before = (
        (schedule.rank[operation], schedule.peer[operation]),
        (schedule.rank[before], schedule.peer[before]),
    )
    return np.asarray(np.all([a != b for a in ranks for b in ranks_before], axis=0))


def _tokens(
    schedule: Schedule, operation: Ints, before: Ints
) -> tuple[list[tuple[int, int, int, tuple[int, ...]]], list[tuple[int, int]]]:
    """Messages that say that operations are done, and pairs of an operation and the message that it
    waits for.

    A message is the first operation that waits for it, its sender, its receiver, and the operations
    that are done. Operations that wait for the same share a message.
    """
    waits: dict[tuple[int, int], list[int]] = {}
    for i, q in plain_rows(operation, before):
        waits.setdefault((i, int(schedule.peer[q])), []).append(q)
    numbers: dict[tuple[int, int, tuple[int, ...]], int] = {}
    tokens: list[tuple[int, int, int, tuple[int, ...]]] = []
    needs = []
    for (i, sender), operations in waits.items():
        receiver = int(schedule.rank[i])
        number = numbers.setdefault((sender, receiver, tuple(operations)), len(tokens))
        if number == len(tokens):
            tokens.append((i, sender, receiver, tuple(operations)))
        needs.append((i, number))
    return tokens, needs


def _inserted(
    schedule: Schedule, values: dict[str, Any], at: Ints, waiting: Ints, before: Ints
) -> Schedule:
    """The schedule with operations before those `at`, and with these pairs of operations that wait.
    Columns without `values` are 0 there."""
    names = "kind rank peer source target count reduces nbytes seconds lane phase"
    columns: dict[str, Any] = {
        name: np.insert(getattr(schedule, name), at, values.get(name, 0)) for name in names.split()
    }
    predecessors = Csr.of(waiting, before, len(columns["kind"]))
    return replace(schedule, **predecessors._asdict(), **columns)


class Message(NamedTuple):
    """One end of a transfer."""

    number: int
    """The number by which both ends know it."""
    sends: bool
    """Whether this end sends."""
    peer: int
    """The rank of the other end."""
    span: slice
    """The elements to send, or where to receive them."""


class ElementMove(NamedTuple):
    """Elements to copy to other elements, or to add to them."""

    source: slice
    target: slice
    adds: bool


Instruction = tuple[Message, ...] | int | ElementMove
"""Messages to begin, all at once; the number of a message to wait for; or a move."""


class RankProgram(NamedTuple):
    """Instructions on an array of `size` elements: the slots, then one element for signals, then
    inboxes."""

    instructions: tuple[Instruction, ...]
    size: int


def compile_program(
    schedule: Schedule, rank: int, elements: int, *, tagged: bool = True
) -> RankProgram:
    """The part of `rank` in a schedule, for a buffer of `elements` elements.

    The elements are a multiple of the schedule's granularity. A rank begins an operation when all
    predecessors that it takes part in are done. Among operations under way, it first waits for the
    one that its earliest operation needs.

    This order cannot block, whatever arrives first. Let i be the first operation of all ranks that
    is not done. If an end has not begun it, it still waits to learn of an operation before i. That
    operation is done, and the end waits for nothing that an operation after i needs first.

    Without tags (NCCL), messages are told apart by their order. Operations of the same depth are
    posted together in the order of the schedule, and all finish before the next depth.

    Raises InputError if the schedule computes, or moves slots to slots of another size.
    """
    if np.any(schedule.kind == COMPUTE):
        raise InputError("a schedule with computations cannot be run: only transfers can")
    full_schedule = with_signals(schedule)
    bounds = slot_bounds(full_schedule, elements)
    writer = _ProgramWriter(int(bounds[-1]))
    tasks = _tasks(full_schedule, rank, bounds)
    if tagged:
        _write_by_need(tasks, writer)
    else:
        _write_by_depth(tasks, full_schedule, writer)
    return RankProgram(tuple(writer.instructions), writer.size)


@dataclass
class _Task:
    """A rank's part of an operation."""

    number: int
    """The operation."""
    sends: bool
    """Whether this rank sends."""
    peer: int | None
    """The rank of the other end; None if the operation is local."""
    source: slice
    """The elements to read."""
    target: slice
    """The elements to write."""
    adds: bool
    """Whether it adds instead of copying."""
    waits: int = 0
    """Predecessors that are not done."""
    needed: list[int] = field(default_factory=list)
    """Operations that wait for it."""


class _ProgramWriter:
    """Writes instructions, and reserves inboxes for elements that are received to be added."""

    def __init__(self, slots: int) -> None:
        self.instructions: list[Instruction] = []
        self.size = slots + 1
        self._signal = slice(slots, slots + 1)
        self._free: dict[int, list[slice]] = {}
        self._inboxes: dict[int, slice] = {}

    def post(self, tasks: Iterable[_Task]) -> None:
        messages = tuple(self._message(task, task.peer) for task in tasks if task.peer is not None)
        if messages:
            self.instructions.append(messages)

    def wait(self, task: _Task) -> None:
        self.instructions.append(task.number)
        inbox = self._inboxes.pop(task.number, None)
        if inbox is not None:
            self.instructions.append(ElementMove(inbox, task.target, True))
            self._free[inbox.stop - inbox.start].append(inbox)

    def move(self, task: _Task) -> None:
        if task.source != task.target or task.adds:
            self.instructions.append(ElementMove(task.source, task.target, task.adds))

    def _message(self, task: _Task, peer: int) -> Message:
        span = task.source if task.sends else task.target
        if span.start == span.stop:
            span = self._signal
        elif task.adds and not task.sends:
            span = self._inboxes[task.number] = self._inbox(span.stop - span.start)
        return Message(task.number, task.sends, peer, span)

    def _inbox(self, elements: int) -> slice:
        free = self._free.setdefault(elements, [])
        if free:
            return free.pop()
        self.size += elements
        return slice(self.size - elements, self.size)


def _tasks(schedule: Schedule, rank: int, bounds: Ints) -> dict[int, _Task]:
    """The operations of `rank` by number, in their order."""
    tasks: dict[int, _Task] = {}
    for number in np.flatnonzero((schedule.rank == rank) | (schedule.peer == rank)).tolist():
        sender, receiver = int(schedule.rank[number]), int(schedule.peer[number])
        source, target, count = (
            int(column[number]) for column in (schedule.source, schedule.target, schedule.count)
        )
        peer = None if sender == receiver else receiver if sender == rank else sender
        spans = slot_span(bounds, source, count), slot_span(bounds, target, count)
        moved, room = (span.stop - span.start for span in spans)
        if moved != room:
            raise InputError(f"operation {number} moves {moved} elements to where {room} belong")
        task = tasks[number] = _Task(
            number, sender == rank, peer, *spans, bool(schedule.reduces[number])
        )
        for predecessor in schedule.predecessors(number).tolist():
            if predecessor in tasks:
                tasks[predecessor].needed.append(number)
                task.waits += 1
    return tasks


def _write_by_need(tasks: dict[int, _Task], writer: _ProgramWriter) -> None:
    """Begin all tasks that can begin, receives first; then wait for what the earliest one needs."""
    ready = [task for task in tasks.values() if not task.waits]
    under_way: list[tuple[float, int]] = []
    while ready or under_way:
        writer.post(sorted(ready, key=lambda task: (task.sends, task.number)))
        for task in ready:
            if task.peer is not None:
                heappush(under_way, (min(task.needed, default=np.inf), task.number))
        finished = [task for task in ready if task.peer is None]
        for task in finished:
            writer.move(task)
        if not finished:
            finished = [tasks[heappop(under_way)[1]]]
            writer.wait(finished[0])
        ready = _released(tasks, finished)


def _released(tasks: dict[int, _Task], finished: Iterable[_Task]) -> list[_Task]:
    """The tasks that can begin after `finished`."""
    released = []
    for number in (number for task in finished for number in task.needed):
        tasks[number].waits -= 1
        if not tasks[number].waits:
            released.append(tasks[number])
    return released


def _write_by_depth(tasks: dict[int, _Task], schedule: Schedule, writer: _ProgramWriter) -> None:
    """Post all messages of one depth, then do the local tasks of that depth."""
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


def granularity(schedule: Schedule) -> int:
    """The least number of elements that the slots of a schedule divide.

    Raises InputError if that is above 2^16 for one slot: shares like 1/3 and 0.15 are fine, 1/π is
    not. It also refuses slots whose sizes differ by rank.
    """
    if schedule.shares.ndim > 1:
        raise InputError(
            "the ranks of this algorithm hold data of different sizes: simctl measure runs "
            "algorithms whose ranks are alike"
        )
    shares = [Fraction(share).limit_denominator(2**16) for share in np.unique(schedule.shares)]
    if not np.allclose(
        [float(share) for share in shares], np.unique(schedule.shares), rtol=1e-9, atol=0
    ):
        raise InputError(
            f"slots with the shares {schedule.shares[:8].tolist()} cut no number of elements "
            f"exactly"
        )
    return lcm(*(share.denominator for share in shares))


def slot_bounds(schedule: Schedule, elements: int) -> Ints:
    """Where the slots of a schedule begin in a buffer of `elements` elements, a multiple of its
    granularity; and where the last one ends, scratch included. Shape (slots + 1,)."""
    sizes = np.rint(schedule.shares * elements).astype(np.int64)
    return np.concatenate(([0], np.cumsum(sizes)))


def slot_span(bounds: Ints, slot: int, count: int) -> slice:
    """The elements of `count` slots from `slot` on; none of slot -1."""
    return slice(int(bounds[slot]), int(bounds[slot + count])) if slot >= 0 else slice(0, 0)
