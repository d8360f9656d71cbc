"""A step of a plan as a picture or a Chrome trace: a row for each device of the pipeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.output import Value
from experiments.pictures.timelines.tracks import Boxes, all_computations
from simulator.parallel.passes import COLLECTIVES, COMPUTE, HOST, KINDS, STREAMS
from simulator.parallel.step import Step

ROW = 0.5
"""Height of a row in inches."""


def plan_file(step: Step, path: Path, title: str, parameters: dict[str, Value]) -> bytes | str:
    """A trace for a path that ends in .json, else a picture."""
    if path.suffix.lower() == ".json":
        return _trace(step, parameters)
    return _figure(step, title, path.suffix[1:].lower())


def _figure(step: Step, title: str, kind: str) -> bytes:
    """Computing above, communication below it, coloured by what they belong to."""
    from experiments.pictures.figure_file import to_bytes
    from experiments.pictures.timelines.bars import arranged, longest
    from experiments.pictures.timelines.collective_picture import shared_rows
    from experiments.pictures.timelines.painter import Chart, paint

    timeline = step.timeline
    boxes = all_computations(timeline)
    boxes = boxes.take(boxes.lane != HOST)
    boxes = boxes._replace(lane=np.minimum(boxes.lane, 1))
    bars, remarks = longest(arranged(boxes, timeline, timeline.schedule.phases))
    ranks = np.arange(timeline.schedule.ranks, dtype=np.int32)
    places = shared_rows(bars, len(ranks))
    remarks.append("a device of the pipeline stands for all of its ranks: they do the same")
    chart = Chart(timeline, bars, places, ranks, len(ranks), "idle: a bubble", ROW, "device")
    return to_bytes(paint(chart, title, remarks)[0], kind)


def _trace(step: Step, parameters: dict[str, Value]) -> str:
    """A process for each device of the pipeline, a track for each stream."""
    from experiments.pictures.timelines.trace_file import Trace, described, slices_of, to_file

    boxes = all_computations(step.timeline)
    labels = step.labels
    about = [
        described(
            name_of(step, operation),
            KINDS[labels.kind[operation]],
            stage=int(labels.stage[operation]),
            layer=int(labels.layer[operation]),
            micro_batch=int(labels.micro[operation]),
            bytes=round(float(labels.nbytes[operation])),
        )
        for operation in boxes.first.tolist()
    ]
    slices = slices_of(boxes.rank, boxes.lane, boxes.start, boxes.end, about)
    none: Boxes = boxes.take(np.zeros(0, dtype=np.int64))
    nothing = slices_of(none.rank, 0, none.start, none.end, [])
    trace = Trace(step.timeline, [slices, nothing], none, STREAMS)
    return to_file(trace, dict(parameters), "take fewer micro-batches")


def name_of(step: Step, operation: int) -> str:
    """What a slice is called, like "forward 3" or "tp all_gather"."""
    labels, lane = step.labels, int(step.schedule.lane[operation])
    kind, micro = KINDS[labels.kind[operation]], int(labels.micro[operation])
    if lane in (COMPUTE, HOST):
        return f"{kind} {micro}" if micro >= 0 else kind
    collective = COLLECTIVES[labels.collective[operation]]
    return collective if collective == STREAMS[lane] else f"{STREAMS[lane]} {collective}"
