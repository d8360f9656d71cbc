"""The film of a DDP step: buckets become ready and travel while the backward goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.animation.film import Figure, Film, Key, rows_of
from experiments.animation.step_film import (
    Change,
    Event,
    Step,
    Task,
    merged,
    messages,
    overlap_figures,
    step_film,
)
from experiments.pictures.timelines.palette import colours
from experiments.pictures.timelines.step_spans import StepSpans, strategy_spans
from simulator.steps.kinds import BACKWARD
from simulator.training.buckets import Bucket, initial, rebuilt
from simulator.training.ddp import DDP
from topologies.topology import Floats
from topologies.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from experiments.pictures.timelines.spans import Columns
    from simulator.schedules.timeline import Timeline
    from simulator.training.plan import Plan

Moments = Floats
"""When the gradients of each bucket are begun and complete, and when its all-reduce begins and
ends, at each worker: shape (buckets, workers, 4)."""
STATES = (
    Key("no gradients yet", "#dfe3e8"),
    Key("gradients being computed", "#0072b2", "…"),
    Key("ready", "#cc79a7", "▪"),
    Key("travels", "#e69f00", "→"),
    Key("averaged", "#009e73", "✓"),
)


def ddp_film(plan: Plan, timeline: Timeline, strategy: DDP) -> Film:
    """The film of a step of DDP."""
    buckets = (initial if strategy.find_unused else rebuilt)(plan.model, strategy.bucket)
    spans = strategy_spans(plan, timeline)
    boxes = spans.boxes.take(spans.boxes.row < plan.workers)
    bucket = spans.graph.bucket[boxes.task]
    times = _times(plan, spans, buckets)
    palette = colours(spans.kinds)
    keys = {kind: Key(kind, palette[kind]) for kind in spans.kinds}
    step = Step(
        [f"rank {rank}" for rank in range(plan.workers)],
        "buckets",
        [*STATES, *keys.values()],
        [
            Task(rank, lane, begin, end, keys[spans.legend[kind]], item)
            for rank, lane, begin, end, kind, item in rows_of(*boxes[:5], bucket)
        ],
        [
            Change(moment, rank, item, state)
            for place, state in enumerate(STATES[1:])
            for (item, rank), moment in np.ndenumerate(times[:, :, place])
        ],
        messages(spans, spans.graph.bucket),
        _events(timeline.makespan, buckets, times),
    )
    facts = [f"A step takes {format_seconds(timeline.makespan)}. It has {plan.words[0]}."]
    if not step.flights:
        facts.append("The messages of its buckets are too many to draw.")
    return step_film(step, _figures(plan, timeline, boxes), facts)


def _times(plan: Plan, spans: StepSpans, buckets: list[Bucket]) -> Moments:
    """The moments of all buckets."""
    graph, (begin, end) = plan.graph, plan.times(spans.timeline)
    shape = len(plan.model.layers), plan.workers
    begun, complete = np.full(shape, np.inf), np.zeros(shape)
    # Of several batches the last one counts: it is the one that is communicated.
    main = np.flatnonzero(graph.kind == BACKWARD)
    place = graph.layer[main], graph.place[main]
    begun[place], complete[place] = begin[main], end[main]
    times = np.zeros((len(buckets), plan.workers, 4))
    for number, each in enumerate(buckets):
        layers = list(each.layers)
        times[number, :, 0] = begun[layers].min(axis=0)
        times[number, :, 1] = complete[layers].max(axis=0)
    calls = np.flatnonzero(graph.bucket >= 0)
    times[graph.bucket[calls], graph.place[calls], 2] = begin[calls]
    times[graph.bucket[calls], graph.place[calls], 3] = end[calls]
    return times


def _events(end: float, buckets: list[Bucket], times: Moments) -> list[Event]:
    """What happens until a bucket is ready or averaged everywhere."""
    events = [Event(float(times[:, :, 0].min()), "forward", "All ranks run the forward pass.")]
    backward = float(times[:, :, 1].max())
    for number, bucket in enumerate(buckets):
        size = format_bytes(bucket.nbytes, True)
        ready, averaged = times[number, :, 1].max(), times[number, :, 3].max()
        before = f" Bucket {number - 1} is ready." if number else ""
        sentence = f"The backward pass computes the gradients of bucket {number}, {size}.{before}"
        events.append(Event(float(ready), "backward", sentence))
        title, beside = "all-reduce", "and no rank computes at the end"
        if averaged < backward:
            title, beside = "backward and all-reduce", "while the backward pass goes on"
        sentence = f"Bucket {number}, {size}, is all-reduced {beside}."
        events.append(Event(float(averaged), title, sentence))
    return merged([*events, Event(end, "optimizer", "All ranks update the parameters.")], end)


def _figures(plan: Plan, timeline: Timeline, boxes: Columns) -> list[Figure]:
    """Bytes moved, and communication behind computation and beside it, as means of ranks."""
    remote = np.flatnonzero(timeline.schedule.remote)
    order = remote[np.argsort(timeline.finish[remote])]
    arrived = np.append(0.0, timeline.finish[order])
    moved = np.append(0.0, np.cumsum(timeline.schedule.nbytes[order]))
    return [
        Figure("bytes moved", "bytes", arrived, moved, jumps=True),
        *overlap_figures(boxes, plan.workers, timeline.makespan),
    ]
