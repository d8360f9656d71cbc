"""A GOAL program as a schedule, by the rules of LogGOPS.

A send takes o + (n - 1)O of its cpu, and so does a receive. A message of up to S bytes is eager: it
leaves when the send has run. A longer message also waits until its receive is posted. The
machine has L, g and G.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from experiments.algorithm_files.goal.goal_program import GoalProgram, Operation
from simulator.schedules.schedule import COMPUTE, TRANSFER, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.sequences import sequence
from topologies.errors import InputError

NANOSECOND = 1e-9
_Key = tuple[int, int, int]
"""Source, destination and tag."""


class LogGOPS(NamedTuple):
    """What a GOAL file does not say, and the machine does not have."""

    o: float = 0.0
    """Seconds of a cpu for each message, at both ends."""
    O: float = 0.0  # noqa: E741
    """Seconds of a cpu for each further byte."""
    S: float = 65535.0
    """Bytes up to which a message is eager."""

    def cpu(self, nbytes: int) -> float:
        """Seconds of a cpu for a message."""
        return self.o + max(0, nbytes - 1) * self.O


class _Node(NamedTuple):
    kind: int
    rank: int
    peer: int
    nbytes: float
    seconds: float
    lane: int
    line: int


@dataclass
class _Graph:
    nodes: list[_Node] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)

    def compute(self, operation: Operation, seconds: float) -> int:
        return self._add(
            _Node(
                COMPUTE,
                operation.rank,
                operation.rank,
                0.0,
                seconds,
                operation.cpu,
                operation.line,
            )
        )

    def transfer(self, operation: Operation, nbytes: float, *, back: bool = False) -> int:
        """A message of a send, or one from its receiver."""
        ends = operation.rank, operation.peer
        rank, peer = ends[::-1] if back else ends
        return self._add(_Node(TRANSFER, rank, peer, nbytes, 0.0, operation.nic, operation.line))

    def _add(self, node: _Node) -> int:
        self.nodes.append(node)
        self.waits.append([])
        return len(self.nodes) - 1


def schedule_of(program: GoalProgram, rules: LogGOPS, file: str) -> Schedule:
    """The schedule of a program. Its V is what the busiest rank sends.

    Raises InputError with lines where sends and receives do not match, or operations wait for each
    other.
    """
    earlier = _earlier(program, file)
    graph = _graph(program, rules, _matches(program, earlier, file))
    order = _order(graph.waits, [node.line for node in graph.nodes], file)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    nodes = [graph.nodes[number] for number in order]
    pairs = [(number, before) for number, several in enumerate(graph.waits) for before in several]
    waits = place[np.array(pairs, dtype=np.int64).reshape(-1, 2)].T
    names = "kind", "rank", "peer", "nbytes", "seconds", "lane"
    columns = {
        name: np.array([getattr(node, name) for node in nodes], dtype=np.float64) for name in names
    }
    whole = {name: columns[name].astype(np.int64) for name in ("kind", "rank", "peer", "lane")}
    sent = np.zeros(program.ranks)
    remote = columns["rank"] != columns["peer"]
    np.add.at(sent, whole["rank"][remote], columns["nbytes"][remote])
    builder = ScheduleBuilder(program.ranks, max(1.0, float(sent.max())))
    return sequence(builder, {**columns, **whole}, (waits[0], waits[1]))


def _earlier(program: GoalProgram, file: str) -> list[int]:
    """The operations in an order in which their ranks may post them: that of the file, where
    nothing else is required."""
    waits: list[list[int]] = [[] for _ in program.operations]
    for wait in program.waits:
        waits[wait.operation].append(wait.earlier)
    return _order(waits, [operation.line for operation in program.operations], file)


def _matches(program: GoalProgram, order: Sequence[int], file: str) -> dict[int, int]:
    """The receive of each send: the first by source, destination and tag that has none yet."""
    sends: dict[_Key, list[int]] = defaultdict(list)
    receives: dict[_Key, list[int]] = defaultdict(list)
    for number in order:
        operation = program.operations[number]
        if operation.kind == "send":
            sends[operation.rank, operation.peer, operation.tag].append(number)
        elif operation.kind == "recv":
            receives[operation.peer, operation.rank, operation.tag].append(number)
    matches = {}
    for key in {**sends, **receives}:
        for send, receive in zip(sends[key], receives[key], strict=False):
            ends = program.operations[send], program.operations[receive]
            if ends[0].size != ends[1].size:
                raise InputError(
                    f"{file} line {ends[0].line}: {ends[0].size} bytes are sent, line "
                    f"{ends[1].line} receives {ends[1].size}"
                )
            matches[send] = receive
        few, many = sorted((sends[key], receives[key]), key=len)
        if len(few) < len(many):
            alone = program.operations[many[len(few)]]
            verb = "sends to" if alone.kind == "send" else "receives from"
            raise InputError(
                f"{file} line {alone.line}: rank {alone.rank} {verb} rank {alone.peer} with tag "
                f"{alone.tag}: the other rank has no match"
            )
    return matches


def _graph(program: GoalProgram, rules: LogGOPS, matches: dict[int, int]) -> _Graph:
    """The computations and messages of all operations.

    An operation whose start others wait for begins with a computation of no time.
    """
    graph = _Graph()
    started = {wait.earlier for wait in program.waits if wait.start}
    begin: dict[int, int] = {}
    first: dict[int, int] = {}
    done: dict[int, int] = {}
    for number, operation in enumerate(program.operations):
        if number in started:
            begin[number] = graph.compute(operation, 0.0)
        seconds = (
            operation.size * NANOSECOND if operation.kind == "calc" else rules.cpu(operation.size)
        )
        first[number] = done[number] = graph.compute(operation, seconds)
        if number in started:
            graph.waits[first[number]].append(begin[number])
    posted = defaultdict[int, list[int]](list)
    for send, receive in matches.items():
        operation = program.operations[send]
        message = graph.transfer(operation, operation.size)
        graph.waits[message].append(first[send])
        graph.waits[first[receive]].append(message)
        if operation.size > rules.S:
            ready = graph.transfer(operation, 0.0, back=True)
            graph.waits[message].append(ready)
            posted[receive].append(ready)
            done[send] = message
            if receive in begin:
                graph.waits[ready].append(begin[receive])
    for wait in program.waits:
        before = begin[wait.earlier] if wait.start else done[wait.earlier]
        for node in (begin.get(wait.operation, first[wait.operation]), *posted[wait.operation]):
            graph.waits[node].append(before)
    return graph


def _order(waits: Sequence[Sequence[int]], lines: Sequence[int], file: str) -> list[int]:
    """An order in which everything comes after what it waits for, and else in its own order.
    Raises InputError with the lines of a circle."""
    later: list[list[int]] = [[] for _ in waits]
    missing = [len(set(several)) for several in waits]
    for number, several in enumerate(waits):
        for before in set(several):
            later[before].append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        order.append(number := heappop(ready))
        for each in later[number]:
            missing[each] -= 1
            if not missing[each]:
                heappush(ready, each)
    if len(order) < len(waits):
        circle = list(_circle(waits, missing))
        shown = ", ".join(str(lines[number]) for number in circle[:8])
        raise InputError(
            f"{file} line {lines[circle[0]]}: it waits for itself, through lines {shown}"
        )
    return order


def _circle(waits: Sequence[Sequence[int]], missing: Sequence[int]) -> Iterator[int]:
    """Operations of which each waits for the next, and the last for the first."""
    number = next(place for place, count in enumerate(missing) if count)
    path: dict[int, None] = {}
    while number not in path:
        path[number] = None
        number = next(before for before in waits[number] if missing[before])
    numbers = list(path)
    yield from numbers[numbers.index(number) :]
