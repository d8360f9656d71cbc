"""A training run as a Chrome trace: steps, lanes, bubbles and sends of each rank."""

from __future__ import annotations

import numpy as np

from experiments.pictures.timelines.trace_file import Trace, to_file
from experiments.pictures.timelines.trace_slices import Slices, described, slices_of
from experiments.pictures.timelines.tracks import (
    Boxes,
    box_bytes,
    communications,
    computations,
    kind_of,
    lane_names,
)
from experiments.trace_choice import ALL, TraceChoice
from simulator.analysis.bubble_spans import BUBBLE_CAUSES, bubble_spans
from simulator.analysis.memory import Memory
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE, Plan

STEPS, MAIN, BUBBLES, LANES = 0, 1, 2, 2
"""The tracks of a rank: its steps, its main lane, the gaps of that, and lane k at `LANES` + k."""


def training_trace(
    plan: Plan,
    timeline: Timeline,
    parameters: dict[str, object],
    memory: Memory | None = None,
    choice: TraceChoice = ALL,
) -> str:
    """Chrome trace JSON of a training run: a process for each rank, a track for each lane.

    A rank has these tracks:

    - its steps (`ProfilerStep#n`, as Kineto names them),
    - its main lane,
    - its bubbles, each with its cause, the phase that it waits for, and the link of a queue,
    - its communications and its further lanes,
    - its sends, a track for each medium.

    The `memory` of each rank is a counter. See :func:`trace_file.to_file` for the rest.
    """
    talks = communications(plan, timeline)
    slices = [
        _steps(plan, timeline),
        _computing(plan, timeline),
        _bubbles(plan, timeline),
        _talking(timeline, talks),
    ]
    main, *others = lane_names(plan, timeline)
    tracks = ["steps", main, "bubbles", *others]
    trace = Trace(timeline, slices, talks, tracks, memory, choice)
    return to_file(trace, parameters, "take fewer steps")


def _steps(plan: Plan, timeline: Timeline) -> Slices:
    """Each worker's steps, each from the end of the step before."""
    end = timeline.finish[plan.ends]
    start = np.vstack((np.zeros(plan.workers), end[:-1]))
    steps = [
        described(f"ProfilerStep#{step}", "user_annotation", **({} if useful else {"lost": True}))
        for step, useful in zip(plan.numbers.tolist(), plan.useful.tolist(), strict=True)
    ]
    ranks = np.tile(np.arange(plan.workers), plan.steps)
    about = [step for step in steps for _ in range(plan.workers)]
    return slices_of(ranks, STEPS, start.ravel(), end.ravel(), about)


def _computing(plan: Plan, timeline: Timeline) -> Slices:
    boxes = computations(plan, timeline)
    phases = [described(phase, kind_of(phase)) for phase in timeline.schedule.phases]
    return _on_lanes(boxes, [phases[phase] for phase in boxes.phase.tolist()])


def _bubbles(plan: Plan, timeline: Timeline) -> Slices:
    schedule, media = timeline.schedule, timeline.routed.topology.medium_names
    spans = bubble_spans(timeline, COMPUTE)
    spans = spans.take(spans.rank < plan.workers)
    awaited = np.where(spans.awaited < 0, -1, schedule.phase[spans.awaited])
    keys = list(zip(spans.cause.tolist(), awaited.tolist(), spans.medium.tolist(), strict=True))
    about = {
        (cause, phase, medium): described(
            f"bubble: {BUBBLE_CAUSES[cause]}",
            "bubble",
            **({} if phase < 0 else {"waits for": schedule.phases[phase]}),
            **({} if medium < 0 else {"queues for": media[medium]}),
        )
        for cause, phase, medium in set(keys)
    }
    rows = [about[key] for key in keys]
    return slices_of(spans.rank, BUBBLES, spans.start, spans.end, rows)


def _talking(timeline: Timeline, boxes: Boxes) -> Slices:
    phases = timeline.schedule.phases
    keys = list(zip(boxes.phase.tolist(), box_bytes(timeline.schedule, boxes), strict=True))
    about = {
        (phase, size): described(
            phases[phase], kind_of(phases[phase]), **({} if size is None else {"bytes": size})
        )
        for phase, size in set(keys)
    }
    return _on_lanes(boxes, [about[key] for key in keys])


def _on_lanes(boxes: Boxes, about: list[str]) -> Slices:
    track = np.where(boxes.lane == COMPUTE, MAIN, LANES + boxes.lane)
    return slices_of(boxes.rank, track, boxes.start, boxes.end, about)
