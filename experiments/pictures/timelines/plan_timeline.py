"""A step of a plan as a picture or a Chrome trace: a row for each device of the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.output import Value
from experiments.pictures.timelines.tracks import Boxes, all_computations, joined_times
from experiments.trace_choice import ALL, TraceChoice
from simulator.parallel.passes import COMPUTE, HOST, STREAMS
from simulator.parallel.step import Step
from simulator.parallel.step_bubbles import step_bubbles
from simulator.steps.step_graph import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW, LANE = 0.32, 0.12
"""Inches: the height of a row, and of each of its lanes below the main one."""
SHOWN = (
    "what a device of the pipeline computes and communicates, and why it is idle: "
    "all of its ranks do the same"
)
"""What the picture is of."""
THIN = 0.36
"""Height of a lane as a share of the main lane's."""


def plan_file(
    step: Step,
    path: Path,
    title: str,
    parameters: dict[str, Value],
    choice: TraceChoice = ALL,
) -> bytes | str:
    """A trace for a path that ends in .json, else a picture."""
    if path.suffix.lower() == ".json":
        return _trace(step, parameters, choice)
    from experiments.pictures.figure_file import to_bytes

    return to_bytes(plan_drawing(step, title), path.suffix[1:].lower())


def plan_drawing(step: Step, title: str) -> Figure:
    """Computing above, with bubbles by cause; below it a lane for each stream that communicates,
    coloured by what operations belong to."""
    from experiments.pictures.timelines.bars import (
        arranged,
        longest,
        thinnest,
        widened,
        with_hidden,
    )
    from experiments.pictures.timelines.bubble_boxes import label_bubbles
    from experiments.pictures.timelines.painter import Chart, paint
    from experiments.pictures.timelines.rows import Group, Lane, places_of
    from experiments.pictures.timelines.stretches import drawn

    timeline = step.timeline
    boxes = all_computations(timeline)
    boxes = boxes.take(boxes.lane != HOST)
    bars = arranged(boxes, timeline, timeline.schedule.phases)
    main, least = boxes.take(boxes.lane == COMPUTE), thinnest(timeline)
    busy = joined_times(main.rank, main.start, main.end, 1e-9 * timeline.makespan)
    bars = with_hidden(bars, bars.boxes.lane != COMPUTE, busy, least)
    bars, remarks = longest(widened(bars, timeline))
    stretches = drawn(timeline, step_bubbles(step), least)._replace(what="device")
    if stretches.mixed:
        remarks.append("bubbles too thin to be seen are drawn together, as the longest of them")
    ranks = np.arange(timeline.schedule.ranks, dtype=np.int32)
    used = sorted({COMPUTE, *np.unique(boxes.lane).tolist()})
    lanes = {lane: Lane(STREAMS[lane], 1.0 if lane == COMPUTE else THIN) for lane in used}
    places = places_of(bars, ranks, [Group(np.ones(len(ranks), dtype=np.bool_), lanes)])
    row = ROW + LANE * (len(lanes) - 1)
    names = timeline.schedule.phases
    chart = Chart(timeline, bars, places, ranks, row, names, "device", stretches)
    figure, axes = paint(chart, title, [SHOWN, *remarks])
    if chart.every == 1:
        length = stretches.spans.end - stretches.spans.start
        label_bubbles(axes, chart, stretches, length / (timeline.makespan or 1.0))
    return figure


def _trace(step: Step, parameters: dict[str, Value], choice: TraceChoice) -> str:
    """A process for each device of the pipeline, a track for each stream."""
    from experiments.pictures.timelines.trace_file import Trace, to_file
    from experiments.pictures.timelines.trace_slices import described, slices_of

    boxes = all_computations(step.timeline)
    graph = step.graph
    about = [
        described(
            name_of(step, operation),
            KINDS[graph.kind[operation]],
            stage=int(graph.stage[operation]),
            layer=int(graph.layer[operation]),
            micro_batch=int(graph.micro[operation]),
            bytes=round(float(graph.nbytes[operation])),
        )
        for operation in boxes.first.tolist()
    ]
    slices = slices_of(boxes.rank, boxes.lane, boxes.start, boxes.end, about)
    none: Boxes = boxes.take(np.zeros(0, dtype=np.int64))
    nothing = slices_of(none.rank, 0, none.start, none.end, [])
    what = "devices of the pipeline"
    trace = Trace(step.timeline, [slices, nothing], none, STREAMS, choice=choice, what=what)
    return to_file(trace, dict(parameters), "take fewer micro-batches")


def name_of(step: Step, operation: int) -> str:
    """What a slice is called, like "forward 3" or "tp all_gather"."""
    graph, lane = step.graph, int(step.schedule.lane[operation])
    kind, micro = KINDS[graph.kind[operation]], int(graph.micro[operation])
    call = graph.call_of(operation)
    if call is None:
        return f"{kind} {micro}" if micro >= 0 else kind
    return "send" if call.is_message else f"{STREAMS[lane]} {call.collective}"
