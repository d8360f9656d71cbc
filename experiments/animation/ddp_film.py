"""The animation of a DDP step: buckets become ready and travel while the backward goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.animation.step_film import (
    SAMPLES,
    Boxes,
    Changes,
    Event,
    Figure,
    Flights,
    Look,
    StepFilm,
    covered,
    merged,
    sorted_changes,
)
from experiments.pictures.timelines.palette import colours
from experiments.pictures.timelines.step_spans import StepSpans, strategy_spans
from simulator.steps.kinds import BACKWARD
from simulator.training.buckets import Bucket, initial, rebuilt
from simulator.training.ddp import DDP
from topologies.errors import InputError
from topologies.topology import Floats
from topologies.units import format_bytes

if TYPE_CHECKING:
    from experiments.pictures.timelines.tracks import Boxes as Tracks
    from simulator.schedules.timeline import Timeline
    from simulator.training.plan import Plan

Moments = Floats
"""When the gradients of each bucket are begun and complete, and when its all-reduce begins and
ends, at each worker: shape (buckets, workers, 4)."""
STATES = (
    Look("no gradients yet", "#dfe3e8"),
    Look("gradients being computed", "#0072b2", "…"),
    Look("ready", "#cc79a7", "▪"),
    Look("travels", "#e69f00", "→"),
    Look("averaged", "#009e73", "✓"),
)
COMPUTED, READY, TRAVELS, AVERAGED = 1, 2, 3, 4
MOST_WORKERS, MOST_FLIGHTS = 32, 20_000


def ddp_film(plan: Plan, timeline: Timeline, strategy: DDP) -> StepFilm:
    """The animation of a step of DDP. Raises InputError for too many workers or steps."""
    if not 2 <= plan.workers <= MOST_WORKERS:
        raise InputError(f"--p {plan.workers}: an animation shows 2 to {MOST_WORKERS} ranks")
    buckets = (initial if strategy.find_unused else rebuilt)(plan.model, strategy.bucket)
    spans = strategy_spans(plan, timeline)
    tracks = spans.boxes.take(spans.boxes.rank < plan.workers)
    times = _times(plan, spans, buckets)
    kinds = list(dict.fromkeys(spans.kinds))
    palette = colours(kinds)
    return StepFilm(
        rows=[f"rank {rank}" for rank in range(plan.workers)],
        lanes=plan.graph.lanes[: int(tracks.lane.max()) + 1],
        items="bucket",
        count=len(buckets),
        kinds=[Look(kind, palette[kind]) for kind in kinds],
        states=STATES,
        boxes=_boxes(spans, tracks, kinds),
        changes=_changes(times),
        flights=_flights(spans),
        end=timeline.makespan,
        events=_events(plan, timeline, buckets, times),
        figures=_figures(plan, timeline, tracks),
    )


def _boxes(spans: StepSpans, tracks: Tracks, kinds: list[str]) -> Boxes:
    look = np.array([kinds.index(kind) for kind in spans.kinds], dtype=np.int32)
    return Boxes(
        tracks.rank,
        tracks.lane,
        tracks.start,
        tracks.end,
        look[tracks.phase],
        spans.graph.bucket[spans.tasks(tracks)],
    )


def _times(plan: Plan, spans: StepSpans, buckets: list[Bucket]) -> Moments:
    """The moments of all buckets."""
    timeline = spans.timeline
    begun = np.full((len(plan.model.layers), plan.workers), np.inf)
    complete = np.zeros_like(begun)
    graph, (begin, end) = plan.graph, plan.times(timeline)
    for task in np.flatnonzero(graph.kind == BACKWARD).tolist():
        place = graph.layer[task], graph.place[task]
        # Of several batches the last one counts: it is the one that is communicated.
        begun[place], complete[place] = begin[task], end[task]
    times = np.zeros((len(buckets), plan.workers, 4))
    for number, bucket in enumerate(buckets):
        layers = list(bucket.layers)
        times[number, :, 0] = begun[layers].min(axis=0)
        times[number, :, 1] = complete[layers].max(axis=0)
    for task in np.flatnonzero(graph.bucket >= 0).tolist():
        times[graph.bucket[task], graph.place[task], 2:] = begin[task], end[task]
    return times


def _changes(times: Moments) -> Changes:
    return sorted_changes(
        [
            (float(moment), rank, number, COMPUTED + state)
            for number, of_bucket in enumerate(times)
            for rank, of_rank in enumerate(of_bucket)
            for state, moment in enumerate(of_rank)
        ]
    )


def _flights(spans: StepSpans) -> Flights:
    """The messages of buckets; none if there are too many to draw."""
    timeline, schedule = spans.timeline, spans.timeline.schedule
    chosen = np.flatnonzero(schedule.remote & (timeline.finish > timeline.start))
    item = spans.graph.bucket[np.searchsorted(spans.first, chosen, side="right") - 1]
    chosen, item = chosen[item >= 0], item[item >= 0]
    if len(chosen) > MOST_FLIGHTS:
        chosen, item = chosen[:0], item[:0]
    return Flights(
        timeline.start[chosen],
        timeline.finish[chosen],
        schedule.rank[chosen],
        schedule.peer[chosen],
        item,
    )


def _events(
    plan: Plan,
    timeline: Timeline,
    buckets: list[Bucket],
    times: Moments,
) -> list[Event]:
    """What happens until a bucket is ready or averaged everywhere."""
    end = timeline.makespan
    begin = float(times[:, :, 0].min())
    events = [Event(begin, "forward", "All ranks run the forward pass.")]
    for number, bucket in enumerate(buckets):
        size, ready = format_bytes(bucket.nbytes, True), float(times[number, :, 1].max())
        averaged, backward = float(times[number, :, 3].max()), float(times[:, :, 1].max())
        before = f" Bucket {number - 1} is ready." if number else ""
        events.append(
            Event(
                ready,
                "backward",
                f"The backward pass computes the gradients of bucket {number}, {size}.{before}",
            )
        )
        hidden = averaged < backward
        beside = "while the backward pass goes on" if hidden else "and no rank computes at the end"
        events.append(
            Event(
                averaged,
                "backward and all-reduce" if hidden else "all-reduce",
                f"Bucket {number}, {size}, is all-reduced {beside}.",
            )
        )
    return merged([*events, Event(end, "optimizer", "All ranks update the parameters.")], end)


def _figures(plan: Plan, timeline: Timeline, tracks: Tracks) -> list[Figure]:
    """Bytes moved, and communication behind computation and beside it, as means of ranks."""
    moments = np.linspace(0.0, timeline.makespan, SAMPLES)
    hidden, exposed = np.zeros(SAMPLES), np.zeros(SAMPLES)
    for rank in range(plan.workers):
        mine = tracks.take(tracks.rank == rank)
        sends = mine.lane > 0
        computing = covered(mine.start[~sends], mine.end[~sends], moments)
        sending = covered(mine.start[sends], mine.end[sends], moments)
        either = covered(mine.start, mine.end, moments)
        hidden += (computing + sending - either) / plan.workers
        exposed += (either - computing) / plan.workers
    schedule = timeline.schedule
    remote = np.flatnonzero(schedule.remote)
    order = remote[np.argsort(timeline.finish[remote])]
    moved = np.append(0.0, np.cumsum(schedule.nbytes[order]))
    count = np.searchsorted(timeline.finish[order], moments, side="right")
    return [
        Figure("bytes moved", "bytes", moved[count]),
        Figure("hidden communication", "seconds", np.maximum(hidden, 0.0)),
        Figure("exposed communication", "seconds", np.maximum(exposed, 0.0)),
    ]
