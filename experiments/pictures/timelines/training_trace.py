"""A training run or a step of a plan as a Chrome trace: steps, lanes, bubbles and sends of each
rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from experiments.pictures.timelines.step_spans import StepSpans
from experiments.pictures.timelines.trace_file import Trace, to_file
from experiments.pictures.timelines.trace_slices import Slices, described, slices_of
from experiments.trace_choice import ALL, TraceChoice
from simulator.analysis.bubble_spans import BUBBLE_CAUSES
from simulator.analysis.memory import Memory
from simulator.training.plan import COMPUTE

STEPS, MAIN, BUBBLES, LANES = 0, 1, 2, 2
"""The tracks of a rank: its steps, its main lane, the gaps of that, and lane k at `LANES` + k."""


def training_trace(
    step: StepSpans,
    parameters: Mapping[str, object],
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
    main, *others = step.lanes
    boxes, tracks = step.boxes, ["steps", main, "bubbles", *others]
    track = np.where(boxes.lane == COMPUTE, MAIN, LANES + boxes.lane)
    lanes = slices_of(boxes.rank, track, boxes.start, boxes.end, _about(step))
    slices = [lanes] if step.what == "device" else [_steps(step), _bubbles(step), lanes]
    trace = Trace(step.timeline, slices, boxes, tracks, memory, choice, f"{step.what}s")
    if step.what == "place":
        trace = replace(trace, place_name=step.place_name)
    return to_file(trace, parameters, "take fewer steps or micro-batches")


def _steps(step: StepSpans) -> Slices:
    """Each worker's steps, each from the end of the step before."""
    start = np.vstack((np.zeros(step.workers), step.ends[:-1]))
    steps = [
        described(f"ProfilerStep#{number}", "user_annotation", **({} if useful else {"lost": True}))
        for number, useful in zip(step.numbers.tolist(), step.useful.tolist(), strict=True)
    ]
    ranks = np.tile(np.arange(step.workers), len(steps))
    about = [each for each in steps for _ in range(step.workers)]
    return slices_of(ranks, STEPS, start.ravel(), step.ends.ravel(), about)


def _bubbles(step: StepSpans) -> Slices:
    media, spans = step.timeline.routed.topology.medium_names, step.bubbles
    awaited = np.where(spans.awaited < 0, -1, step.name[spans.awaited])
    keys = list(zip(spans.cause.tolist(), awaited.tolist(), spans.medium.tolist(), strict=True))
    about = {
        (cause, name, medium): described(
            f"bubble: {BUBBLE_CAUSES[cause]}",
            "bubble",
            **({} if name < 0 else {"waits for": step.names[name]}),
            **({} if medium < 0 else {"queues for": media[medium]}),
        )
        for cause, name, medium in set(keys)
    }
    rows = [about[key] for key in keys]
    return slices_of(spans.rank, BUBBLES, spans.start, spans.end, rows)


def _about(step: StepSpans) -> list[str]:
    """The name, the kind and the labels of each box."""
    shown = ("stage", "layer", "micro_batch", "bytes")
    graph, boxes, tasks = step.graph, step.boxes, step.tasks(step.boxes)
    nbytes = np.where(step.call < 0, -1, np.rint(graph.nbytes)).astype(np.int64)
    columns = (step.phase, graph.stage, graph.layer, graph.micro, nbytes)
    labels = (column[tasks].tolist() for column in columns)
    keys = list(zip(boxes.phase.tolist(), *labels, strict=True))
    about = {}
    for key in set(keys):
        name, phase, *values = key
        labels_of = zip(shown, values, strict=True)
        args = {word: value for word, value in labels_of if value >= 0}
        about[key] = described(step.names[name], step.kinds[phase], **args)
    return [about[key] for key in keys]
