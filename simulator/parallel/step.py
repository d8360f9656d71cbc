"""A training step of a plan as a schedule on places.

A place stands for all ranks of a device of the pipeline: they do the same at the same time. Its
lanes are the streams of a rank. A collective is an operation on the stream of its group. It takes
as long as in all groups of its kind at once, or until ranks go on that are served before others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from simulator.kernels.records import Csr
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import COMPUTE, HOST, SEND, STREAMS, Pass, PassTask
from simulator.parallel.pipeline_times import item_order, item_waits
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.parallel.shared_media import repeated, usages
from simulator.parallel.step_work import Work, updates
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Flags, Schedule
from simulator.steps import task_rates
from simulator.steps.group_meetings import joint_calls
from simulator.steps.kinds import FORWARD, TRANSFER
from simulator.steps.step_graph import (
    MESSAGE,
    Call,
    StepGraph,
    padded,
    priced,
    step_graph,
    waits_of,
)
from simulator.steps.task_rates import Shared, TaskTimeline
from topologies.columns import distinct_rows, entries, places_in_groups, starts
from topologies.topology import Floats, Ints

Detail = Literal["layers", "passes"]


@dataclass(frozen=True, eq=False)
class Step:
    """The operations of a step."""

    work: Work
    graph: StepGraph
    entries: Ints
    """What the operations of each action wait for, a row an action; -1 is none."""
    tails: Ints
    """The operations with which each action ends, shape (actions, 2); -1 is none."""
    passes: tuple[Pass, ...]
    number: Ints
    """The place of each action's pass in `passes`."""
    device: Ints
    """The place of each action."""

    @cached_property
    def schedule(self) -> Schedule:
        return priced(self.graph)

    @property
    def spans(self) -> Floats:
        """The begin and the end of each action, shape (actions, 2): from when all that it waits for
        has ended, but for its launch."""
        finish = np.append(self.timeline.finish, 0.0)
        ends = [finish[rows].max(axis=1, initial=0.0) for rows in (self.entries, self.tails)]
        return np.stack(ends, axis=1)

    @cached_property
    def timeline(self) -> TaskTimeline:
        return self.simulated(self.graph.seconds)

    def simulated(self, seconds: Floats) -> TaskTimeline:
        """The step with these seconds of its tasks."""
        routed = replace(self.routed, schedule=replace(self.schedule, seconds=seconds))
        lane = self.schedule.lane
        computes, talks = lane == COMPUTE, (lane != COMPUTE) & (lane != HOST)
        return task_rates.run(routed, computes, talks, self.shared)

    @cached_property
    def shared(self) -> Shared:
        """What the calls of tasks use of media that others use, too."""
        graph, passes = self.graph, np.full(len(self.graph), -1)
        passes[self.tails[:, 0]] = self.number
        calls = [(call,) for call in graph.calls] + [each.inside for each in self.passes]
        # A task calls, or has the collectives of a pass inside.
        number = np.where(graph.call >= 0, graph.call, len(graph.calls) + passes)
        number[(graph.call < 0) & (passes < 0)] = -1
        rows = np.flatnonzero(np.array([*map(bool, calls), False])[number])
        # The use of a call is that of the task that takes all of its time.
        rows = rows[np.argsort(-graph.seconds[rows], kind="stable")]
        joined = joint_calls(graph)
        place = graph.place[joined[rows]].astype(np.int64)
        devices = self.work.times.degrees.devices[graph.leaders]
        first, of_rows = distinct_rows(number[rows], place)
        of_first = rows[first]
        callers = [calls[row] for row in number[of_first].tolist()]
        used, usage, media = usages(
            callers,
            devices[place[first]],
            graph.lane[of_first],
            graph.seconds[of_first],
            self.work.times,
        )
        # Pipelines of ranks that differ have media of their own. The n-th places of all devices are
        # of the same pipelines.
        copy = places_in_groups(devices)
        used, begin = repeated(used, usage, of_rows, copy[graph.place[rows]], len(media))
        media = np.tile(media, int(copy.max()) + 1)
        of_task = np.zeros(len(graph), dtype=np.int32)
        of_task[rows] = begin[of_rows]
        return Shared(used, of_task, media, joined, self.work.slowdown)

    @cached_property
    def routed(self) -> Routed:
        """The operations on the machine of places, as if calls of several lanes never met."""
        topology, first = self.work.times.topology, self.graph.leaders
        machine = replace(topology, placement=topology.placement[first])
        return route(self.schedule, machine)


def write(work: Work, detail: Detail = "layers", *, together: bool = False) -> Step:
    """The operations of a step, an operation for each part of each layer, or for each pass of a
    stage where nothing overlaps with a part of it. Both take as long, where media serve all ranks
    alike. `together`: ranks go on when a call has served all of them.

    Raises InputError if transfers are blocking and devices wait for each other without end.
    """
    pipeline, blocking = work.pipeline, work.blocking
    asked = item_waits(pipeline, blocking=blocking, synchronous=work.synchronous)
    order = item_order(pipeline, asked if blocking else None)
    passes, number = _passes(work, detail)
    messages, message = _messages(work)
    # Each item, an action or a transfer, becomes the rows of its pattern. The last item is none.
    # Of each item, `first` is its first task; of each task, `source` is its row.
    patterns = [*passes, *messages]
    pattern = np.concatenate((number, len(passes) + message, [-1]))
    sizes = np.array([len(each.rows) for each in patterns])
    first = np.zeros(len(pattern), dtype=np.int32)
    first[order] = starts(sizes[pattern[order]])[:-1]
    place, source = entries(starts(sizes), pattern[order])
    item = order[place]
    rows = [row for each in patterns for row in each.rows]

    tails = _tasks(padded([*(each.tails for each in patterns), ()], 2)[pattern], first[:, None])
    second = pipeline.second
    ends = tails[second - 1]
    tails[second - 1] = tails[second]
    awaited = tails[asked].reshape(len(asked), -1)
    awaited = awaited[:, (awaited >= 0).any(axis=0)]
    before, enters, launches = _before(rows, max(4, awaited.shape[1]))
    waits = _tasks(before[source], first[item, None])
    opens = (enters | launches if work.synchronous else enters)[source]
    waits[opens, : awaited.shape[1]] = awaited[item[opens]]
    opens = launches[source]
    launched = _tasks(np.array([*(each.launched for each in patterns), -1])[pattern], first)
    waits[opens, -1] = launched[pipeline.before[item[opens]]]
    # A pair of actions ends with a task that waits for both.
    join = tails[second, 0]
    waits[join, :4] = np.append(ends, waits[join, :2], axis=1)

    rest = updates(
        work,
        len(item),
        [tuple(tail[tail >= 0].tolist()) for tail in tails[pipeline.starts[1:] - 1]],
        [
            [tuple(int(first[last]) + end for end in each) for each in passes[number[last]].ends]
            for last in pipeline.last.ravel().tolist()
        ],
    )
    labels = [(device, -1, stage, -1) for device, stage, _ in rest]
    added = [row for *_, row in rest]
    graph = _graph(
        work.times,
        rows + added,
        np.append(source, len(rows) + np.arange(len(rest))),
        np.append(_labels(pipeline)[item], labels, axis=0),
        waits_of([waits, *(np.array([row.before], dtype=np.int32) for row in added)]),
    )
    actions = slice(len(pipeline))
    device = pipeline.device
    step = Step(work, graph, awaited[actions], tails[actions], passes, number, device)
    return step if together else _served(step)


def _served(step: Step) -> Step:
    """The step whose ranks go on when a call has served them, first come first served.

    The next call of a stream finds its media busy until they have served all ranks: what is left of
    that behind the time between two calls counts. The last call of a stream takes all of its time.
    """
    graph, seconds = step.graph, step.graph.seconds.copy()
    end, busy = np.full((2, len(graph)), np.inf)
    for number, call in enumerate(graph.calls):
        for place, ends in step.work.times.served(*call[:3]).items():
            tasks = (graph.call == number) & (graph.place == place)
            end[tasks], busy[tasks] = ends
    if np.isinf(end).all():
        return step
    start, finish = step.timeline.start, step.timeline.finish
    stream = graph.place * len(graph.lanes) + graph.lane
    order = np.lexsort((start, stream))
    follows = np.diff(stream[order]) == 0
    earlier, later = order[:-1][follows], order[1:][follows]
    wait = busy[earlier] - (start[later] - finish[earlier])
    seconds[earlier] = np.minimum(seconds[earlier], np.maximum(end[earlier], wait))
    return replace(step, graph=replace(graph, seconds=seconds))


def _tasks(rows: Ints, first: Ints) -> Ints:
    """The numbers of tasks, from those of rows behind the first one; -1 is none."""
    return np.where(rows >= 0, rows + first, -1).astype(np.int32)


def _passes(work: Work, detail: Detail) -> tuple[tuple[Pass, ...], Ints]:
    """The passes of all stages, and the number of that of each action. Collapsed are those during
    which no gradients are reduced. The second action of a pair ends with a further row."""
    pipeline, places = work.pipeline, np.arange(len(work.pipeline))
    last, second = np.isin(places, pipeline.last), np.isin(places, pipeline.second)
    in_full = pipeline.paired | second | (last & work.sharding.overlap) | (detail == "layers")
    first = np.isin(places, pipeline.first) & work.sharding.ahead
    columns = pipeline.kind, pipeline.stage, last, in_full, second, first
    example, number = distinct_rows(*columns)
    names = np.stack([column[example] for column in columns], axis=1).tolist()
    known: dict[tuple[object, ...], Pass] = {}
    passes = []
    for kind, stage, is_last, is_full, is_second, is_first in names:
        made = work.action(stage, kind, last=bool(is_last), first=bool(is_first))
        alike = type(made), kind, is_last if made.calls else 0, *map(id, made.stage)
        if alike not in known:
            known[alike] = made.written()
        made = known[alike] if is_full or made.calls else known[alike].collapsed()
        passes.append(made.joined() if is_second else made)
    return tuple(passes), number.astype(np.int32)


def _messages(work: Work) -> tuple[list[Pass], Ints]:
    pipeline, messages = work.pipeline, []
    sender, receiver, _, asks = pipeline.transfers
    boundary = pipeline.stage[asks] - (pipeline.kind[asks] == FORWARD)
    columns = pipeline.device[sender], pipeline.device[receiver], boundary
    example, number = distinct_rows(*columns)
    names = np.stack([column[example] for column in columns], axis=1).tolist()
    for start, end, stage in names:
        nbytes = work.stages[stage][-1].output if work.stages[stage] else 0.0
        call = Call(f"{start} to {end}", MESSAGE, nbytes)
        row = PassTask(SEND, work.times.seconds(*call[:3]), TRANSFER, call=call)
        messages.append(Pass((), TRANSFER, work.times, [row], (0,)))
    return messages, number.astype(np.int32)


def _before(rows: Sequence[PassTask], width: int) -> tuple[Ints, Flags, Flags]:
    """What rows wait for, in at least so many columns and one for the CPU; which of them wait for
    what their pass waits for, and with which the CPU begins to launch a pass."""
    before = padded([(*row.before, -1) for row in rows], width + 1)
    before[:, -1] = [row.launched for row in rows]
    by_cpu = np.array([row.lane == HOST for row in rows])
    return before, (before[:, 0] < 0) & ~by_cpu, (before[:, -1] < 0) & by_cpu


def _labels(pipeline: Pipeline) -> Ints:
    """Place, peer, stage and micro-batch of actions, and then of transfers, a row each."""
    (sender, receiver, _, asks), device = pipeline.transfers, pipeline.device
    stage = pipeline.stage[asks] + np.where(pipeline.kind[asks] == FORWARD, -1, 1)
    actions = device, np.full_like(device, -1), pipeline.stage, pipeline.micro
    messages = device[sender], device[receiver], stage, pipeline.micro[asks]
    return np.append(actions, messages, axis=1).T


def _graph(
    times: GroupTimes, rows: Sequence[PassTask], source: Ints, labels: Ints, waits: Csr
) -> StepGraph:
    columns = dict(zip(("place", "peer", "stage", "micro"), labels.T, strict=True))
    for name in ("lane", "seconds", "kind", "layer"):
        columns[name] = np.array([getattr(row, name) for row in rows])[source]
    called = {row.call: times.degrees.size(row.call.group) for row in rows if row.call}
    calls = [call for call, ranks in called.items() if ranks > 1 and call.nbytes > 0]
    number: dict[Call | None, int] = {call: place for place, call in enumerate(calls)}
    columns["call"] = np.array([number.get(row.call, -1) for row in rows])[source]
    columns["seconds"] = _by_place(times, calls, columns)
    return step_graph(
        times.degrees.devices,
        STREAMS,
        columns,
        waits,
        calls=calls,
        groups={call.group: times.degrees.groups(call.group) for call in calls},
    )


def _by_place(times: GroupTimes, calls: Sequence[Call], columns: Mapping[str, Any]) -> Floats:
    """The seconds of tasks: of a call those of the groups of its place."""
    seconds, call, place = (np.array(columns[name]) for name in ("seconds", "call", "place"))
    for number, each in enumerate(calls):
        by_place = times.by_place(*each[:3])
        if len(by_place) > 1:
            rows = call == number
            table = np.array([by_place.get(p, 0.0) for p in range(times.degrees.pp)])
            seconds[rows] = table[place[rows]]
    return seconds
