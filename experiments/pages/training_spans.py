"""The spans of a training run or of a step of a plan on a page: computations, communications,
messages, and bubbles with their causes."""

from __future__ import annotations

import numpy as np

from experiments.pages.critical_pieces import AT_RECEIVER, pieces_of
from experiments.pages.run_spans import Run, last_link, on_path, sender_at
from experiments.pages.span_names import Chart, Names, assembled
from experiments.pages.spans import IDLE, Columns, Spans
from experiments.pictures.timelines.step_spans import StepSpans
from simulator.analysis.bubble_spans import BUBBLE_CAUSES
from simulator.analysis.bubbles import CONTENTION
from simulator.analysis.critical_path import SEGMENT_PARTS, Path
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE
from topologies.topology import Ints


def spans_of_training(step: StepSpans, path: Path) -> Spans:
    """The spans of a training run, whose critical path is `path`.

    Below communications are their messages, if they were simulated at their time.
    """
    timeline, messages = step.timeline, len(step.lanes)
    machine, media = timeline.routed.machine, timeline.routed.topology.medium_names
    run = Run(timeline, step.places, on_path(timeline, path))
    names = Names(
        (*step.lanes, "messages"),
        (*step.legend, IDLE).__getitem__,
        (*step.names, IDLE).__getitem__,
        step.place_name,
        lambda medium: media[medium],
        BUBBLE_CAUSES,
    )
    ends = np.maximum.accumulate(step.ends.max(axis=1))
    chart = Chart(
        tuple(map(step.place_name, step.places.tolist())),
        machine.node[machine.placement[step.places]],
        timeline.makespan,
        COMPUTE,
        ends if step.together and len(ends) > 1 else np.zeros(0),
        step.remarks,
    )
    pieces = pieces_of(path, step.places, lambda path: _lanes_of(timeline, path, messages))
    kind = np.array([*map((*step.legend, IDLE).index, (*step.kinds, IDLE))], dtype=np.int32)
    parts = [
        columns._replace(kind=kind[columns.name])
        for columns in (_boxes(step, run), _bubbles(step, run), run.sends(messages))
    ]
    return assembled(chart, parts, pieces, names)


def _boxes(step: StepSpans, run: Run) -> Columns:
    """Computations and communications."""
    boxes, tasks = step.boxes, step.tasks(step.boxes)
    return Columns.of(
        run.row(boxes.rank),
        boxes.start,
        boxes.end,
        lane=boxes.lane,
        name=boxes.phase,
        nbytes=step.graph.nbytes[tasks],
        peer=step.graph.peer[tasks],
        critical=run.through[boxes.first] | run.through[boxes.last],
    )


def _bubbles(step: StepSpans, run: Run) -> Columns:
    """Bubbles of workers: the peer is who sends or computes what the worker waits for."""
    spans, timeline = step.bubbles, step.timeline
    operation = spans.operation
    return Columns.of(
        run.row(spans.rank),
        spans.start,
        spans.end,
        lane=spans.lane,
        name=len(step.names),
        cause=spans.cause,
        awaited=np.where(operation >= 0, step.name[operation], -1),
        peer=np.where(spans.cause >= 0, _sender(timeline, operation), -1),
        link=np.where(spans.cause == CONTENTION, spans.medium, last_link(timeline, operation)),
    )


def _sender(timeline: Timeline, operation: Ints) -> Ints:
    return np.where(operation >= 0, sender_at(timeline, operation), -1).astype(np.int32)


def _lanes_of(timeline: Timeline, path: Path, messages: int) -> Ints:
    """The lane of each segment of a critical path."""
    lane = timeline.schedule.lane[path.operation].astype(np.int32)
    computes = path.part == SEGMENT_PARTS.index("compute")
    lane = np.where(computes & (path.operation >= 0), lane, messages)
    return np.where(np.isin(path.part, AT_RECEIVER), messages, lane).astype(np.int32)
