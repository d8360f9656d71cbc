"""The picture of a training run: a row a rank, a band a lane, bubbles white."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from experiments.names import rank_name
from experiments.pictures.charts import GREY, to_bytes
from experiments.pictures.timelines.bars import Bars, all_bars, kinds, longest
from experiments.pictures.timelines.palette import colours, is_dark
from experiments.pictures.timelines.tracks import Boxes, Gaps, gaps, kind_of
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE, Plan
from topologies.topology import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW, TALLEST, LEAST, MARGIN = 13.5, 0.62, 11.5, 3.0, 1.3
"""Inches: the picture, a rank, all ranks together, the picture at least, and what is above and
below the ranks."""
POINTS = 750
"""Of the time axis, roughly."""
THIN, FULL, INK = 0.42, 0.86, 0.92
"""Heights: a lane as a share of the main one, the lanes of a rank of its row, a box of its band."""
LETTER, LETTERS, SMALLEST = 0.58, 7.0, 4.5
"""Width of a letter as a share of its size; points at most, and at least."""
LABELLED = 0.02
"""The share of its step from which on a bubble is labelled."""
NAMES, STEPS = 32, 20
"""Ranks and steps that are named at most."""
BETWEEN, WORDS = "0.955", "0.35"
"""Greys."""


class _Places(NamedTuple):
    """The middle and the height of every bar, and of the main lane of every row, in rows."""

    middle: Floats
    height: Floats
    main_middle: Floats
    main_height: Floats


def step_figure(plan: Plan, timeline: Timeline, title: str, kind: str) -> bytes:
    """The picture of :func:`step_drawing` as "png", "svg" or "pdf"."""
    return to_bytes(step_drawing(plan, timeline, title), kind)


def step_drawing(plan: Plan, timeline: Timeline, title: str) -> Figure:
    """Who does what when: the main lane of every rank, below it its other lanes, coloured by the
    phases' first words.

    Communications last from entering to leaving. Bubbles of workers are white, the large ones have
    their share of the step, and at the right is each worker's share of the run. Above 32 ranks,
    boxes, bubbles and some ranks have no label; narrow neighbours of one kind are one box; of over
    200,000 boxes the longest are drawn. The picture says so.
    """
    bars, remarks = longest(all_bars(plan, timeline))
    picture = _Picture(plan, timeline, bars, gaps(plan, timeline))
    figure = Figure(figsize=(WIDTH, max(picture.inches + MARGIN, LEAST)), layout="constrained")
    axes = figure.add_subplot(facecolor=BETWEEN, xlim=(0, timeline.makespan or 1.0))
    axes.set_ylim(len(picture.ranks) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.set_xlabel("time")
    _draw_bars(axes, picture)
    if picture.every == 1:
        _draw_words(axes, picture)
        _draw_bubbles(axes, picture)
    _draw_steps(axes, picture)
    _name_ranks(axes, picture)
    figure.suptitle(title)
    axes.set_title("\n".join([*_summary(picture), *remarks]), loc="left", fontsize=8, color=WORDS)
    figure.legend(handles=_handles(picture), loc="outside right upper", frameon=False)
    return figure


@dataclass(frozen=True, eq=False)
class _Picture:
    """What is drawn, and how: `bars` of ranks and the gaps that are left, a row a rank."""

    plan: Plan
    timeline: Timeline
    bars: Bars
    idle: Gaps

    @cached_property
    def ranks(self) -> npt.NDArray[np.int64]:
        """The ranks that have a row: workers, and servers that do something."""
        return np.union1d(np.arange(self.plan.workers), self.bars.boxes.rank)

    @cached_property
    def inches(self) -> float:
        """All rows together."""
        return min(ROW * len(self.ranks), TALLEST)

    @cached_property
    def every(self) -> int:
        """One rank in so many is named."""
        return -(-len(self.ranks) // NAMES)

    @cached_property
    def places(self) -> _Places:
        """Workers have one division of their rows, servers another."""
        boxes, servers = self.bars.boxes, self.ranks >= self.plan.workers
        own = boxes.rank >= self.plan.workers
        lanes = [
            _lanes(boxes.lane[own == group], self.bars.band[own == group])
            for group in (False, True)
        ]
        places = [
            lanes[int(group)][lane, band]
            for group, lane, band in zip(
                own.tolist(), boxes.lane.tolist(), self.bars.band.tolist(), strict=True
            )
        ]
        middle, height = np.array(places).reshape(-1, 2).T
        main = np.array([lanes[int(group)][COMPUTE, 0] for group in servers])
        row = np.searchsorted(self.ranks, boxes.rank)
        return _Places(
            row + middle, height * INK, np.arange(len(main)) + main[:, 0], main[:, 1] * INK
        )

    @cached_property
    def ends(self) -> Floats:
        """When each step ends at each worker, shape (steps, workers): for all together, unless
        nobody waits."""
        ends = np.maximum.accumulate(self.timeline.finish[self.plan.ends])
        return (
            ends
            if self.plan.updates
            else np.repeat(ends.max(axis=1, keepdims=True), ends.shape[1], axis=1)
        )

    @cached_property
    def shares(self) -> Floats:
        """The share of the run for which each worker is idle."""
        idle = np.bincount(self.idle.rank, self.idle.end - self.idle.start, self.plan.workers)
        return np.asarray(idle / (self.timeline.makespan or 1.0))

    def points(self, seconds: float) -> float:
        """Roughly how wide that is."""
        return seconds * (POINTS / (self.timeline.makespan or 1.0))

    def size(self, height: float) -> float:
        """Points of letters that fit into a bar."""
        return min(LETTERS, 72 * self.inches / len(self.ranks) * height / 1.25)


def _lanes(lane: Ints, band: npt.NDArray[np.int64]) -> dict[tuple[int, int], tuple[float, float]]:
    """Middle and height of every band of every lane, in rows from the middle of the row: the main
    lane on top."""
    depth = {COMPUTE: 1} | {k: int(band[lane == k].max()) + 1 for k in np.unique(lane).tolist()}
    unit = FULL / (1 + THIN * (len(depth) - 1))
    found, top = dict[tuple[int, int], tuple[float, float]](), -FULL / 2
    for k in sorted(depth):
        height = unit * (1.0 if k == COMPUTE else THIN) / depth[k]
        for number in range(depth[k]):
            found[k, number] = top + height / 2, height
            top += height
    return found


def _draw_bars(axes: Axes, picture: _Picture) -> None:
    """The main lanes white, what is on them and on others in the colours of its kind; wide boxes
    have an edge."""
    boxes, places, timeline = picture.bars.boxes, picture.places, picture.timeline
    workers = places.main_middle[: picture.plan.workers], places.main_height[: picture.plan.workers]
    axes.barh(workers[0], timeline.makespan, workers[1], color="white", zorder=0)
    corners = _corners(boxes, places)
    wide = picture.bars.wide(timeline)
    kind_of_box = kinds(timeline, boxes)
    for kind, colour in colours(np.unique(kind_of_box).tolist()).items():
        drawn = list(corners[kind_of_box == kind])
        axes.add_collection(
            PolyCollection(drawn, label=kind, facecolor=colour, linewidth=0, rasterized=True)
        )
    for edge in (0, 1):
        lines = LineCollection(
            list(corners[wide][:, (edge, 3 - edge)]), colors="white", linewidths=0.6
        )
        axes.add_collection(lines).set_rasterized(True)


def _corners(boxes: Boxes, places: _Places) -> Floats:
    """Shape (boxes, 4, 2)."""
    bottom, top = places.middle - places.height / 2, places.middle + places.height / 2
    x = np.stack((boxes.start, boxes.end, boxes.end, boxes.start), axis=1)
    return np.stack((x, np.stack((bottom, bottom, top, top), axis=1)), axis=2)


def _draw_words(axes: Axes, picture: _Picture) -> None:
    """What a box is, where it can be read: its phase, or what follows the kind, or a bucket's
    number, or the kind."""
    boxes, places, phases = picture.bars.boxes, picture.places, picture.timeline.schedule.phases
    look, least = (
        colours(map(kind_of, phases)),
        LETTER * SMALLEST * picture.timeline.makespan / POINTS,
    )
    for k in np.flatnonzero(boxes.end - boxes.start > least).tolist():
        phase, size = phases[boxes.phase[k]], picture.size(float(places.height[k]))
        kind, _, detail = phase.partition(" ")
        number = re.findall(r"\d+$", detail) if boxes.lane[k] != COMPUTE else []
        words = [kind] if picture.bars.several[k] else [phase, detail, *number, kind]
        middle = (boxes.start[k] + boxes.end[k]) / 2, places.middle[k]
        text = _fitting(words, picture.points(boxes.end[k] - boxes.start[k]), size)
        _write(axes, *middle, text, size, "white" if is_dark(look[kind]) else "black")


def _fitting(words: list[str], points: float, size: float) -> str:
    """The first of the words that is seen in letters of that size, and fits."""
    fits = (word for word in words if word and len(word) * LETTER * size < points)
    return next(fits, "") if size >= SMALLEST else ""


def _write(axes: Axes, x: float, y: float, text: str, size: float, colour: str) -> None:
    if not text:
        return
    written = axes.text(
        x,
        y,
        text.replace("$", r"\$"),
        ha="center",
        va="center_baseline",
        fontsize=size,
        color=colour,
    )
    written.set(in_layout=False, clip_on=True)
    if colour == WORDS:
        written.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})


def _draw_bubbles(axes: Axes, picture: _Picture) -> None:
    """The share of the rank's step in every bubble that has room for it; where nothing is left to
    do it is a drain."""
    idle, ends, places = picture.idle, picture.ends, picture.places
    middle, length = (idle.start + idle.end) / 2, idle.end - idle.start
    step = np.minimum((ends[:, idle.rank] < middle).sum(axis=0), len(ends) - 1)
    share = length / np.maximum(np.diff(ends, axis=0, prepend=0.0)[step, idle.rank], length)
    size = picture.size(float(places.main_height[0]))
    for k in np.flatnonzero(share >= LABELLED).tolist():
        words = ["drain"] if idle.awaited[k] < 0 else [f"bubble {share[k]:.0%}", f"{share[k]:.0%}"]
        text = _fitting(words, picture.points(length[k]) - size / 2, size)
        _write(axes, middle[k], places.main_middle[idle.rank[k]], text, size, WORDS)


def _draw_steps(axes: Axes, picture: _Picture) -> None:
    """Lines where a step is over, and above what is between them; where workers do not wait for
    each other, each has lines of its own."""
    ends, rows = picture.ends.max(axis=1), len(picture.ranks)
    if len(ends) == 1:
        return
    if picture.plan.updates is None:
        lines = axes.vlines(ends[:-1], -0.5, rows - 0.5)
        above, every = axes.secondary_xaxis("top"), -(-len(ends) // STEPS)
        steps = zip(picture.plan.numbers.tolist(), picture.plan.useful.tolist(), strict=True)
        names = [f"step {number}" + " (lost)" * (not useful) for number, useful in steps]
        above.set_xticks(((np.append(0.0, ends[:-1]) + ends) / 2)[::every], names[::every])
        above.tick_params(length=0, labelsize=8)
    else:
        row = np.broadcast_to(np.arange(picture.plan.workers), picture.ends.shape).ravel()
        lines = axes.vlines(picture.ends.ravel(), row - 0.5, row + 0.5)
    lines.set(color="0.2", linewidth=0.8, linestyle=(0, (4, 2)), zorder=0.5)


def _name_ranks(axes: Axes, picture: _Picture) -> None:
    """Who it is at the left, the share of the run that are bubbles at the right."""
    rows, places = np.arange(0, len(picture.ranks), picture.every), picture.places.main_middle
    names = [
        rank_name(picture.timeline.schedule, rank).removeprefix("rank ")
        for rank in picture.ranks[rows].tolist()
    ]
    axes.set_yticks(places[rows], names)
    axes.set_ylabel("rank")
    rows = rows[rows < picture.plan.workers]
    beside = axes.secondary_yaxis("right")
    beside.set_yticks(places[rows], [f"{share:.0%}" for share in picture.shares[rows]])
    beside.tick_params(length=0, labelsize=8)
    beside.set_ylabel("bubbles, share of the run")


def _summary(picture: _Picture) -> list[str]:
    share = picture.shares
    least, most = int(np.argmin(share)), int(np.argmax(share))
    extremes = f"from {share[least]:.1%} (rank {least}) to {share[most]:.1%} (rank {most})"
    thinned = [f"one rank in {picture.every} is labelled, boxes and bubbles are not"] * (
        picture.every > 1
    )
    return [f"bubbles: {share.mean():.1%} of the run, {extremes}", *thinned]


def _handles(picture: _Picture) -> list[Patch]:
    phases = picture.timeline.schedule.phases
    kinds = {kind_of(phases[phase]) for phase in np.unique(picture.bars.boxes.phase).tolist()}
    handles = [Patch(facecolor=colour, label=kind) for kind, colour in colours(kinds).items()]
    return [
        *handles,
        Patch(facecolor="white", edgecolor=GREY, label="bubble: the main\nlane is idle"),
    ]
