"""The schedule of a graph of tasks with all transfers of its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.collectives.operation_counts import bounds, estimate
from simulator.schedules import semantics
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import WrongResult, absent
from simulator.steps.buffers import Placed, place_buffers, side_by_side, slot_sizes
from simulator.steps.group_meetings import Meeting, meetings, partners, turns
from simulator.steps.step_graph import Names, StepGraph, padded
from topologies.resources import Need, check
from topologies.topology import Floats, Ints, Numbers, Topology

OPERATION = Need(1.2e-5, 300.0)
"""To write and simulate an operation."""


@dataclass(frozen=True, eq=False)
class Written:
    """A graph as a schedule."""

    schedule: Schedule
    topology: Topology
    """The machine, with the switches of all calls as further ranks."""
    first: Ints
    """The operation with which each task starts."""
    last: Ints
    """The operation with which each task ends."""
    meetings: tuple[Meeting, ...]
    """The calls and messages, in the order of their first tasks."""
    calls: tuple[Placed, ...]
    """The collectives, in the same order."""


def write(
    graph: StepGraph,
    topology: Topology,
    *,
    distinct: bool = False,
    phases: Names = (),
    force: bool = False,
) -> Written:
    """The schedule of a graph, in which each place is a rank, on a machine.

    The calls of a group share their buffers, unless they are `distinct`, as :func:`prove` needs
    them. Operations have the `phases` of their tasks, by default the collective or the kind.
    A message leaves whether or not its receiver waits. The send ends when the message has arrived;
    the receive ends then too, or when its rank gets there. Raises InputError if tasks wait for each
    other in a circle; and if there are too many operations for the free memory, unless by `force`.

    >>> from simulator.collectives import find
    >>> from simulator.engines import simulate
    >>> from simulator.steps.step_graph import Call, step_graph
    >>> from topologies.shapes import star
    >>> ranks = np.arange(2)
    >>> graph = step_graph(
    ...     ranks,
    ...     ("compute", "communication"),
    ...     {"place": [0, 0, 1], "lane": [0, 1, 1], "seconds": [1, 0, 0], "call": [-1, 0, 0]},
    ...     [[], [0], []],
    ...     calls=[Call("all", "all_reduce", 8.0, find("ring"))],
    ...     groups={"all": ranks[None, :]},
    ... )
    >>> written = write(graph, star(2, bandwidth=1.0))
    >>> simulate(written.schedule, written.topology).makespan
    9.0
    """
    met = meetings(graph)
    if not force:
        _check_size(graph, met, topology)
    placed, machine, (slots, scratch) = place_buffers(graph, met, topology, distinct)
    ranks = len(machine.placement)
    if not force:
        # Refuse what is larger than foreseen: its operations, and the tables of its slots, which
        # have 32 bytes for each slot of a rank.
        operations = len(graph) + sum(len(each.fitted.schedule) for each in placed)
        _check_operations(operations, 32.0 * ranks * (slots + scratch))
    sizes = slot_sizes(placed, ranks, slots + scratch)
    total = float(sizes[:, :slots].sum(axis=1).max()) or 1.0
    builder = ScheduleBuilder(
        graph.ranks,
        total,
        slots=sizes[:, :slots] / total,
        scratch=sizes[:, slots:] / total,
        switches=ranks - graph.ranks,
    )
    writer = _Writer(graph, builder, placed, met, phases)
    writer.write()
    return Written(builder.build(), machine, writer.first, writer.last, tuple(met), tuple(placed))


def prove(written: Written, seed: int = 0) -> None:
    """Raise :class:`WrongResult` unless every collective keeps its promise. Calls must have
    `distinct` buffers."""
    schedule = written.schedule
    before = semantics.inputs(schedule, seed)
    after = semantics.run(schedule, before)
    for number, placed in enumerate(written.calls):
        child, ranks = placed.fitted.schedule, placed.meeting.ranks
        algorithm = placed.meeting.call.algorithm
        assert algorithm is not None
        collective = algorithm.collective
        where = np.ix_(ranks, np.arange(placed.slot, placed.slot + child.buffer))
        promised, values = collective.postcondition(before[where], None)
        wrong = promised & (after[where] != values)
        if wrong.any() or (collective.causal and any(map(len, absent(child)))):
            raise WrongResult(
                f"call {number}, {collective.name}: {wrong.sum()} of {promised.sum()} results are "
                f"wrong"
            )


def _check_size(graph: StepGraph, met: Sequence[Meeting], topology: Topology) -> None:
    total = float(len(graph))
    counts = Counter((each.call.algorithm, len(each.ranks)) for each in met)
    for (algorithm, ranks), number in counts.items():
        if algorithm is not None:
            least = bounds(algorithm, topology, ranks)
            total += number * max(estimate(algorithm, ranks), *least)
    _check_operations(total, 0.0)


def _check_operations(total: float, nbytes: float) -> None:
    need = Need(total * OPERATION.seconds, total * OPERATION.nbytes + nbytes)
    check(f"the tasks have {total:.3g} operations", need, "take fewer steps or ranks")


class _Writer:
    """Adds the tasks of a graph to a schedule."""

    def __init__(
        self,
        graph: StepGraph,
        builder: ScheduleBuilder,
        placed: Sequence[Placed],
        met: Sequence[Meeting],
        phases: Names,
    ) -> None:
        self.graph, self.builder, self.phases = graph, builder, phases
        self.first, self.last = np.full((2, len(graph)), -1, dtype=np.int32)
        self.calls = {int(each.meeting.tasks.min()): each for each in placed}
        self.unit, self.before, self.sends = partners(graph, met)
        self.receiver = {
            int(each.tasks[0]): int(each.ranks[1]) for each in met if each.call.is_message
        }
        self._indices = np.append(graph.indices, np.int32(0))

    def write(self) -> None:
        """Add all tasks. Tasks of one kind that follow each other and do not wait for each other
        are added at once."""
        order, latest = turns(self.graph, self.unit, self.before, self.sends)
        tasks, waits = order.tolist(), np.diff(self.graph.indptr)[order].tolist()
        begin = 0
        while begin < len(tasks):
            kind, end, width = self._kind(tasks[begin]), begin + 1, waits[begin]
            while end < len(tasks) and latest[end] < begin and self._kind(tasks[end]) == kind:
                width = max(width, waits[end])
                # Waits of tasks that are added at once are a table: it stays small.
                if width * (end + 1 - begin) > 2**20:
                    break
                end += 1
            self.builder.phase(self._phase(tasks[begin]))
            if tasks[begin] in self.calls:
                self._call([self.calls[task] for task in tasks[begin:end]])
            elif tasks[begin] in self.receiver:
                self._send(order[begin:end])
            elif self.sends[tasks[begin]] >= 0:
                self._receive(order[begin:end])
            else:
                self._compute(order[begin:end])
            begin = end

    def _kind(self, task: int) -> tuple[object, ...]:
        """What tasks that are added at once have in common."""
        placed, phase = self.calls.get(task), self._phase(task)
        if placed is None:
            return phase, task in self.receiver, int(self.sends[task]) >= 0
        lane = int(self.graph.lane[task])
        return phase, lane, id(placed.fitted.schedule), placed.slot, placed.scratch

    def _phase(self, task: int) -> str:
        return str(self.phases[task]) if len(self.phases) else self.graph.phase(task)

    def _compute(self, tasks: Numbers) -> None:
        seconds = self.graph.seconds[tasks]
        self.first[tasks] = self.last[tasks] = self._add(tasks, seconds, self._waits(tasks))

    def _send(self, tasks: Numbers) -> None:
        self.first[tasks] = self._add(tasks, np.zeros(len(tasks)), self._waits(tasks))
        for task in tasks.tolist():
            self.last[task] = self.builder.signal(
                int(self.graph.place[task]),
                self.receiver[task],
                nbytes=float(self.graph.nbytes[task]),
                after=self.first[task],
            )[0]

    def _receive(self, tasks: Numbers) -> None:
        nothing = np.zeros(len(tasks))
        self.first[tasks] = entered = self._add(tasks, nothing, self._waits(tasks))
        arrived = self.last[self.sends[tasks]]
        self.last[tasks] = self._add(tasks, nothing, np.stack((entered, arrived), axis=1))

    def _add(self, tasks: Numbers, seconds: Floats, after: Ints) -> Ints:
        place, lane = self.graph.place[tasks], self.graph.lane[tasks]
        return self.builder.compute(place, seconds, lane=lane, after=after)

    def _waits(self, tasks: Numbers) -> Ints:
        """The operations that tasks wait for, a row each; -1 is none."""
        begin, end = self.graph.indptr[tasks], self.graph.indptr[tasks + 1]
        column = begin[:, None] + np.arange(max(1, int((end - begin).max(initial=0))))
        inside, before = column < end[:, None], self.before[tasks]
        waits = self.last[self._indices[np.where(inside, column, 0)]]
        return np.column_stack(
            (np.where(inside, waits, -1), np.where(before >= 0, self.last[before], -1))
        )

    def _call(self, placed: Sequence[Placed]) -> None:
        """All ranks of groups that do the same enter, communicate and leave."""
        alone = placed[0].fitted.schedule
        tasks = np.concatenate([each.meeting.tasks for each in placed])
        ranks = np.concatenate([each.meeting.ranks for each in placed])
        self.first[tasks], _, self.last[tasks] = add_collective(
            self.builder,
            (side_by_side(alone, len(placed)), placed[0].slot, placed[0].scratch),
            ranks,
            self.graph.seconds[tasks],
            self._waits(tasks),
            lane=int(self.graph.lane[tasks[0]]),
            phase=self._phase(int(tasks[0])),
            switches=np.concatenate([each.numbers[alone.workers :] for each in placed]),
        )


def add_collective(
    builder: ScheduleBuilder,
    placed: tuple[Schedule, int, int],
    ranks: Ints,
    seconds: Floats,
    after: Ints,
    *,
    lane: int,
    phase: str | None = None,
    switches: Ints | None = None,
) -> tuple[Ints, Ints, Ints]:
    """Add a collective, `placed` at the first slots of its buffer and of its scratch. On a lane
    each of its `ranks` enters after `after`, which takes `seconds`, and leaves at the end.

    With `switches`, ranks and switches are numbered as the builder does it, and ranks also wait
    for messages without slots. Without, they are all ranks of the builder, or those that stand for
    all.

    It returns the operations to enter, those of the collective, and those to leave.
    """
    child, slot, scratch = placed
    span = {"count": child.buffer, "lane": lane}
    entered = builder.compute(ranks, seconds, writes=slot, after=after, **span)
    # What carries slots waits by itself.
    by_itself = (child.source < 0) & (child.target < 0) & (child.rank < child.workers)
    place = child.rank if child.fold is None else child.fold.shifts.place(child.rank)
    sent = np.where(by_itself, entered[np.minimum(place, len(entered) - 1)], -1)
    every = None if switches is None else np.append(ranks, switches)
    added = builder.inline(
        child, ranks=every, slot=slot, scratch=scratch, phase=phase, after=sent[:, None]
    )
    arrived = () if switches is None else _arrivals(child, added)
    left = builder.compute(ranks, 0.0, reads=slot, writes=slot, after=arrived, **span)
    return entered, added, left


def _arrivals(child: Schedule, added: Ints) -> Ints:
    """The messages without slots that arrive at each rank, a row each; -1 is none."""
    signals = np.flatnonzero((child.source < 0) & child.remote)
    receiver = child.peer[signals]
    ranks = range(child.workers)
    return padded([added[signals[receiver == rank]].tolist() for rank in ranks], 0)
