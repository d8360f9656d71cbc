"""What the devices of a pipeline do in a step: computing, communicating, and waiting, also for each
other: in calls that others enter later, and for what others send later; and when each is idle, and
why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from simulator.analysis.bubbles import (
    DRAIN,
    FILL,
    LAUNCH,
    ROUNDING,
    SLOWER_PEER,
    TRANSFER,
    BubbleSpans,
)
from simulator.parallel.passes import COMPUTE, HOST, SEND, STREAMS
from simulator.parallel.step import Step
from simulator.steps.activity import Activity, States, lane_seconds, states
from simulator.steps.kinds import AGAIN, OPTIMIZER, RESTART
from simulator.steps.step_graph import StepGraph
from topologies.columns import distinct_rows, plain_rows, sums
from topologies.topology import Floats, Ints


@dataclass(frozen=True, eq=False)
class StepMeasures:
    """Seconds of a step, a row a place. Computing, optimizer, restarting, exposed, launching and
    idle add up to the step."""

    step: float
    """Seconds from the start to the end of the last operation."""
    computing: Floats
    optimizer: Floats
    restarting: Floats
    exposed: Floats
    """Communication while nothing is computed, shape (places, streams). Where several streams
    communicate, the first one counts."""
    hidden: Floats
    """Other communication, shape (places, streams). Exposed and hidden add up to the time in which
    a stream communicates."""
    launching: Floats
    """Waiting for the CPU within an action."""
    idle: Floats
    """The bubble of the step: nothing of the above."""
    idle_between: Floats
    """The bubble between the first and the last action of a place."""
    launches: Floats
    """For which the CPU launches, also while the device computes."""

    @property
    def bubble(self) -> float:
        """The mean share of the step for which places are idle."""
        return float(self.idle.mean()) / (self.step or 1.0)


def measure(step: Step) -> StepMeasures:
    """Read the timeline of a step."""
    schedule, places = step.timeline.schedule, step.schedule.ranks
    total = length_of(step)
    rows, (begin, end) = states(activity(step), len(STREAMS)), window(step)
    first, busy = lane_seconds(rows, places)
    inside = ~rows.some & (rows.begin >= begin[rows.place]) & (rows.begin < end[rows.place])
    ran, kind = step.timeline.finish - step.timeline.start, step.graph.kind
    optimizer, restarting = (
        sums(schedule.rank[kind == each], ran[kind == each], places)
        for each in (OPTIMIZER, RESTART)
    )
    inner, active, launched = _collapsed(step)
    exposed, communicating = first + inner, busy + active
    exposed[:, COMPUTE] = communicating[:, COMPUTE] = 0.0
    host = schedule.lane == HOST
    launching = first[:, HOST] + launched
    exposed[:, HOST] = communicating[:, HOST] = 0.0
    # What rounding leaves of the bubble is 0.
    idle = total - first.sum(axis=1)
    computing = first[:, COMPUTE] - inner.sum(axis=1) - launched - optimizer - restarting
    return StepMeasures(
        total,
        computing,
        optimizer,
        restarting,
        exposed,
        communicating - exposed,
        launching,
        np.where(np.abs(idle) > 1e-12 * total, idle, 0.0),
        sums(rows.place[inside], rows.length[inside], places),
        active[:, HOST] + sums(schedule.rank[host], ran[host], places),
    )


def by_device(measures: StepMeasures, graph: StepGraph, device: Ints, steps: int) -> StepMeasures:
    """What a mean rank of each device does in one of several steps. `device` is that of each rank
    of the graph whose places are measured."""
    ranks = np.bincount(device)

    def mean(column: Floats) -> Floats:
        sums = np.zeros((len(ranks), *column.shape[1:]))
        np.add.at(sums, device, column[graph.place_of])
        return np.asarray((sums.T / (ranks * steps)).T)

    columns = (getattr(measures, each.name) for each in fields(measures)[1:])
    return StepMeasures(measures.step / steps, *map(mean, columns))


def length_of(step: Step) -> float:
    """Seconds until all devices are finished."""
    device = step.schedule.lane != HOST
    return float(step.timeline.finish[device].max(initial=0.0))


def activity(step: Step) -> Activity:
    """When the streams of a step are active. A transfer is at both of its ends. The CPU, which has
    no operation, is active from when all that an action waits for has ended."""
    timeline, schedule = step.timeline, step.schedule
    device = np.flatnonzero(schedule.lane != HOST)
    sends = np.flatnonzero(schedule.lane == SEND)
    launched = step.device if len(device) < len(schedule) else step.device[:0]
    begin, end = step.spans[: len(launched)].T
    rows = np.append(device, sends)
    return Activity(
        np.concatenate((schedule.rank[device], step.graph.peer[sends], launched)),
        np.append(schedule.lane[rows], np.full(len(launched), HOST)).astype(np.int32),
        np.append(timeline.start[rows], begin),
        np.append(timeline.finish[rows], end),
        np.append(rows, np.full(len(launched), -1)).astype(np.int32),
    )


def window(step: Step) -> tuple[Floats, Floats]:
    """When the first action of each place begins, and when the last one ends."""
    timeline, schedule = step.timeline, step.schedule
    passing = np.flatnonzero((schedule.lane != HOST) & (step.graph.kind <= AGAIN))
    begin, end = np.full(schedule.ranks, np.inf), np.zeros(schedule.ranks)
    np.minimum.at(begin, schedule.rank[passing], timeline.start[passing])
    np.maximum.at(end, schedule.rank[passing], timeline.finish[passing])
    return begin, end


def _collapsed(step: Step) -> tuple[Floats, Floats, Floats]:
    """What is within passes that are single operations: communication beside which nothing is
    computed, all communication, shape (places, streams), and waiting for the CPU."""
    shape = step.schedule.ranks, len(STREAMS)
    inner, active, launched = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])
    for number, each in enumerate(step.passes):
        if each.ends:
            continue
        count = np.bincount(step.device[step.number == number], minlength=shape[0])
        inner += count[:, None] * each.exposed
        active += count[:, None] * each.busy
        launched += count * (each.rows[0].seconds - each.seconds)
    return inner, active, launched


def peer_waits(step: Step) -> dict[tuple[int, int, int], float]:
    """How many seconds places wait for others in a step: by the place, by the peer for which it
    waits, and by the lane of the call or of what is sent.

    In a call, a place waits from when it enters until the last one does, which is its peer. For a
    message it waits until the peer sends it; the rest is its transfer.
    """
    graph, timeline, tasks = step.graph, step.timeline, np.arange(len(step.graph))
    later, earlier = graph.waiting, graph.indices
    unit, entered, ready = timeline.first, np.zeros(len(graph)), np.zeros(len(graph))
    local = graph.place[later] == graph.place[earlier]
    # What devices that share gradients wait for on each other is the wait of their call.
    local_or_sent = local | (graph.peer[earlier] >= 0)
    later, earlier, local = later[local_or_sent], earlier[local_or_sent], local[local_or_sent]
    np.maximum.at(entered, later, timeline.finish[earlier])
    last = tasks[np.lexsort((-tasks, entered))]
    peer = np.empty(len(graph), dtype=np.int64)
    peer[unit[last]] = last
    peer = peer[unit]
    called = np.flatnonzero(entered[peer] > entered)

    # A device and its CPU may wait for the same message: it counts once.
    np.maximum.at(ready, later[local], timeline.finish[earlier[local]])
    later, earlier = later[~local], earlier[~local]
    late = timeline.start[earlier] - ready[later]
    message = earlier * np.int64(graph.places) + graph.place[later]
    order = np.lexsort((-late, message))
    order = order[np.append(True, np.diff(message[order]) > 0)[: len(order)]]
    order = order[late[order] > 0]
    place = np.append(graph.place[called], graph.place[later[order]])
    awaited = np.append(graph.place[peer[called]], graph.place[earlier[order]])
    lane = np.append(graph.lane[called], graph.lane[earlier[order]])
    seconds = np.append((entered[peer] - entered)[called], late[order])
    first, row = distinct_rows(place, awaited, lane)
    keys = plain_rows(*(each[first] for each in (place, awaited, lane)))
    return dict(zip(keys, np.bincount(row, seconds).tolist(), strict=True))


def step_bubbles(step: Step) -> BubbleSpans:
    """When the devices of the pipeline compute nothing, and why.

    The columns are those of :func:`simulator.analysis.bubbles.bubble_spans`. A rank is a
    device of the pipeline, which stands for all of its ranks. The causes add up to what `simctl
    plan` prints:

    - transfer: the device communicates, and nothing hides it. `operation` is the collective or the
      transfer, whose stream is its lane.
    - launch: the device waits for the CPU.
    - fill: nothing is active before the first action of the device.
    - slower peer: nothing is active between its first action and its last. `operation` is what
      runs elsewhere meanwhile.
    - drain: nothing is active after its last action.
    """
    timeline, total, places = step.timeline, length_of(step), step.schedule.ranks
    # Behind all streams, a further one is active for the whole step.
    whole = np.arange(places), *(np.full(places, value) for value in (len(STREAMS), 0.0, total, -1))
    columns: Iterable[tuple[Any, Any]] = zip(activity(step), whole, strict=True)
    rows = Activity._make(np.concatenate(both) for both in columns)
    every = states(rows, len(STREAMS) + 1)
    idle = (every.length > ROUNDING * total) & (every.first != COMPUTE)
    operation, following = _operations(rows, every)[idle], _following(rows, every)[idle]
    cut = States._make(column[idle] for column in every)
    begin, (first, last) = cut.begin, window(step)
    cause = np.select(
        [cut.first < HOST, cut.first == HOST, begin < first[cut.place], begin < last[cut.place]],
        [TRANSFER, LAUNCH, FILL, SLOWER_PEER],
        DRAIN,
    ).astype(np.int32)
    active = np.where(cause == TRANSFER, operation, -1)
    # A gap ends with what the next computation waits for, or what is active.
    ends = [
        _latest(step, task) if task >= 0 else known for task, known in plain_rows(following, active)
    ]
    awaited = np.where(cause == DRAIN, -1, np.array(ends)).astype(np.int32)
    running = [
        _running(step, operation, since) if known < 0 else known
        for operation, known, since in plain_rows(awaited, active, begin)
    ]
    operation = np.array(running, dtype=np.int32)
    lane, medium = np.full_like(cause, COMPUTE), np.full_like(cause, -1)
    end = np.minimum(begin + cut.length, timeline.makespan)
    return BubbleSpans(cut.place, lane, begin, end, cause, awaited, operation, medium)


def _operations(rows: Activity, every: States) -> Ints:
    """The operation that is active on the first lane of each state."""
    event = np.zeros(every.active.shape, dtype=np.int32)
    begins = np.flatnonzero(every.begun >= 0)
    event[begins, rows.lane[every.begun[begins]]] = begins
    latest = np.maximum.accumulate(event, axis=0)[np.arange(len(event)), every.first]
    return rows.operation[every.begun[latest]]


def _following(rows: Activity, every: States) -> Ints:
    """The next computation of the place behind each state; -1 for none."""
    place, count = every.place, len(every.place)
    computes = (every.begun >= 0) & (rows.lane[every.begun] == COMPUTE)
    begins = np.where(computes, np.arange(count), count)
    event = np.append(np.minimum.accumulate(begins[::-1])[::-1], count)[1:]
    some = np.append(place, -1)[event] == place
    return np.where(some, rows.operation[np.append(every.begun, -1)[event]], -1)


def _running(step: Step, operation: int, since: float) -> int:
    """What runs at a time: back from an operation to what it waited for."""
    start: Floats = step.timeline.start
    while operation >= 0 and start[operation] > since:
        operation = _latest(step, operation)
    return operation


def _latest(step: Step, operation: int) -> int:
    before = step.schedule.predecessors(operation)
    return int(before[np.argmax(step.timeline.finish[before])]) if len(before) else -1
