"""The film of a pipeline: micro-batches move from device to device."""

from __future__ import annotations

import numpy as np

from experiments.animation.film import Figure, Film, Key, rows_of
from experiments.animation.step_film import (
    SAMPLES,
    Change,
    Event,
    Flight,
    Step,
    Task,
    merged,
    step_film,
)
from simulator.parallel.pipeline_times import PipelineTimes
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS
from topologies.errors import InputError
from topologies.units import format_seconds

KINDS = (
    Key("forward", "#56b4e9", "F"),
    Key("backward", "#0072b2", "B"),
    Key("backward for inputs", "#009e73", "I"),
    Key("backward for weights", "#e69f00", "W"),
)
STATES = (
    Key("not here yet", "#dfe3e8"),
    Key("waits", "#f0e442", "…"),
    *KINDS,
    Key("activations kept", "#cc79a7", "▪"),
    Key("done", "#8a8f98", "✓"),
)
WAITS, KEPT, DONE = STATES[1], STATES[6], STATES[7]
SEEN = 0.25
"""A transfer is drawn for at least this share of the shortest action, so that it can be seen."""
MOST_DEVICES, MOST_ACTIONS = 32, 8_000
NAMED = 6
"""Devices that a sentence names."""


def pipeline_film(times: PipelineTimes, transfer: float) -> Film:
    """The film of a pipeline whose transfers take so many seconds.

    Raises InputError for too many devices or actions, or a step that takes no time.
    """
    pipeline = times.pipeline
    if not 2 <= pipeline.devices <= MOST_DEVICES:
        raise InputError(
            f"{pipeline.devices} devices: an animation shows 2 to {MOST_DEVICES} of them"
        )
    if len(pipeline) > MOST_ACTIONS:
        raise InputError(
            f"{len(pipeline)} actions: an animation shows at most {MOST_ACTIONS}, take fewer "
            f"micro-batches"
        )
    if not times.step:
        raise InputError("the step takes 0s: there is nothing to animate, use --forward 1ms")
    columns = pipeline.device, times.start, times.finish, pipeline.kind, pipeline.micro
    tasks = [
        Task(device, 0, begin, end, KINDS[kind], micro)
        for device, begin, end, kind, micro in rows_of(*columns)
    ]
    flights = _flights(times, transfer)
    rows = [f"device {device}" for device in range(pipeline.devices)]
    changes, events = _changes(tasks, flights), _events(times, tasks)
    step = Step(rows, "micro-batches", STATES, tasks, changes, flights, events)
    idle = format_seconds(float(times.idle.max()))
    facts = [f"A step takes {format_seconds(times.step)}. The most idle device waits for {idle}."]
    return step_film(step, _figures(times), facts)


def _flights(times: PipelineTimes, transfer: float) -> list[Flight]:
    """Results on their way to the device of the next stage."""
    device, micro, need = times.pipeline.device, times.pipeline.micro, times.pipeline.needs[:, 0]
    chosen = np.flatnonzero((need >= 0) & (device[need] != device))
    length = times.finish - times.start
    shortest = float(length[length > 0].min(initial=times.step))
    begin, sender = times.finish[need[chosen]], device[need[chosen]]
    arrive = begin + max(transfer, SEEN * shortest)
    columns = begin, arrive, sender, device[chosen], micro[chosen]
    return [Flight(*row) for row in rows_of(*columns)]


def _changes(tasks: list[Task], flights: list[Flight]) -> list[Change]:
    """Where each micro-batch is at each device."""
    changes, known = list[Change](), set[tuple[int, int]]()
    arrivals = {(each.peer, each.item): each.end for each in reversed(flights)}
    for row, _, begin, end, key, item in sorted(tasks, key=lambda task: task.begin):
        if (row, item) not in known and arrivals.get((row, item), begin) < begin:
            changes.append(Change(arrivals[row, item], row, item, WAITS))
        known.add((row, item))
        after = KEPT if key in (KINDS[FORWARD], KINDS[INPUTS]) else DONE
        changes += [Change(begin, row, item, key), Change(end, row, item, after)]
    return changes


def _events(times: PipelineTimes, tasks: list[Task]) -> list[Event]:
    """The moments at which actions end, and what devices do until then."""
    step, devices = times.step, times.pipeline.devices
    events, before = list[Event](), 0.0
    for end in (np.unique(np.round(times.finish / step, 9)) * step).tolist():
        middle = (before + end) / 2
        running = np.flatnonzero((times.start < middle) & (middle < times.finish))
        acting = [tasks[action] for action in running.tolist()]
        title = f"{len({task.row for task in acting})} of {devices} devices compute"
        events.append(Event(end, title, _sentence(acting)))
        before = end
    return merged(events, step)


def _sentence(acting: list[Task]) -> str:
    does = [f"device {task.row} runs the {task.key.name} of {task.item}" for task in acting]
    more = [f"and {len(does) - NAMED} more"] * (len(does) > NAMED)
    text = ", ".join([*does[:NAMED], *more]) or "all devices wait"
    return f"{text[0].upper()}{text[1:]}."


def _figures(times: PipelineTimes) -> list[Figure]:
    pipeline, moments = times.pipeline, np.linspace(0.0, times.step, SAMPLES)
    work = np.clip(moments[:, None] - times.start, 0.0, times.finish - times.start).sum(axis=1)
    idle = np.maximum(1 - work[1:] / (pipeline.devices * moments[1:]), 0.0)
    last = np.zeros(pipeline.micro_batches)
    np.maximum.at(last, pipeline.micro, times.finish)
    done = np.arange(pipeline.micro_batches + 1.0)
    # Of an activation that is kept the moment at which that begins or ends.
    ends = (pipeline.kind == BACKWARD) | (pipeline.kind == INPUTS)
    change = np.where(pipeline.kind == FORWARD, 1.0, np.where(ends, -1.0, 0.0))
    moment = np.where(ends, times.finish, times.start)
    order = np.lexsort((change, moment))
    activations = np.zeros((len(order) + 1, pipeline.devices))
    activations[np.arange(len(order)) + 1, pipeline.device[order]] = change[order]
    chunks = np.unique(pipeline.device * pipeline.stages + pipeline.stage)
    stages = len(chunks) / pipeline.devices
    most = activations.cumsum(axis=0).max(axis=1) / stages
    return [
        Figure("micro-batches done", "count", np.append(0.0, np.sort(last)), done, jumps=True),
        Figure("idle so far", "share", moments, np.append(0.0, idle)),
        Figure(
            "activations of the fullest device",
            "count",
            np.append(0.0, moment[order]),
            most,
            jumps=True,
        ),
    ]
