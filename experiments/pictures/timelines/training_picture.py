"""The picture of a training run or of a step of a plan: lanes of ranks, bubbles and steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from experiments.pictures.timelines.bars import arranged, longest, thinnest, widened, with_hidden
from experiments.pictures.timelines.bubble_boxes import label_bubbles
from experiments.pictures.timelines.painter import Chart, paint
from experiments.pictures.timelines.rows import Group, Lane, places_of
from experiments.pictures.timelines.step_spans import StepSpans
from experiments.pictures.timelines.stretches import drawn
from experiments.pictures.timelines.tracks import Boxes, joined_times
from simulator.analysis.bubble_spans import BubbleSpans
from simulator.training.plan import COMPUTE
from topologies.topology import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW, LANE = 0.32, 0.15
"""Inches: the height of a row, and of each of its lanes below the main one."""
THIN = 0.42
"""Height of a lane as a share of the main lane's."""
STEPS = 20
"""At most this many steps are named."""


def training_drawing(step: StepSpans, title: str) -> Figure:
    """Draw the main lane of every rank and, below it, its other lanes, coloured by kind.

    A communication lasts from entering to leaving; what computations hide of it is pale and
    hatched. Bubbles of workers are filled by cause, and large ones are labelled with the cause and
    their share of the step. At the right is each worker's share of the run in bubbles. Above 32
    ranks there are no labels, narrow neighbours of one kind are one box, and of over 200,000 boxes
    the longest are drawn: the picture says so.
    """
    timeline, boxes, places = step.timeline, step.device_boxes, step.places
    bars = arranged(boxes, timeline, step.kinds)
    talks = np.isin(bars.boxes.phase, step.name[step.first[step.call >= 0]])
    talks &= (bars.boxes.lane != COMPUTE) & (bars.boxes.rank < step.workers)
    main, least = boxes.take(boxes.lane == COMPUTE), thinnest(timeline)
    busy = joined_times(main.rank, main.start, main.end, 1e-9 * timeline.makespan)
    bars, remarks = longest(widened(with_hidden(bars, talks, busy, least), timeline))
    stretches = drawn(timeline, step.bubbles, least)._replace(place_name=step.place_name)
    if stretches.mixed:
        remarks.append("bubbles too thin to be seen are drawn together, as the longest of them")
    groups = _groups(step, boxes)
    row = ROW + LANE * (max(len(group.lanes) for group in groups) - 1)
    lanes = places_of(bars, places, groups)
    shown = timeline, bars, lanes, places, row, step.names, step.what, stretches
    chart = Chart(*shown, step.place_name)
    bubbles = _Bubbles(step)
    about = f"what each {step.what} computes and communicates, and why it is idle"
    figure, axes = paint(chart, title, [about, bubbles.summary, *step.remarks, *remarks])
    if chart.every == 1:
        label_bubbles(axes, chart, stretches, bubbles.step_shares(stretches.spans))
    _draw_steps(axes, chart, bubbles)
    _label_shares(axes, chart, bubbles)
    return figure


def _groups(step: StepSpans, boxes: Boxes) -> list[Group]:
    """The lanes of workers, and those of servers."""
    groups, serving = list[Group](), step.places >= step.workers
    for rows, is_server in ((~serving, False), (serving, True)):
        if not rows.any():
            continue
        used = np.unique(boxes.lane[(boxes.rank >= step.workers) == is_server]).tolist()
        lanes = used if is_server else sorted({COMPUTE, *used})
        heights = [1.0 if lane == COMPUTE or is_server else THIN for lane in lanes]
        names = [step.lanes[lane] for lane in lanes]
        groups.append(Group(rows, dict(zip(lanes, map(Lane, names, heights), strict=True))))
    return groups


@dataclass(frozen=True, eq=False)
class _Bubbles:
    """The idle time of the workers' main lanes, and the steps that it belongs to."""

    step: StepSpans

    @cached_property
    def ends(self) -> Floats:
        """When each step ends at each worker, shape (steps, workers).

        All workers end a step together, unless no worker waits for another.
        """
        ends = np.maximum.accumulate(self.step.ends)
        if not self.step.together:
            return ends
        return np.repeat(ends.max(axis=1, keepdims=True), ends.shape[1], axis=1)

    @cached_property
    def shares(self) -> Floats:
        """The share of the run for which each worker is idle."""
        spans = self.step.bubbles
        idle = np.bincount(spans.rank, spans.end - spans.start, self.step.workers)
        return np.asarray(idle / (self.step.timeline.makespan or 1.0))

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
            return f"not computing: {mean} of the run of every {self.step.what}"
        names = [self.step.place_name(place) for place in (least, most)]
        return f"not computing: {mean} of the run, from {low} ({names[0]}) to {high} ({names[1]})"


def _draw_steps(axes: Axes, chart: Chart, bubbles: _Bubbles) -> None:
    """Draw a line at the end of each step, and name the steps above.

    Workers that do not wait for each other have a line each, and no names.
    """
    step, ends, rows = bubbles.step, bubbles.ends.max(axis=1), len(chart.ranks)
    if len(ends) == 1:
        return
    if step.together:
        lines = axes.vlines(ends[:-1], -0.5, rows - 0.5)
        above, every = axes.secondary_xaxis("top"), -(-len(ends) // STEPS)
        steps = zip(step.numbers.tolist(), step.useful.tolist(), strict=True)
        names = [f"step {number}" + " (lost)" * (not useful) for number, useful in steps]
        above.set_xticks(((np.append(0.0, ends[:-1]) + ends) / 2)[::every], names[::every])
        above.tick_params(length=0, labelsize=8)
    else:
        row = np.broadcast_to(np.arange(step.workers), bubbles.ends.shape).ravel()
        lines = axes.vlines(bubbles.ends.ravel(), row - 0.5, row + 0.5)
    lines.set(color="0.2", linewidth=0.8, linestyle=(0, (4, 2)), zorder=0.5)


def _label_shares(axes: Axes, chart: Chart, bubbles: _Bubbles) -> None:
    """Write each worker's share of the run in bubbles at the right."""
    rows = np.arange(0, bubbles.step.workers, chart.every)
    right = axes.secondary_yaxis("right")
    right.set_yticks(
        chart.places.main_middle[rows], [f"{share:.0%}" for share in bubbles.shares[rows]]
    )
    right.tick_params(length=0, labelsize=8)
    right.set_ylabel("not computing, share of the run", labelpad=8)
