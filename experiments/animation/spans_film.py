"""Films of steps: of any strategy or plan, and of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.animation.film import Film, RunningFigure
from experiments.animation.step_film import MOST_ROWS, step_film
from experiments.answer_blocks import listed
from experiments.pictures.timelines.spans import Columns, busy_times
from experiments.pictures.timelines.step_spans import StepSpans
from simulator.parallel.pipeline_times import PipelineTimes
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, KINDS
from simulator.training.buckets import Bucket
from simulator.training.plan import COMPUTE
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Ints
from topologies.units import format_bytes, format_seconds

SEEN = 0.25
"""A transfer of a pipeline is drawn for at least this share of the shortest action, so that it can
be seen."""
MOST_MESSAGES = 20_000
"""Messages that are drawn, at most."""
SAMPLES = 400
"""Moments at which figures are sampled."""


def spans_film(spans: StepSpans, buckets: Sequence[Bucket] = ()) -> Film:
    """The film of a run. Its items are the buckets of gradients, else micro-batches, or steps where
    there are none.

    Raises InputError for too many rows or tasks.
    """
    boxes, graph, end = spans.device_boxes, spans.graph, spans.timeline.makespan
    rows = [spans.place_name(place) for place in spans.places.tolist()]
    items, item = "micro-batches", graph.micro[boxes.task]
    if buckets:
        items, item = "buckets", _buckets(spans, buckets)[boxes.task]
    elif not (graph.micro >= 0).any():
        # Servers are in the step of the last worker.
        ends = spans.ends[:, np.minimum(boxes.row, spans.workers - 1)]
        items, item = "steps", np.sum(ends[:-1] < boxes.end * (1 - 1e-12), axis=0)
    items_of = np.zeros(len(graph), dtype=np.int32)
    items_of[boxes.task] = np.maximum(item, 0)
    lane = np.searchsorted(np.union1d(boxes.lane, COMPUTE), boxes.lane).astype(np.int32)
    messages = _messages(spans, graph.bucket if buckets else items_of)
    facts = [f"The run takes {format_seconds(end)}.", *spans.remarks]
    if buckets:
        sizes = (format_bytes(each.nbytes, True) for each in buckets)
        facts.append(f"Gradients travel in buckets of {listed(sizes)}.")
    if len(messages.row) > MOST_MESSAGES:
        messages = messages.take(messages.task < 0)
        facts.append("The messages are too many to draw.")
    figures, schedule = overlap_figures(boxes, len(rows), end), spans.timeline.schedule
    if schedule.remote.any():
        order = np.argsort(spans.timeline.finish)
        order = order[schedule.remote[order]]
        arrived = np.append(0.0, spans.timeline.finish[order])
        nbytes = np.append(0.0, np.cumsum(schedule.nbytes[order]))
        figures.insert(0, RunningFigure("bytes moved", "bytes", arrived, nbytes, jumps=True))
    drawn = boxes._replace(task=item, lane=lane)
    return step_film(rows, items, spans.legend, drawn, messages, figures, facts)


def _buckets(spans: StepSpans, buckets: Sequence[Bucket]) -> Ints:
    """The bucket of each task: of a communication its own, of a backward the first of its layer,
    whose gradients are complete when it ends."""
    graph = spans.graph
    of_layer = np.full(int(graph.layer.max()) + 2, -1, dtype=np.int32)
    for number, bucket in reversed(list(enumerate(buckets))):
        of_layer[list(bucket.layers)] = number
    return np.where(graph.kind == BACKWARD, of_layer[graph.layer], graph.bucket)


def _messages(spans: StepSpans, item: Ints) -> Columns:
    """The messages between places, each with the item of its task; those without an item are left
    out."""
    timeline, schedule = spans.timeline, spans.timeline.schedule
    taking, peers = timeline.finish > timeline.start, schedule.peer
    chosen = np.flatnonzero(schedule.remote & taking).astype(np.int32)
    if not schedule.remote.any():
        # The calls of a plan are priced: its messages are tasks.
        chosen = spans.first[(spans.graph.peer >= 0) & taking[spans.first]]
        peers = spans.graph.peer
    task = item[np.searchsorted(spans.first, chosen, side="right") - 1]
    row = np.full(max(schedule.ranks, len(peers)) + 1, -1)
    row[spans.places] = np.arange(len(spans.places))
    sender, receiver = row[schedule.rank[chosen]], row[peers[chosen]]
    times = timeline.start[chosen], timeline.finish[chosen]
    messages = Columns.of(sender, *times, peer=receiver, task=task)
    return messages.take((task >= 0) & (sender >= 0) & (receiver >= 0))


def overlap_figures(boxes: Columns, rows: int, end: float) -> list[RunningFigure]:
    """Communication behind computation and beside it, as means of rows."""
    moments = np.linspace(0.0, end, SAMPLES)

    def covered(chosen: Flags) -> Floats:
        """For how long some box of a row has lasted up to each moment, as mean of rows."""
        total = np.zeros(SAMPLES)
        for start, until in busy_times(boxes.take(chosen)).values():
            total += np.clip(moments[:, None] - start, 0.0, until - start).sum(axis=1) / rows
        return total

    computes = boxes.lane == COMPUTE
    computing, sending, either = map(covered, (computes, ~computes, boxes.row >= 0))
    hidden = np.maximum(computing + sending - either, 0.0)
    return [
        RunningFigure("hidden communication", "seconds", moments, hidden),
        RunningFigure("exposed communication", "seconds", moments, either - computing),
    ]


def pipeline_film(times: PipelineTimes, transfer: float) -> Film:
    """The film of a pipeline whose transfers take so many seconds: micro-batches move from device
    to device.

    Raises InputError for too many devices or actions, or a step that takes no time.
    """
    pipeline = times.pipeline
    if not 2 <= pipeline.devices <= MOST_ROWS:
        raise InputError(f"{pipeline.devices} devices: an animation shows 2 to {MOST_ROWS} of them")
    if not times.step:
        raise InputError("the step takes 0s: there is nothing to animate, use --times forward=1ms")
    boxes = Columns.of(
        pipeline.device, times.start, times.finish, kind=pipeline.kind, task=pipeline.micro
    )
    need = pipeline.needs[:, 0]
    chosen = np.flatnonzero((need >= 0) & (pipeline.device[need] != pipeline.device))
    length = times.finish - times.start
    shortest = float(length[length > 0].min(initial=times.step))
    begin, sender = times.finish[need[chosen]], pipeline.device[need[chosen]]
    about = {"peer": pipeline.device[chosen], "task": pipeline.micro[chosen]}
    messages = Columns.of(sender, begin, begin + max(transfer, SEEN * shortest), **about)
    rows = [f"device {device}" for device in range(pipeline.devices)]
    idle = format_seconds(float(times.idle.max()))
    facts = [f"A step takes {format_seconds(times.step)}. The most idle device waits for {idle}."]
    figures = _pipeline_figures(times)
    return step_film(rows, "micro-batches", KINDS[:4], boxes, messages, figures, facts)


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
