"""Films of steps: of any strategy or plan, of a pipeline, and of DDP with its buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.animation.film import Film, Key, RunningFigure
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
from experiments.pictures.timelines.step_spans import StepSpans, strategy_spans
from simulator.parallel.pipeline_times import PipelineTimes
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, KINDS, WEIGHTS
from simulator.training.buckets import Bucket, initial, rebuilt
from simulator.training.plan import COMPUTE
from topologies.columns import plain_rows
from topologies.errors import InputError
from topologies.topology import Floats
from topologies.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from simulator.schedules.timeline import Timeline
    from simulator.training.ddp import DDP
    from simulator.training.plan import Plan

STATES = (
    Key("not here yet", "#dfe3e8"),
    Key("waits", "#f0e442", "…"),
    Key("activations kept", "#cc79a7", "▪"),
    Key("done", "#8a8f98", "✓"),
)
"""The states of micro-batches and steps."""
AHEAD, WAITS, KEPT, DONE = STATES
BUCKET_STATES = (
    Key("no gradients yet", "#dfe3e8"),
    Key("gradients being computed", "#0072b2", "…"),
    Key("ready", "#cc79a7", "▪"),
    Key("travels", "#e69f00", "→"),
    Key("averaged", "#009e73", "✓"),
)
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
    columns = boxes.row, lane, *boxes[2:5], item
    tasks = [
        Task(place, stream, begin, until, keys[kind], number)
        for place, stream, begin, until, kind, number in plain_rows(*columns)
    ]
    items_of = np.zeros(len(graph), dtype=np.int32)
    items_of[boxes.task] = np.maximum(item, 0)
    facts = [f"The run takes {format_seconds(end)}.", *spans.remarks]
    step = _step(rows, items, tasks, messages(spans, items_of))
    return step_film(step, overlap_figures(boxes, len(rows), end), facts)


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
        for device, begin, end, kind, micro in plain_rows(*columns, pipeline.kind, pipeline.micro)
    ]
    rows = [f"device {device}" for device in range(pipeline.devices)]
    idle = format_seconds(float(times.idle.max()))
    facts = [f"A step takes {format_seconds(times.step)}. The most idle device waits for {idle}."]
    step = _step(rows, "micro-batches", tasks, _transfers(times, transfer))
    return step_film(step, _pipeline_figures(times), facts)


def _check(rows: int, tasks: int) -> None:
    if rows > MOST_ROWS or tasks > MOST_TASKS:
        raise InputError(
            f"{rows} rows with {tasks} tasks: an animation shows {MOST_ROWS} and {MOST_TASKS} at "
            f"most, take fewer ranks, devices, layers, micro-batches or steps"
        )


def _keys(kinds: Sequence[str]) -> list[Key]:
    palette = colours(kinds)
    return [Key(kind, palette[kind], SIGNS.get(kind, kind[0].upper())) for kind in kinds]


def _step(rows: list[str], items: str, tasks: list[Task], flights: list[Flight]) -> Step:
    """A step whose items are in the states of what the main lanes do with them."""
    keys = [*STATES, *dict.fromkeys(task.key for task in tasks)]
    main = sorted((task for task in tasks if task.lane == COMPUTE), key=lambda task: task.begin)
    arrivals = {(each.peer, each.item): each.end for each in reversed(flights)}
    working = [task for task in main if task.item >= 0]
    last = {(task.row, task.item): task.end for task in working}
    changes, known = list[Change](), set[tuple[int, int]]()
    for row, _, begin, end, key, item in working:
        if (row, item) not in known and arrivals.get((row, item), begin) < begin:
            changes.append(Change(arrivals[row, item], row, item, WAITS))
        known.add((row, item))
        after = KEPT if key.name in (KINDS[FORWARD], KINDS[INPUTS]) else WAITS
        after = DONE if end >= last[row, item] else after
        changes += [Change(begin, row, item, key), Change(end, row, item, after)]
    until = max(task.end for task in tasks)
    return Step(rows, items, keys, tasks, changes, flights, _events(rows, main, until))


def _events(rows: list[str], main: list[Task], until: float) -> list[Event]:
    """The moments at which computations end, and what rows do before."""
    start, finish = np.array([(task.begin, task.end) for task in main]).reshape(-1, 2).T
    events, what, before = list[Event](), rows[0].partition(" ")[0], 0.0
    for end in (np.unique(np.round(finish / until, 9)) * until).tolist():
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
    return merged([*events, Event(until, "end", "All is done.")], until)


def _transfers(times: PipelineTimes, transfer: float) -> list[Flight]:
    device, micro, need = times.pipeline.device, times.pipeline.micro, times.pipeline.needs[:, 0]
    chosen = np.flatnonzero((need >= 0) & (device[need] != device))
    length = times.finish - times.start
    shortest = float(length[length > 0].min(initial=times.step))
    begin, sender = times.finish[need[chosen]], device[need[chosen]]
    arrive = begin + max(transfer, SEEN * shortest)
    columns = begin, arrive, sender, device[chosen], micro[chosen]
    return [Flight(*row) for row in plain_rows(*columns)]


def _pipeline_figures(times: PipelineTimes) -> list[RunningFigure]:
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
        RunningFigure(
            "micro-batches done", "count", np.append(0.0, np.sort(last)), done, jumps=True
        ),
        RunningFigure("idle so far", "share", moments, np.append(0.0, idle)),
        RunningFigure(fullest, "count", held, most, jumps=True),
    ]


def ddp_film(plan: Plan, timeline: Timeline, strategy: DDP) -> Film:
    """The film of a step of DDP: buckets become ready and travel while the backward goes on."""
    buckets = (initial if strategy.find_unused else rebuilt)(plan.model, strategy.bucket)
    spans = strategy_spans(plan, timeline)
    boxes = spans.boxes.take(spans.boxes.row < plan.workers)
    times, palette = _bucket_times(plan, timeline, buckets), colours(spans.kinds)
    keys = {kind: Key(kind, palette[kind]) for kind in spans.kinds}
    columns = *boxes[:5], spans.graph.bucket[boxes.task]
    step = Step(
        [f"rank {rank}" for rank in range(plan.workers)],
        "buckets",
        [*BUCKET_STATES, *keys.values()],
        [
            Task(rank, lane, begin, end, keys[spans.legend[kind]], item)
            for rank, lane, begin, end, kind, item in plain_rows(*columns)
        ],
        [
            Change(moment, rank, item, BUCKET_STATES[place + 1])
            for (place, item, rank), moment in np.ndenumerate(times)
        ],
        messages(spans, spans.graph.bucket),
        _bucket_events(timeline.makespan, buckets, times),
    )
    facts = [f"A step takes {format_seconds(timeline.makespan)}. It has {plan.words[0]}."]
    if not step.flights:
        facts.append("The messages of its buckets are too many to draw.")
    remote = np.flatnonzero(timeline.schedule.remote)
    order = remote[np.argsort(timeline.finish[remote])]
    arrived = np.append(0.0, timeline.finish[order])
    nbytes = np.append(0.0, np.cumsum(timeline.schedule.nbytes[order]))
    moved = RunningFigure("bytes moved", "bytes", arrived, nbytes, jumps=True)
    overlap = overlap_figures(boxes, plan.workers, timeline.makespan)
    return step_film(step, [moved, *overlap], facts)


def _bucket_times(plan: Plan, timeline: Timeline, buckets: list[Bucket]) -> Floats:
    """When the gradients of each bucket are begun and complete, and when its all-reduce begins and
    ends, at each worker: shape (4, buckets, workers)."""
    graph, (begin, end) = plan.graph, plan.times(timeline)
    shape = len(plan.model.layers), plan.workers
    begun, complete = np.full(shape, np.inf), np.zeros(shape)
    # Of several batches the last one counts: it is the one that is communicated.
    main = np.flatnonzero(graph.kind == BACKWARD)
    place = graph.layer[main], graph.place[main]
    begun[place], complete[place] = begin[main], end[main]
    times = np.zeros((4, len(buckets), plan.workers))
    for number, each in enumerate(buckets):
        layers = list(each.layers)
        times[:2, number] = begun[layers].min(axis=0), complete[layers].max(axis=0)
    calls = np.flatnonzero(graph.bucket >= 0)
    times[2:, graph.bucket[calls], graph.place[calls]] = begin[calls], end[calls]
    return times


def _bucket_events(end: float, buckets: list[Bucket], times: Floats) -> list[Event]:
    events = [Event(float(times[0].min()), "forward", "All ranks run the forward pass.")]
    backward = float(times[1].max())
    for number, bucket in enumerate(buckets):
        size = format_bytes(bucket.nbytes, True)
        ready, averaged = times[1, number].max(), times[3, number].max()
        before = f" Bucket {number - 1} is ready." if number else ""
        sentence = f"The backward pass computes the gradients of bucket {number}, {size}.{before}"
        events.append(Event(float(ready), "backward", sentence))
        title, beside = "all-reduce", "and no rank computes at the end"
        if averaged < backward:
            title, beside = "backward and all-reduce", "while the backward pass goes on"
        sentence = f"Bucket {number}, {size}, is all-reduced {beside}."
        events.append(Event(float(averaged), title, sentence))
    return merged([*events, Event(end, "optimizer", "All ranks update the parameters.")], end)
