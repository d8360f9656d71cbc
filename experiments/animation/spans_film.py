"""The film of a step of any strategy or plan, or of a pipeline: places as rows, and what each works
on."""

from __future__ import annotations

from collections.abc import Sequence

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
    messages,
    overlap_figures,
    step_film,
)
from experiments.pictures.timelines.palette import colours
from experiments.pictures.timelines.step_spans import StepSpans
from simulator.parallel.pipeline_times import PipelineTimes
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, KINDS, WEIGHTS
from simulator.training.plan import COMPUTE
from topologies.errors import InputError
from topologies.units import format_seconds

STATES = (
    Key("not here yet", "#dfe3e8"),
    Key("waits", "#f0e442", "…"),
    Key("activations kept", "#cc79a7", "▪"),
    Key("done", "#8a8f98", "✓"),
)
AHEAD, WAITS, KEPT, DONE = STATES
SIGNS = {KINDS[INPUTS]: "I", KINDS[WEIGHTS]: "W"}
"""The signs of kinds whose first letter is that of another kind."""
SEEN = 0.25
"""A transfer of a pipeline is drawn for at least this share of the shortest action, so that it can
be seen."""
MOST_ROWS, MOST_TASKS = 32, 8_000
NAMED = 6
"""Rows that a sentence names."""


def spans_film(spans: StepSpans) -> Film:
    """The film of a run. Its items are micro-batches, or steps where there are none.

    Raises InputError for too many rows or tasks.
    """
    boxes, graph, end = spans.device_boxes, spans.graph, spans.timeline.makespan
    rows = [spans.place_name(place) for place in spans.places.tolist()]
    _check(len(rows), len(boxes.row))
    item, items = graph.micro[boxes.task], "micro-batches"
    if not (graph.micro >= 0).any():
        # Servers are in the step of the last worker.
        ends = spans.ends[:, np.minimum(boxes.row, spans.workers - 1)]
        item, items = np.sum(ends[:-1] < boxes.end * (1 - 1e-12), axis=0), "steps"
    lane = np.searchsorted(np.union1d(boxes.lane, COMPUTE), boxes.lane)
    keys = _keys(spans.legend)
    tasks = [
        Task(place, stream, begin, until, keys[kind], number)
        for place, stream, begin, until, kind, number in rows_of(boxes.row, lane, *boxes[2:5], item)
    ]
    items_of = np.zeros(len(graph), dtype=np.int32)
    items_of[boxes.task] = np.maximum(item, 0)
    facts = [f"The run takes {format_seconds(end)}.", *spans.remarks]
    figures = overlap_figures(boxes, len(rows), end)
    return _film(rows, items, tasks, messages(spans, items_of), figures, facts)


def pipeline_film(times: PipelineTimes, transfer: float) -> Film:
    """The film of a pipeline whose transfers take so many seconds: micro-batches move from device
    to device.

    Raises InputError for too many devices or actions, or a step that takes no time.
    """
    pipeline = times.pipeline
    if not 2 <= pipeline.devices <= MOST_ROWS:
        raise InputError(f"{pipeline.devices} devices: an animation shows 2 to {MOST_ROWS} of them")
    _check(pipeline.devices, len(pipeline))
    if not times.step:
        raise InputError("the step takes 0s: there is nothing to animate, use --times forward=1ms")
    keys, columns = _keys(KINDS[:4]), (pipeline.device, times.start, times.finish)
    tasks = [
        Task(device, COMPUTE, begin, end, keys[kind], micro)
        for device, begin, end, kind, micro in rows_of(*columns, pipeline.kind, pipeline.micro)
    ]
    rows = [f"device {device}" for device in range(pipeline.devices)]
    idle = format_seconds(float(times.idle.max()))
    facts = [f"A step takes {format_seconds(times.step)}. The most idle device waits for {idle}."]
    flights = _transfers(times, transfer)
    return _film(rows, "micro-batches", tasks, flights, _pipeline_figures(times), facts)


def _check(rows: int, tasks: int) -> None:
    if rows > MOST_ROWS or tasks > MOST_TASKS:
        raise InputError(
            f"{rows} rows with {tasks} tasks: an animation shows {MOST_ROWS} and {MOST_TASKS} at "
            f"most, take fewer ranks, devices, layers, micro-batches or steps"
        )


def _keys(kinds: Sequence[str]) -> list[Key]:
    palette = colours(kinds)
    return [Key(kind, palette[kind], SIGNS.get(kind, kind[0].upper())) for kind in kinds]


def _film(
    rows: list[str],
    items: str,
    tasks: list[Task],
    flights: list[Flight],
    figures: list[Figure],
    facts: list[str],
) -> Film:
    states = [*STATES, *dict.fromkeys(task.key for task in tasks)]
    main = sorted((task for task in tasks if task.lane == COMPUTE), key=lambda task: task.begin)
    changes = _changes([task for task in main if task.item >= 0], flights)
    step = Step(rows, items, states, tasks, changes, flights, _events(rows, main, tasks))
    return step_film(step, figures, facts)


def _changes(tasks: list[Task], flights: list[Flight]) -> list[Change]:
    """Where each item is at each row, by the tasks in the order of time."""
    arrivals = {(each.peer, each.item): each.end for each in reversed(flights)}
    last = {(task.row, task.item): task.end for task in tasks}
    changes, known = list[Change](), set[tuple[int, int]]()
    for row, _, begin, end, key, item in tasks:
        if (row, item) not in known and arrivals.get((row, item), begin) < begin:
            changes.append(Change(arrivals[row, item], row, item, WAITS))
        known.add((row, item))
        after = KEPT if key.name in (KINDS[FORWARD], KINDS[INPUTS]) else WAITS
        after = DONE if end >= last[row, item] else after
        changes += [Change(begin, row, item, key), Change(end, row, item, after)]
    return changes


def _events(rows: list[str], main: list[Task], tasks: list[Task]) -> list[Event]:
    """The moments at which computations end, and what rows do until then."""
    step, before = max(task.end for task in tasks), 0.0
    start, finish = np.array([(task.begin, task.end) for task in main]).reshape(-1, 2).T
    events, what = list[Event](), rows[0].partition(" ")[0]
    for end in (np.unique(np.round(finish / step, 9)) * step).tolist():
        middle = (before + end) / 2
        acting = [main[k] for k in np.flatnonzero((start < middle) & (middle < finish)).tolist()]
        does = [
            f"{rows[task.row]} runs the {task.key.name}" + f" of {task.item}" * (task.item >= 0)
            for task in acting
        ]
        more = [f"and {len(does) - NAMED} more"] * (len(does) > NAMED)
        text = ", ".join([*does[:NAMED], *more]) or f"all {what}s wait"
        title = f"{len({task.row for task in acting})} of {len(rows)} {what}s compute"
        events.append(Event(end, title, f"{text[0].upper()}{text[1:]}."))
        before = end
    return merged([*events, Event(step, "end", "All is done.")], step)


def _transfers(times: PipelineTimes, transfer: float) -> list[Flight]:
    """Results on their way to the device of the next stage."""
    device, micro, need = times.pipeline.device, times.pipeline.micro, times.pipeline.needs[:, 0]
    chosen = np.flatnonzero((need >= 0) & (device[need] != device))
    length = times.finish - times.start
    shortest = float(length[length > 0].min(initial=times.step))
    begin, sender = times.finish[need[chosen]], device[need[chosen]]
    arrive = begin + max(transfer, SEEN * shortest)
    columns = begin, arrive, sender, device[chosen], micro[chosen]
    return [Flight(*row) for row in rows_of(*columns)]


def _pipeline_figures(times: PipelineTimes) -> list[Figure]:
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
    most = activations.cumsum(axis=0).max(axis=1) * pipeline.devices / len(chunks)
    held, fullest = np.append(0.0, moment[order]), "activations of the fullest device"
    return [
        Figure("micro-batches done", "count", np.append(0.0, np.sort(last)), done, jumps=True),
        Figure("idle so far", "share", moments, np.append(0.0, idle)),
        Figure(fullest, "count", held, most, jumps=True),
    ]
