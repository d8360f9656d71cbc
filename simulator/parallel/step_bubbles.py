"""Bubbles of a step of a plan as columns: when each device is idle, and why."""

from __future__ import annotations

from collections.abc import Iterable
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
from simulator.parallel.passes import COMPUTE, HOST, STREAMS
from simulator.parallel.step import Step
from simulator.parallel.step_measures import activity, length_of, window
from simulator.steps.activity import Activity, States, states
from topologies.topology import Floats, Ints


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
        _latest(step, task) if task >= 0 else known
        for task, known in zip(following.tolist(), active.tolist(), strict=True)
    ]
    awaited = np.where(cause == DRAIN, -1, np.array(ends)).astype(np.int32)
    running = [
        _running(step, operation, since) if known < 0 else known
        for operation, known, since in zip(
            awaited.tolist(), active.tolist(), begin.tolist(), strict=True
        )
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
    """The predecessor that finished last; -1 for none."""
    before = step.schedule.predecessors(operation)
    return int(before[np.argmax(step.timeline.finish[before])]) if len(before) else -1
