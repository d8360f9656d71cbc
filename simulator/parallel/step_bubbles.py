"""Bubbles of a step of a plan as columns: when each device is idle, and why."""

from __future__ import annotations

import numpy as np

from simulator.analysis.bubble_spans import FILL, LAUNCH, ROUNDING, BubbleSpans
from simulator.analysis.bubbles import DRAIN, SLOWER_PEER, TRANSFER
from simulator.parallel.passes import COMPUTE, HOST, STREAMS
from simulator.parallel.step import Step
from simulator.parallel.step_measures import activity, length_of, window
from simulator.steps.activity import Activity, States, states
from topologies.topology import Floats, Ints


def step_bubbles(step: Step) -> BubbleSpans:
    """When the devices of the pipeline compute nothing, and why.

    The columns are those of :func:`simulator.analysis.bubble_spans.bubble_spans`. A rank is a
    device of the pipeline, which stands for all of its ranks. The causes add up to what `simctl
    train --plan` prints:

    - transfer: the device communicates, and nothing hides it. `operation` is the collective or the
      transfer, whose stream is its lane.
    - launch: the device waits for the CPU.
    - fill: nothing is active before the first action of the device.
    - slower peer: nothing is active between its first action and its last. `operation` is what
      runs elsewhere meanwhile.
    - drain: nothing is active after its last action.
    """
    timeline, total, rows = step.timeline, length_of(step), activity(step)
    cut = _with_ends(states(rows, len(STREAMS)), step.schedule.ranks, total)
    first, last = window(step)
    idle = cut.length > ROUNDING * total
    idle &= ~cut.active[:, COMPUTE]
    cut = States._make(column[idle] for column in cut)
    begin = cut.begin
    nothing = [begin < first[cut.place], begin < last[cut.place]]
    cause = np.where(
        cut.some,
        np.where(cut.first == HOST, LAUNCH, TRANSFER),
        np.select(nothing, [FILL, SLOWER_PEER], DRAIN),
    ).astype(np.int32)
    active = np.where(cause == TRANSFER, _active(rows, cut), -1)
    awaited = np.where(cause == DRAIN, -1, _awaited(step, cut, active)).astype(np.int32)
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


def _with_ends(rows: States, places: int, total: float) -> States:
    """The states with what comes before the first and after the last of each place."""
    final = np.append(np.diff(rows.place) > 0, True)[: len(rows.place)]
    length = np.where(final, total - rows.begin, rows.length)
    begin = np.full(places, total)
    np.minimum.at(begin, rows.place, rows.begin)
    before = np.zeros((places, rows.active.shape[1]), dtype=np.bool_)
    place = np.concatenate((np.arange(places, dtype=np.int32), rows.place))
    start = np.concatenate((np.zeros(places), rows.begin))
    order = np.lexsort((np.arange(len(place)), start, place))
    return States(
        place[order],
        start[order],
        np.concatenate((begin, length))[order],
        np.concatenate((before, rows.active))[order],
    )


def _active(rows: Activity, cut: States) -> Ints:
    """The operation that is active on the first stream of each state."""
    order = np.lexsort((rows.begin, rows.lane, rows.place))
    sorted_rows = Activity._make(column[order] for column in rows)
    result = np.full(len(cut.place), -1, dtype=np.int32)
    stream = cut.first
    for place, lane in np.unique(np.stack((cut.place, stream)), axis=1).T.tolist():
        of_stream = (sorted_rows.place == place) & (sorted_rows.lane == lane)
        of_stream &= sorted_rows.end > sorted_rows.begin
        chosen = (cut.place == place) & (stream == lane)
        if of_stream.any():
            at = np.searchsorted(sorted_rows.begin[of_stream], cut.begin[chosen], side="right") - 1
            result[chosen] = sorted_rows.operation[of_stream][np.maximum(at, 0)]
    return result


def _awaited(step: Step, cut: States, active: Ints) -> Ints:
    """The operation whose finish ends the gap of each state: what the next computation of the place
    waits for, or what is active."""
    schedule, timeline = step.schedule, step.timeline
    computing = np.flatnonzero((schedule.lane == COMPUTE) & (timeline.finish > timeline.start))
    computing = computing[np.lexsort((timeline.start[computing], schedule.rank[computing]))]
    result = active.astype(np.int32)
    for place in np.unique(cut.place).tolist():
        mine = computing[schedule.rank[computing] == place]
        chosen = np.flatnonzero(cut.place == place)
        after = np.searchsorted(timeline.start[mine], cut.begin[chosen], side="right")
        waits = after < len(mine)
        result[chosen[waits]] = [
            _latest(step, operation) for operation in mine[after[waits]].tolist()
        ]
    return result


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
