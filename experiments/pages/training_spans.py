"""The spans of a training run: computations, communications, messages, and bubbles with their
causes."""

from __future__ import annotations

import numpy as np

from experiments.names import rank_name
from experiments.pages.critical_pieces import AT_RECEIVER, pieces_of
from experiments.pages.run_spans import last_link, on_path, sender_at
from experiments.pages.span_names import Chart, Names, assembled
from experiments.pages.spans import IDLE, Columns, Spans
from experiments.pictures.timelines.tracks import (
    Boxes,
    box_bytes,
    communications,
    computations,
    gaps,
    kind_of,
    lane_name,
    sends,
)
from simulator.analysis.bubble_spans import BUBBLE_CAUSES, BubbleSpans, bubble_spans
from simulator.analysis.bubbles import CONTENTION, DRAIN
from simulator.analysis.contention import waited
from simulator.analysis.critical_path import SEGMENT_PARTS, Path
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
    lanes = _lanes(plan, timeline)
    phases, media = (*schedule.phases, IDLE), timeline.routed.topology.medium_names
    kinds = [kind_of(phase) for phase in phases]
    makers = _Maker(plan, timeline, ranks, path)
    parts = [*map(makers.boxes, boxes), makers.idle(), makers.messages(len(lanes) - 1)]
    pieces = pieces_of(path, ranks, lambda path: makers.lanes_of(path, len(lanes) - 1))
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
        stand = f"{shown} of {plan.workers} ranks stand{'s' * (shown == 1)} for all"
        remarks.append(f"{stand}: the others do the same at the same time.")
    if plan.blocks:
        remarks.append(
            "Collectives are timed as a whole: take --detail transfers to see their messages and "
            "why ranks wait."
        )
    return tuple(remarks)


def _lanes(plan: Plan, timeline: Timeline) -> list[str]:
    """The lanes of a rank; the last one has messages."""
    most = int(plan.spans.lane.max(initial=0)) + 1
    count = max(len(plan.lanes), timeline.schedule.lanes, most)
    return [*(lane_name(plan, lane) for lane in range(count)), "messages"]


class _Maker:
    """Makes spans of a training run."""

    def __init__(self, plan: Plan, timeline: Timeline, ranks: Ints, path: Path) -> None:
        self._plan, self._timeline, self._ranks = plan, timeline, ranks
        self._through = on_path(timeline, path)

    def boxes(self, boxes: Boxes) -> Columns:
        """Computations or communications."""
        nbytes = box_bytes(self._timeline.schedule, boxes)
        talks = boxes.lane != COMPUTE
        return Columns.of(
            self._row(boxes.rank),
            boxes.start,
            boxes.end,
            lane=boxes.lane,
            kind=boxes.phase,
            name=boxes.phase,
            nbytes=np.where(talks, np.array([size or 0 for size in nbytes], dtype=np.float64), 0),
            critical=self._through[boxes.first] | self._through[boxes.last],
        )

    def messages(self, lane: int) -> Columns:
        """Messages while they hold the first link."""
        timeline, schedule, sent = self._timeline, self._timeline.schedule, sends(self._timeline)
        taking = np.flatnonzero(
            (sent.end > sent.start) & np.isin(schedule.rank[sent.operation], self._ranks)
        )
        operation = sent.operation[taking]
        return Columns.of(
            self._row(schedule.rank[operation]),
            sent.start[taking],
            sent.end[taking],
            lane=lane,
            kind=schedule.phase[operation],
            name=schedule.phase[operation],
            peer=schedule.peer[operation],
            link=sent.medium[taking],
            nbytes=schedule.nbytes[operation],
            waited=waited(timeline)[0][operation] if len(operation) else np.zeros(0),
            critical=self._through[operation],
        )

    def idle(self) -> Columns:
        """Bubbles of the workers. An outline does not know their causes."""
        timeline, plan = self._timeline, self._plan
        phases = timeline.schedule.phases
        if not plan.blocks:
            spans = bubble_spans(timeline, COMPUTE)
            spans = spans.take(np.isin(spans.rank, plan.standing))
            name = np.append(timeline.schedule.phase.astype(np.int32), len(phases))
            return idle_columns(timeline, spans, self._row(spans.rank), name)
        idle = gaps(plan, timeline)
        drains = idle.awaited < 0
        return Columns.of(
            self._row(idle.rank),
            idle.start,
            idle.end,
            kind=len(phases),
            name=len(phases),
            cause=np.where(drains, DRAIN, -1),
            awaited=np.where(drains, -1, timeline.schedule.phase[idle.awaited]),
        )

    def lanes_of(self, path: Path, messages: int) -> Ints:
        """The lane of each segment of a critical path."""
        lane = self._timeline.schedule.lane[path.operation].astype(np.int32)
        computes = path.part == SEGMENT_PARTS.index("compute")
        lane = np.where(computes & (path.operation >= 0), lane, messages)
        return np.where(np.isin(path.part, AT_RECEIVER), messages, lane).astype(np.int32)

    def _row(self, rank: Ints) -> Ints:
        return np.searchsorted(self._ranks, rank).astype(np.int32)


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
