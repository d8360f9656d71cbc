"""The spans of a step of a parallel plan and of a pipeline: a row for each device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pages.critical_pieces import pieces_of
from experiments.pages.run_spans import on_path
from experiments.pages.span_names import Chart, Names, assembled
from experiments.pages.spans import IDLE, Columns, Spans
from experiments.pages.training_spans import idle_columns
from experiments.pictures.timelines.plan_timeline import name_of
from experiments.pictures.timelines.tracks import all_computations
from simulator.analysis.bubble_spans import BUBBLE_CAUSES, BubbleSpans, bubble_spans
from simulator.analysis.critical_path import trace_back
from simulator.parallel.passes import COMPUTE, STREAMS
from simulator.parallel.pipeline_times import PipelineTimes
from simulator.parallel.step import Step
from simulator.parallel.step_bubbles import step_bubbles
from simulator.schedules.timeline import Timeline
from simulator.steps.step_graph import KINDS
from topologies.topology import Ints

ACTIONS = KINDS[:4]
LANES = ("compute", "to later devices", "to earlier devices")
"""The lanes of a pipeline."""


class _Looks(NamedTuple):
    """What operations look like and what they are called."""

    lanes: Sequence[str]
    kind: Ints
    """The kind of each operation, a place in `kinds`."""
    kinds: Sequence[str]
    """The last one is idle."""
    words: Sequence[str]
    """The name of each operation."""


def spans_of_step(step: Step) -> Spans:
    """A step of a plan. A row is a device of the pipeline, and stands for all of its ranks."""
    timeline, graph = step.timeline, step.graph
    topology, pp = timeline.routed.machine, step.work.times.degrees.pp
    ranks = step.work.times.degrees.ranks // pp
    remark = f"A row stands for {ranks} ranks of {ranks * pp}: they do the same at the same time."
    kind = np.where(
        step.schedule.lane == COMPUTE, graph.kind, len(KINDS) + step.schedule.lane
    ).astype(np.int32)
    words = [name_of(step, operation) for operation in range(len(step.schedule))]
    devices = range(step.schedule.ranks)
    chart = Chart(
        tuple(f"device {device}" for device in devices),
        topology.node[topology.placement[: len(devices)]],
        timeline.makespan,
        COMPUTE,
        remarks=(remark,) * (ranks > 1),
    )
    looks = _Looks(STREAMS, kind, (*KINDS, *STREAMS, IDLE), words)
    values: dict[str, npt.NDArray[Any]] = {"nbytes": graph.nbytes, "peer": graph.peer}
    return _spans(timeline, chart, step_bubbles(step), looks, values)


def spans_of_pipeline(run: PipelineTimes) -> Spans:
    """A pipeline whose stages take given times. A row is a device."""
    pipeline, timeline = run.pipeline, run.timeline
    kind = np.full(len(timeline.schedule), len(ACTIONS), dtype=np.int32)
    kind[run.operations] = pipeline.kind
    words = ["send"] * len(kind)
    for row, operation in enumerate(run.operations.tolist()):
        words[operation] = pipeline.text(row)
    rows = tuple(f"device {device}" for device in range(pipeline.devices))
    chart = Chart(rows, np.full(len(rows), -1, dtype=np.int32), timeline.makespan, COMPUTE)
    looks = _Looks(LANES, kind, (*ACTIONS, "send", IDLE), words)
    return _spans(timeline, chart, bubble_spans(timeline, COMPUTE), looks, {})


def _spans(
    timeline: Timeline,
    chart: Chart,
    bubbles: BubbleSpans,
    looks: _Looks,
    values: Mapping[str, npt.NDArray[Any]],
) -> Spans:
    """The spans of devices whose operations all are computations; `values` are columns by
    operation."""
    table: dict[str, int] = {}
    numbers = [table.setdefault(word, len(table)) for word in [*looks.words, IDLE]]
    name, words = np.array(numbers, dtype=np.int32), tuple(table)
    boxes, path = all_computations(timeline), trace_back(timeline)
    operation = boxes.first
    columns = Columns.of(
        boxes.rank,
        boxes.start,
        boxes.end,
        lane=boxes.lane,
        kind=looks.kind[operation],
        name=name[operation],
        critical=on_path(timeline, path)[operation],
        **{column: value[operation] for column, value in values.items()},
    )
    idle = idle_columns(timeline, bubbles, bubbles.rank, name)
    idle = idle._replace(kind=np.full_like(idle.row, len(looks.kinds) - 1))
    names = Names(
        looks.lanes,
        looks.kinds.__getitem__,
        words.__getitem__,
        lambda device: f"device {device}",
        str,
        BUBBLE_CAUSES,
    )
    ranks = np.arange(timeline.schedule.ranks, dtype=np.int32)
    lane = timeline.schedule.lane.astype(np.int32)
    pieces = pieces_of(path, ranks, lambda path: lane[path.operation])
    return assembled(chart, [columns, idle], pieces, names)
