"""The picture of a training run: lanes of ranks, bubbles and steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from experiments.pictures.timelines.bars import arranged, longest, thinnest, widened, with_hidden
from experiments.pictures.timelines.bubble_boxes import label_bubbles
from experiments.pictures.timelines.painter import Chart, paint
from experiments.pictures.timelines.rows import Group, Lane, places_of
from experiments.pictures.timelines.stretches import drawn
from experiments.pictures.timelines.tracks import (
    Boxes,
    communications,
    computations,
    joined_times,
    kind_of,
    lane_name,
)
from simulator.analysis.bubble_spans import BubbleSpans, bubble_spans
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE, Plan
from topologies.topology import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW, LANE = 0.32, 0.15
"""Inches: the height of a row, and of each of its lanes below the main one."""
THIN = 0.42
"""Height of a lane as a share of the main lane's."""
SHOWN = "what each rank computes and communicates, and why it is idle"
"""What the picture is of."""
STEPS = 20
"""At most this many steps are named."""


def training_drawing(plan: Plan, timeline: Timeline, title: str) -> Figure:
    """Draw the main lane of every rank and, below it, its other lanes, coloured by kind.

    A communication lasts from entering to leaving; what computations hide of it is pale and
    hatched. Bubbles of workers are filled by cause, and large ones are labelled with the cause and
    their share of the step. At the right is each worker's share of the run in bubbles. Above 32
    ranks there are no labels, narrow neighbours of one kind are one box, and of over 200,000 boxes
    the longest are drawn: the picture says so.
    """
    boxes = computations(plan, timeline).joined(communications(plan, timeline))
    phases = timeline.schedule.phases
    bars = arranged(boxes, timeline, [kind_of(phase) for phase in phases])
    talks = np.isin(bars.boxes.phase, timeline.schedule.phase[plan.spans.first])
    talks &= (bars.boxes.lane != COMPUTE) & (bars.boxes.rank < plan.workers)
    main, least = boxes.take(boxes.lane == COMPUTE), thinnest(timeline)
    busy = joined_times(main.rank, main.start, main.end, 1e-9 * timeline.makespan)
    bars, remarks = longest(widened(with_hidden(bars, talks, busy, least), timeline))
    spans = bubble_spans(timeline, COMPUTE)
    spans = spans.take(spans.rank < plan.workers)
    stretches = drawn(timeline, spans, least)
    if stretches.mixed:
        remarks.append("bubbles too thin to be seen are drawn together, as the longest of them")
    ranks = np.union1d(np.arange(plan.workers), boxes.rank).astype(np.int32)
    groups = _groups(plan, boxes, ranks >= plan.workers)
    places = places_of(bars, ranks, groups)
    lanes = max(len(group.lanes) for group in groups)
    chart = Chart(
        timeline, bars, places, ranks, ROW + LANE * (lanes - 1), phases, bubbles=stretches
    )
    bubbles = _Bubbles(plan, timeline, spans)
    figure, axes = paint(chart, title, [SHOWN, bubbles.summary, *remarks])
    if chart.every == 1:
        label_bubbles(axes, chart, stretches, bubbles.step_shares(stretches.spans))
    _draw_steps(axes, chart, bubbles)
    _label_shares(axes, chart, bubbles)
    return figure


def _groups(plan: Plan, boxes: Boxes, serving: npt.NDArray[np.bool_]) -> list[Group]:
    """The lanes of workers, and those of servers."""
    groups = list[Group]()
    for rows, is_server in ((~serving, False), (serving, True)):
        if not rows.any():
            continue
        used = np.unique(boxes.lane[(boxes.rank >= plan.workers) == is_server]).tolist()
        lanes = used if is_server else sorted({COMPUTE, *used})
        heights = [1.0 if lane == COMPUTE or is_server else THIN for lane in lanes]
        names = [lane_name(plan, lane) for lane in lanes]
        groups.append(Group(rows, dict(zip(lanes, map(Lane, names, heights), strict=True))))
    return groups


@dataclass(frozen=True, eq=False)
class _Bubbles:
    """The idle time of the workers' main lanes, and the steps that it belongs to."""

    plan: Plan
    timeline: Timeline
    idle: BubbleSpans

    @cached_property
    def ends(self) -> Floats:
        """When each step ends at each worker, shape (steps, workers).

        All workers end a step together, unless no worker waits for another.
        """
        ends = np.maximum.accumulate(self.timeline.finish[self.plan.ends])
        if self.plan.updates:
            return ends
        return np.repeat(ends.max(axis=1, keepdims=True), ends.shape[1], axis=1)

    @cached_property
    def shares(self) -> Floats:
        """The share of the run for which each worker is idle."""
        idle = np.bincount(self.idle.rank, self.idle.end - self.idle.start, self.plan.workers)
        return np.asarray(idle / (self.timeline.makespan or 1.0))

    def step_shares(self, spans: BubbleSpans) -> Floats:
        """The length of each bubble as a share of the step of its rank."""
        middle, length = (spans.start + spans.end) / 2, spans.end - spans.start
        step = np.minimum((self.ends[:, spans.rank] < middle).sum(axis=0), len(self.ends) - 1)
        steps = np.diff(self.ends, axis=0, prepend=0.0)[step, spans.rank]
        return np.asarray(length / np.maximum(steps, length))

    @property
    def summary(self) -> str:
        """The mean share of idle time, the least and the most."""
        share = self.shares
        least, most = int(np.argmin(share)), int(np.argmax(share))
        mean, low, high = (f"{value:.1%}" for value in (share.mean(), share[least], share[most]))
        if low == high:
            return f"bubbles: {mean} of the run of every worker"
        return f"bubbles: {mean} of the run, from {low} (rank {least}) to {high} (rank {most})"


def _draw_steps(axes: Axes, chart: Chart, bubbles: _Bubbles) -> None:
    """Draw a line at the end of each step, and name the steps above.

    Workers that do not wait for each other have a line each, and no names.
    """
    plan, ends, rows = bubbles.plan, bubbles.ends.max(axis=1), len(chart.ranks)
    if len(ends) == 1:
        return
    if plan.updates is None:
        lines = axes.vlines(ends[:-1], -0.5, rows - 0.5)
        above, every = axes.secondary_xaxis("top"), -(-len(ends) // STEPS)
        steps = zip(plan.numbers.tolist(), plan.useful.tolist(), strict=True)
        names = [f"step {number}" + " (lost)" * (not useful) for number, useful in steps]
        above.set_xticks(((np.append(0.0, ends[:-1]) + ends) / 2)[::every], names[::every])
        above.tick_params(length=0, labelsize=8)
    else:
        row = np.broadcast_to(np.arange(plan.workers), bubbles.ends.shape).ravel()
        lines = axes.vlines(bubbles.ends.ravel(), row - 0.5, row + 0.5)
    lines.set(color="0.2", linewidth=0.8, linestyle=(0, (4, 2)), zorder=0.5)


def _label_shares(axes: Axes, chart: Chart, bubbles: _Bubbles) -> None:
    """Write each worker's share of the run in bubbles at the right."""
    rows = np.arange(0, bubbles.plan.workers, chart.every)
    right = axes.secondary_yaxis("right")
    right.set_yticks(
        chart.places.main_middle[rows], [f"{share:.0%}" for share in bubbles.shares[rows]]
    )
    right.tick_params(length=0, labelsize=8)
    right.set_ylabel("bubbles, share of the run", labelpad=8)
