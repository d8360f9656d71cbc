"""What the devices of a pipeline do in a step: computing, communicating, and waiting."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from simulator.parallel.passes import COMPUTE, HOST, SEND, STREAMS
from simulator.parallel.step import Step
from simulator.steps.activity import Activity, lane_seconds, states, summed
from simulator.steps.kinds import AGAIN, OPTIMIZER, RESTART
from simulator.steps.step_graph import StepGraph
from topologies.topology import Floats, Ints

COMMUNICATION = tuple(range(1, HOST))
"""The streams that communicate. Where several do, the first one counts as exposed."""


@dataclass(frozen=True, eq=False)
class StepMeasures:
    """Seconds of a step, a row a place. Computing, optimizer, restarting, exposed, launching and
    idle add up to the step."""

    step: float
    """Seconds from the start to the end of the last operation."""
    computing: Floats
    """Forwards and backwards."""
    optimizer: Floats
    restarting: Floats
    exposed: Floats
    """Communication while nothing is computed, shape (places, streams)."""
    hidden: Floats
    """Other communication, shape (places, streams). Exposed and hidden add up to the time in which
    a stream communicates."""
    launching: Floats
    """Waiting for the CPU within an action."""
    idle: Floats
    """The bubble of the step: nothing of the above."""
    idle_between: Floats
    """The bubble between the first and the last action of a place."""

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
        summed(schedule.rank[kind == each], ran[kind == each], places)
        for each in (OPTIMIZER, RESTART)
    )
    inner, active, launched = _collapsed(step)
    exposed, communicating = first + inner, busy + active
    exposed[:, COMPUTE] = communicating[:, COMPUTE] = 0.0
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
        summed(rows.place[inside], rows.length[inside], places),
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
        launched += count * max(0.0, each.launch - each.seconds)
    return inner, active, launched
