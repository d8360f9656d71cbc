"""What the devices of a pipeline do in a step: computing, communicating, and waiting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.parallel.passes import AGAIN, COMPUTE, HOST, OPTIMIZER, SEND, STREAMS
from simulator.parallel.step import Step
from topologies.topology import Floats, Ints

COMMUNICATION = tuple(range(1, HOST))
"""The streams that communicate. Where several do, the first one counts as exposed."""


@dataclass(frozen=True, eq=False)
class StepMeasures:
    """Seconds of a step, a row a place. Computing, optimizer, exposed, launching and idle add up to
    the step."""

    step: float
    """Seconds from the start to the end of the last operation."""
    computing: Floats
    """Forwards and backwards."""
    optimizer: Floats
    """The optimizer."""
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
    timeline, schedule, labels = step.timeline, step.schedule, step.labels
    places, streams = schedule.ranks, len(STREAMS)
    device = np.flatnonzero(schedule.lane != HOST)
    sends = np.flatnonzero(schedule.lane == SEND)
    spans = _spans(step) if len(device) < len(schedule) else np.zeros((0, 3))
    place = np.concatenate((schedule.rank[device], labels.peer[sends], spans[:, 0]))
    lane = np.concatenate((schedule.lane[device], schedule.lane[sends], np.full(len(spans), HOST)))
    rows = np.append(device, sends)
    begin = np.concatenate((timeline.start[rows], spans[:, 1]))
    end = np.concatenate((timeline.finish[rows], spans[:, 2]))
    total = float(timeline.finish[device].max(initial=0.0))
    passing = device[labels.kind[device] <= AGAIN]
    window = np.full(places, np.inf), np.zeros(places)
    np.minimum.at(window[0], schedule.rank[passing], timeline.start[passing])
    np.maximum.at(window[1], schedule.rank[passing], timeline.finish[passing])
    first, busy, between = _sweep(
        place.astype(np.int32), lane.astype(np.int32), begin, end, (places, streams), window
    )
    updating = schedule.lane == COMPUTE
    updating &= labels.kind == OPTIMIZER
    optimizer = _summed(schedule.rank[updating], schedule.seconds[updating], places)
    inner, active, launched = _collapsed(step)
    exposed, communicating = first + inner, busy + active
    exposed[:, COMPUTE] = communicating[:, COMPUTE] = 0.0
    launching = first[:, HOST] + launched
    exposed[:, HOST] = communicating[:, HOST] = 0.0
    computing = first[:, COMPUTE] - inner.sum(axis=1) - launched - optimizer
    return StepMeasures(
        total,
        computing,
        optimizer,
        exposed,
        communicating - exposed,
        launching,
        total - first.sum(axis=1),
        between,
    )


def _sweep(
    place: Ints,
    lane: Ints,
    begin: Floats,
    end: Floats,
    shape: tuple[int, int],
    window: tuple[Floats, Floats],
) -> tuple[Floats, Floats, Floats]:
    """How long each stream of a place is the first of the active ones, and how long it is active,
    shape (places, streams); and how long no stream is active within the window of each place."""
    lasting = end > begin
    count, lanes = int(lasting.sum()), np.tile(lane[lasting], 2)
    where, time = np.tile(place[lasting], 2), np.concatenate((begin[lasting], end[lasting]))
    order = np.lexsort((time, where))
    change = np.zeros((len(order), shape[1]), dtype=np.int32)
    change[np.arange(len(order)), lanes[order]] = np.repeat((1, -1), count)[order]
    active = np.cumsum(change, axis=0) > 0
    where, time = where[order], time[order]
    length = np.append(np.diff(time), 0.0)
    length[np.append(np.diff(where) > 0, True)] = 0.0
    first, busy = np.zeros(shape), np.zeros(shape)
    some = active.any(axis=1)
    np.add.at(first, (where[some], active[some].argmax(axis=1)), length[some])
    for stream in range(shape[1]):
        busy[:, stream] = _summed(where, length * active[:, stream], shape[0])
    inside = ~some & (time >= window[0][where]) & (time < window[1][where])
    return first, busy, _summed(where[inside], length[inside], shape[0])


def _summed(place: Ints, seconds: Floats, places: int) -> Floats:
    return np.asarray(np.bincount(place, seconds, places), dtype=np.float64)


def _spans(step: Step) -> Floats:
    """The place, the start and the end of each action: from when all that it waits for has ended,
    but for its launch."""
    return np.column_stack((step.work.pipeline.device.astype(np.float64), step.spans))


def _collapsed(step: Step) -> tuple[Floats, Floats, Floats]:
    """What is within passes that are single operations: communication beside which nothing is
    computed, all communication, shape (places, streams), and waiting for the CPU."""
    shape = step.schedule.ranks, len(STREAMS)
    inner, active, launched = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])
    for number, each in enumerate(step.passes):
        if each.ends:
            continue
        count = np.bincount(step.work.pipeline.device[step.number == number], minlength=shape[0])
        inner += count[:, None] * each.exposed
        active += count[:, None] * each.busy
        launched += count * max(0.0, each.launch - each.seconds)
    return inner, active, launched
