"""The spans of a pipeline: the actions of each device, and why it is idle before, between and after
them."""

from __future__ import annotations

import numpy as np

from experiments.pictures.timelines.palette import LATER
from experiments.pictures.timelines.spans import IDLE, Columns, Spans
from simulator.parallel.pipeline_times import PipelineTimes
from simulator.steps.kinds import KINDS
from topologies.units import format_seconds


def pipeline_spans(run: PipelineTimes) -> Spans:
    """The spans of a pipeline. An action has the colour of its kind, which is darker in later
    stages of a device, and the number of its micro-batch."""
    pipeline, step, start, finish = run.pipeline, run.step, run.start, run.finish
    devices, stages = pipeline.devices, np.full(pipeline.devices, pipeline.stages)
    np.minimum.at(stages, pipeline.device, pipeline.stage)
    later = pipeline.stage > stages[pipeline.device]
    kinds = [f"{kind}{ending}" for ending in ("", LATER) for kind in KINDS[:4]]
    rows = [f"device {device}" for device in range(devices)]
    actions = Columns.of(
        pipeline.device,
        start,
        finish,
        kind=pipeline.kind + 4 * later,
        name=pipeline.kind * pipeline.micro_batches + pipeline.micro,
    )
    first, last = start[pipeline.starts[:-1]], finish[pipeline.starts[1:] - 1]
    follows = np.diff(pipeline.device, prepend=-1) == 0
    before = np.where(follows, np.roll(finish, 1), start)
    idle = {"kind": len(kinds), "name": 4 * pipeline.micro_batches}
    every, none = np.arange(devices), np.zeros(devices)
    ends = f"{format_seconds(float(run.idle.max()))} idle"
    within = f"{format_seconds(float(run.idle_within.max()))} within"
    return Spans(
        rows=rows,
        nodes=np.full(devices, -1, dtype=np.int32),
        lanes=("compute",),
        kinds=(*kinds, IDLE),
        names=[
            *(f"{kind} {micro}" for kind in KINDS[:4] for micro in range(pipeline.micro_batches)),
            IDLE,
        ],
        peers=rows,
        causes=("fill", "slower peer", "drain"),
        main=0,
        makespan=step,
        remarks=(f"{pipeline.name}: {format_seconds(step)}, {ends}, {within}",),
    ).having(
        actions,
        Columns.of(every, none, first, cause=0, **idle),
        Columns.of(pipeline.device, before, start, cause=1, **idle),
        Columns.of(every, last, np.full(devices, step), cause=2, **idle),
    )
