"""The picture of a training run: lanes of ranks, bubbles and steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from experiments.pictures.figure_file import to_bytes
from experiments.pictures.timelines.bars import Bars, arranged, longest
from experiments.pictures.timelines.painter import (
    FULL,
    INK,
    TEXT,
    Chart,
    Places,
    fitting,
    paint,
    write,
)
from experiments.pictures.timelines.tracks import (
    Gaps,
    communications,
    computations,
    gaps,
    kind_of,
)
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE, Plan
from topologies.topology import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = 0.62
"""Height of a row in inches."""
THIN = 0.42
"""Height of a lane as a share of the main lane's."""
LABELLED = 0.02
"""Bubbles of at least this share of their step are labelled."""
STEPS = 20
"""At most this many steps are named."""
_Division = dict[tuple[int, int], tuple[float, float]]
"""Middle and height of each (lane, band)."""


def training_figure(plan: Plan, timeline: Timeline, title: str, kind: str) -> bytes:
    """The picture of :func:`training_drawing` as "png", "svg" or "pdf"."""
    return to_bytes(training_drawing(plan, timeline, title), kind)


def training_drawing(plan: Plan, timeline: Timeline, title: str) -> Figure:
    """Draw the main lane of every rank and, below it, its other lanes, coloured by kind.

    A communication lasts from entering to leaving. Bubbles of workers are white. Large bubbles are
    labelled with their share of the step. At the right is each worker's share of the run in
    bubbles. Above 32 ranks there are no labels, narrow neighbours of one kind are one box, and of
    over 200,000 boxes the longest are drawn: the picture says so.
    """
    boxes = computations(plan, timeline).joined(communications(plan, timeline))
    kinds = [kind_of(phase) for phase in timeline.schedule.phases]
    bars, remarks = longest(arranged(boxes, timeline, kinds))
    bubbles = _Bubbles(plan, timeline, gaps(plan, timeline))
    chart = _chart(plan, timeline, bars)
    figure, axes = paint(chart, title, [bubbles.summary, *remarks])
    if chart.every == 1:
        _label_bubbles(axes, chart, bubbles)
    _draw_steps(axes, chart, bubbles)
    _label_shares(axes, chart, bubbles)
    return figure


@dataclass(frozen=True, eq=False)
class _Bubbles:
    """The idle time of the workers' main lanes, and the steps that it belongs to."""

    plan: Plan
    timeline: Timeline
    idle: Gaps

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

    @property
    def summary(self) -> str:
        """The mean share of idle time, the least and the most."""
        share = self.shares
        least, most = int(np.argmin(share)), int(np.argmax(share))
        mean, low, high = (f"{value:.1%}" for value in (share.mean(), share[least], share[most]))
        if low == high:
            return f"bubbles: {mean} of the run of every worker"
        return f"bubbles: {mean} of the run, from {low} (rank {least}) to {high} (rank {most})"


def _chart(plan: Plan, timeline: Timeline, bars: Bars) -> Chart:
    """A row for each worker, and for each server that does something."""
    ranks = np.union1d(np.arange(plan.workers), bars.boxes.rank).astype(np.int32)
    places = _places(plan, bars, ranks)
    return Chart(timeline, bars, places, ranks, plan.workers, "bubble: the main\nlane is idle", ROW)


def _places(plan: Plan, bars: Bars, ranks: Ints) -> Places:
    """Divide the rows of all workers in one way, and those of all servers in another."""
    boxes, is_server = bars.boxes, bars.boxes.rank >= plan.workers
    divisions = [
        _division(boxes.lane[is_server == group], bars.band[is_server == group])
        for group in (False, True)
    ]
    keys = zip(is_server.tolist(), boxes.lane.tolist(), bars.band.tolist(), strict=True)
    places = [divisions[group][lane, band] for group, lane, band in keys]
    middle, height = np.array(places).reshape(-1, 2).T
    main = np.array([divisions[int(rank >= plan.workers)][COMPUTE, 0] for rank in ranks])
    row = np.searchsorted(ranks, boxes.rank)
    return Places(row + middle, height * INK, np.arange(len(main)) + main[:, 0], main[:, 1] * INK)


def _division(lane: Ints, band: npt.NDArray[np.int64]) -> _Division:
    """Middle and height of every band of every lane, in rows from the middle of the row.

    The main lane is at the top.
    """
    depth = {COMPUTE: 1} | {k: int(band[lane == k].max()) + 1 for k in np.unique(lane).tolist()}
    unit = FULL / (1 + THIN * (len(depth) - 1))
    division, top = _Division(), -FULL / 2
    for k in sorted(depth):
        height = unit * (1.0 if k == COMPUTE else THIN) / depth[k]
        for number in range(depth[k]):
            division[k, number] = top + height / 2, height
            top += height
    return division


def _label_bubbles(axes: Axes, chart: Chart, bubbles: _Bubbles) -> None:
    """Write into each bubble with room for it its share of the rank's step, or "drain".

    A bubble is a drain if its rank has nothing left to do.
    """
    idle, ends, places = bubbles.idle, bubbles.ends, chart.places
    middle, length = (idle.start + idle.end) / 2, idle.end - idle.start
    step = np.minimum((ends[:, idle.rank] < middle).sum(axis=0), len(ends) - 1)
    share = length / np.maximum(np.diff(ends, axis=0, prepend=0.0)[step, idle.rank], length)
    size = chart.letters(float(places.main_height[0]))
    for k in np.flatnonzero(share >= LABELLED).tolist():
        words = ["drain"] if idle.awaited[k] < 0 else [f"bubble {share[k]:.0%}", f"{share[k]:.0%}"]
        text = fitting(words, chart.points(length[k]) - size / 2, size)
        write(axes, middle[k], places.main_middle[idle.rank[k]], text, size, TEXT)


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
