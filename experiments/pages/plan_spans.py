"""The spans of a step of a parallel plan and of a pipeline: a row for each device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from simulator.analysis.critical_path import Path, trace_back
from simulator.parallel.passes import COMPUTE, KINDS, STREAMS
from simulator.parallel.pipeline_times import PipelineTimes
from simulator.parallel.step import Step
from simulator.parallel.step_bubbles import step_bubbles
from simulator.schedules.timeline import Timeline
from topologies.topology import Ints

ACTIONS = KINDS[:4]
LANES = ("compute", "to later devices", "to earlier devices")
"""The lanes of a pipeline."""


def spans_of_step(step: Step) -> Spans:
    """A step of a plan. A row is a device of the pipeline, and stands for all of its ranks."""
    timeline, labels = step.timeline, step.labels
    topology, pp = timeline.routed.machine, step.work.times.degrees.pp
    ranks = step.work.times.degrees.ranks // pp
    remark = f"A row stands for {ranks} ranks of {ranks * pp}: they do the same at the same time."
    kind = np.where(
        step.schedule.lane == COMPUTE, labels.kind, len(KINDS) + step.schedule.lane
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
    drawn = _Drawn(timeline, STREAMS, kind, (*KINDS, *STREAMS, IDLE), words)
    values: dict[str, npt.NDArray[Any]] = {"nbytes": labels.nbytes, "peer": labels.peer}
    return drawn.spans(chart, step_bubbles(step), values)


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
    drawn = _Drawn(timeline, LANES, kind, (*ACTIONS, "send", IDLE), words)
    return drawn.spans(chart, bubble_spans(timeline, COMPUTE), {})


class _Drawn:
    """A timeline of devices whose operations all are computations."""

    def __init__(
        self,
        timeline: Timeline,
        lanes: Sequence[str],
        kind: Ints,
        kinds: Sequence[str],
        words: Sequence[str],
    ) -> None:
        """`kind` is the kind of each operation, a place in `kinds`, whose last one is idle; `words`
        are the names of operations."""
        self._timeline, self._lanes, self._kind, self._kinds = timeline, lanes, kind, kinds
        table: dict[str, int] = {}
        numbers = [table.setdefault(word, len(table)) for word in [*words, IDLE]]
        self._name, self._words = np.array(numbers, dtype=np.int32), tuple(table)

    def spans(
        self, chart: Chart, bubbles: BubbleSpans, values: Mapping[str, npt.NDArray[Any]]
    ) -> Spans:
        """The spans; `values` are columns by operation."""
        timeline, boxes = self._timeline, all_computations(self._timeline)
        path = trace_back(timeline)
        operation = boxes.first
        columns = Columns.of(
            boxes.rank,
            boxes.start,
            boxes.end,
            lane=boxes.lane,
            kind=self._kind[operation],
            name=self._name[operation],
            critical=on_path(timeline, path)[operation],
            **{name: column[operation] for name, column in values.items()},
        )
        idle = idle_columns(timeline, bubbles, bubbles.rank, self._name)
        idle = idle._replace(kind=np.full_like(idle.row, len(self._kinds) - 1))
        names = Names(
            self._lanes,
            self._kinds.__getitem__,
            self._words.__getitem__,
            lambda device: f"device {device}",
            str,
            BUBBLE_CAUSES,
        )
        ranks = np.arange(timeline.schedule.ranks, dtype=np.int32)
        return assembled(chart, [columns, idle], pieces_of(path, ranks, self._lanes_of), names)

    def _lanes_of(self, path: Path) -> Ints:
        return self._timeline.schedule.lane[path.operation].astype(np.int32)
