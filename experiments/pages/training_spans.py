"""The spans of a training run: computations, communications, messages, and bubbles with their
causes."""

from __future__ import annotations

import numpy as np

from experiments.names import rank_name
from experiments.pages.critical_pieces import AT_RECEIVER, pieces_of
from experiments.pages.run_spans import Run, last_link, on_path, sender_at, standing
from experiments.pages.span_names import Chart, Names, assembled
from experiments.pages.spans import IDLE, Columns, Spans
from experiments.pictures.timelines.tracks import (
    Boxes,
    box_bytes,
    communications,
    computations,
    kind_of,
    lane_names,
)
from simulator.analysis.bubble_spans import BUBBLE_CAUSES, BubbleSpans, bubble_spans
from simulator.analysis.bubbles import (
    CONTENTION,
    DRAIN,
    computing_ranks,
    gaps_of,
    last_operations,
)
from simulator.analysis.critical_path import SEGMENT_PARTS, Path
from simulator.kernels.queues import Gaps
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE, Plan
from topologies.topology import Ints


def spans_of_training(plan: Plan, timeline: Timeline, path: Path) -> Spans:
    """The spans of a training run, whose critical path is `path`.

    A communication lasts from entering to leaving. Below it are its messages, if they were
    simulated at their time. Of a plan with symmetry, the rows are the workers that stand for all.
    """
    schedule, topology = timeline.schedule, plan.topology
    boxes = computations(plan, timeline), communications(plan, timeline)
    ranks = np.union1d(plan.standing, np.union1d(boxes[0].rank, boxes[1].rank)).astype(np.int32)
    lanes = [*lane_names(plan, timeline), "messages"]
    phases, media = (*schedule.phases, IDLE), timeline.routed.topology.medium_names
    kinds = [kind_of(phase) for phase in phases]
    run, messages = Run(timeline, ranks, on_path(timeline, path)), len(lanes) - 1
    bubbles = idle_gaps(plan, run) if plan.blocks else _bubbles(plan, run)
    parts = [*(_boxes(run, each) for each in boxes), bubbles, run.sends(messages)]
    pieces = pieces_of(path, ranks, lambda path: _lanes_of(timeline, path, messages))
    names = Names(
        lanes,
        kinds.__getitem__,
        phases.__getitem__,
        lambda rank: rank_name(schedule, rank),
        lambda medium: media[medium],
        BUBBLE_CAUSES,
    )
    ends = timeline.finish[plan.ends].max(axis=1)
    chart = Chart(
        tuple(rank_name(schedule, rank) for rank in ranks.tolist()),
        topology.node[topology.placement[ranks]],
        timeline.makespan,
        COMPUTE,
        np.zeros(0) if len(ends) < 2 or plan.updates is not None else np.maximum.accumulate(ends),
        _remarks(plan),
    )
    return assembled(chart, parts, pieces, names)


def _remarks(plan: Plan) -> tuple[str, ...]:
    shown, remarks = len(plan.standing), list[str]()
    if shown < plan.workers:
        remarks.append(standing(shown, plan.workers))
    if plan.blocks:
        remarks.append(
            "Collectives are timed as a whole: take --detail transfers to see their messages and "
            "why ranks wait."
        )
    return tuple(remarks)


def _boxes(run: Run, boxes: Boxes) -> Columns:
    """Computations or communications."""
    nbytes = box_bytes(run.timeline.schedule, boxes)
    talks = boxes.lane != COMPUTE
    return Columns.of(
        run.row(boxes.rank),
        boxes.start,
        boxes.end,
        lane=boxes.lane,
        kind=boxes.phase,
        name=boxes.phase,
        nbytes=np.where(talks, np.array([size or 0 for size in nbytes], dtype=np.float64), 0),
        critical=run.through[boxes.first] | run.through[boxes.last],
    )


def _bubbles(plan: Plan, run: Run) -> Columns:
    """Bubbles of the workers."""
    schedule = run.timeline.schedule
    spans = bubble_spans(run.timeline, COMPUTE)
    spans = spans.take(np.isin(spans.rank, plan.standing))
    name = np.append(schedule.phase.astype(np.int32), len(schedule.phases))
    return idle_columns(run.timeline, spans, run.row(spans.rank), name)


def idle_gaps(plan: Plan, run: Run) -> Columns:
    """Bubbles of the workers of an outline, which does not know their causes.

    After its final computation a rank waits for the last operation that it takes part in, then it
    drains.
    """
    timeline, schedule = run.timeline, run.timeline.schedule
    computing = computing_ranks(timeline, COMPUTE) & (np.arange(schedule.ranks) < plan.workers)
    last = np.where(computing, last_operations(timeline), np.int32(-1))
    gaps, free = gaps_of(timeline, COMPUTE, last)
    gaps = Gaps._make(column[gaps.rank < plan.workers] for column in gaps)
    finish, ready = timeline.finish[gaps.operation], timeline.ready[gaps.operation]
    awaited = [
        operation
        if itself
        else max(schedule.predecessors(operation).tolist(), key=timeline.finish.__getitem__)
        for operation, itself in zip(gaps.operation.tolist(), gaps.itself.tolist(), strict=True)
    ]
    drains = np.flatnonzero(computing & (free < timeline.makespan))
    end = np.full(len(drains), timeline.makespan)
    idle = {"kind": len(schedule.phases), "name": len(schedule.phases)}
    return Columns.joined(
        Columns.of(
            run.row(gaps.rank),
            gaps.begin,
            np.where(gaps.itself, finish, ready),
            awaited=schedule.phase[np.array(awaited, dtype=np.int32)],
            **idle,
        ),
        Columns.of(run.row(drains), free[drains], end, cause=DRAIN, **idle),
    )


def _lanes_of(timeline: Timeline, path: Path, messages: int) -> Ints:
    """The lane of each segment of a critical path."""
    lane = timeline.schedule.lane[path.operation].astype(np.int32)
    computes = path.part == SEGMENT_PARTS.index("compute")
    lane = np.where(computes & (path.operation >= 0), lane, messages)
    return np.where(np.isin(path.part, AT_RECEIVER), messages, lane).astype(np.int32)


def idle_columns(timeline: Timeline, spans: BubbleSpans, row: Ints, name: Ints) -> Columns:
    """Bubbles as spans: the peer is who sends or computes what the rank waits for.

    `name` is the number of the name of each operation; that of "idle" is the last one.
    """
    operation, idle = spans.operation, int(name[-1])
    known = operation >= 0
    return Columns.of(
        row,
        spans.start,
        spans.end,
        lane=spans.lane,
        kind=idle,
        name=idle,
        cause=spans.cause,
        awaited=np.where(known, name[operation], -1),
        peer=np.where(known, sender_at(timeline, operation), -1),
        link=np.where(spans.cause == CONTENTION, spans.medium, last_link(timeline, operation)),
    )
