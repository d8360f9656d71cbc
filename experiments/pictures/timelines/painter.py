"""The painter of timelines: a row for each rank, a box for everything that takes time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from experiments.names import rank_name
from experiments.pictures.figure_file import GREY
from experiments.pictures.timelines import legend
from experiments.pictures.timelines.bars import Bars
from experiments.pictures.timelines.bubble_boxes import add_filled, draw_bubbles
from experiments.pictures.timelines.palette import (
    FILLS,
    HIDDEN,
    QUEUE,
    Fill,
    colours,
    ink_on,
    pale,
)
from experiments.pictures.timelines.rows import FULL, Places, corners_of
from experiments.pictures.timelines.stretches import Stretches
from experiments.pictures.timelines.texts import (
    LARGEST,
    LETTER,
    SMALLEST,
    TEXT,
    fitting,
    write,
)
from experiments.pictures.timelines.tracks import kind_of
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE
from topologies.topology import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 13.5
"""Width of the picture in inches."""
HIGHEST, LOWEST, MARGIN = 11.5, 3.0, 1.3
"""Inches: all rows together at most, the picture at least, and the space above and below the
rows."""
POINTS = 670
"""Approximate width of the time axis, in points."""
NAMES = 32
"""At most this many ranks are named."""
BETWEEN = "0.955"
"""The background between lanes."""


@dataclass(frozen=True, eq=False)
class Chart:
    """The boxes of a timeline and where they are drawn."""

    timeline: Timeline
    bars: Bars
    places: Places
    ranks: Ints
    """The rank of each row."""
    row: float
    """Height of a row in inches, if all rows fit into the picture."""
    names: Sequence[str]
    """What each phase of the boxes is called."""
    what: str = "rank"
    """What each row is of."""
    bubbles: Stretches | None = None
    """The idle time of the top lanes. Without it, white is idle in all rows."""
    place_name: Callable[[int], str] | None = None
    """What each rank is called; None: as in its schedule."""

    @cached_property
    def inches(self) -> float:
        """The height of all rows together."""
        return min(self.row * len(self.ranks), HIGHEST)

    @cached_property
    def every(self) -> int:
        """Only every so many ranks are named."""
        return -(-len(self.ranks) // NAMES)

    @cached_property
    def colours(self) -> dict[str, str]:
        """The colour of each kind of box."""
        phases = np.unique(self.bars.boxes.phase).tolist()
        kinds = dict.fromkeys(self.bars.kinds[phase] for phase in phases)
        queue = {kind: FILLS["contention"].colour for kind in kinds if kind == QUEUE}
        return colours(kind for kind in kinds if kind != QUEUE) | queue

    def points(self, seconds: float) -> float:
        """The approximate width of a duration, in points."""
        return seconds * (POINTS / (self.timeline.makespan or 1.0))

    def tall(self, height: float) -> float:
        """The height of a share of a row, in points."""
        return 72 * self.inches / len(self.ranks) * height

    def letters(self, height: float) -> float:
        """The height, in points, of letters that fit into a box of this height."""
        return min(LARGEST, self.tall(height) / 1.25)


def paint(chart: Chart, title: str, remarks: Sequence[str]) -> tuple[Figure, Axes]:
    """Draw and label all boxes, name the ranks and lanes, and explain colours in a legend.

    Labels are left out above 32 ranks. The `remarks` are written below the title.
    """
    handles = _handles(chart)
    height = max(chart.inches + MARGIN, legend.inches(handles), LOWEST)
    with mpl.rc_context({"hatch.linewidth": 0.5}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot(facecolor=BETWEEN, xlim=(0, chart.timeline.makespan or 1.0))
        axes.set_ylim(len(chart.ranks) - 0.5, -0.5)
        axes.xaxis.set_major_formatter(EngFormatter("s"))
        axes.set_xlabel("time")
        _draw_boxes(axes, chart)
        if chart.bubbles:
            draw_bubbles(axes, chart, chart.bubbles)
        if chart.every == 1:
            _label_boxes(axes, chart)
        else:
            remarks = [
                *remarks,
                f"one {chart.what} in {chart.every} is named, boxes have no labels",
            ]
        remarks = [*remarks, *_name_rows(axes, chart)]
        figure.suptitle(title, parse_math=False)
        axes.set_title("\n".join(remarks), loc="left", fontsize=8, color=TEXT, parse_math=False)
        legend.add(figure, handles)
    return figure, axes


def _draw_boxes(axes: Axes, chart: Chart) -> None:
    """Boxes in the colour of their kind, hidden communication hatched, and white edges of wide
    boxes."""
    boxes, places, bars = chart.bars.boxes, chart.places, chart.bars
    if not chart.bubbles:
        rows = np.arange(len(chart.ranks))
        axes.barh(rows, chart.timeline.makespan, FULL, color="white", zorder=0)
    corners = corners_of(boxes.start, boxes.end, places.middle, places.height)
    kinds = np.array(bars.kinds)[boxes.phase]
    for kind, colour in chart.colours.items():
        mine = kinds == kind
        for hidden in (False, True) if bars.hidden[mine].any() else (False,):
            fill = Fill(pale(colour), HIDDEN, colour) if hidden else Fill(colour, "", colour)
            fill = FILLS["contention"] if kind == QUEUE else fill
            drawn = corners[mine & (bars.hidden == hidden)]
            add_filled(axes, drawn, f"hidden {kind}" if hidden else kind, fill)
    wide = bars.wide(chart.timeline)
    for side, edge in ((0, (0, 3)), (1, (1, 2))):
        lines = LineCollection(
            list(corners[wide & bars.whole[:, side]][:, edge]), colors="white", linewidths=0.6
        )
        axes.add_collection(lines).set_rasterized(True)


def _label_boxes(axes: Axes, chart: Chart) -> None:
    """Write into each box its phase, or a shorter text if only that fits.

    The shorter texts are the phase without its first word, a bucket's number and the first word.
    Boxes that stand for several neighbours get their kind only.
    """
    boxes, places, bars = chart.bars.boxes, chart.places, chart.bars
    least = LETTER * SMALLEST * chart.timeline.makespan / POINTS
    for k in np.flatnonzero(boxes.end - boxes.start > least).tolist():
        phase = chart.names[boxes.phase[k]]
        size, detail = chart.letters(float(places.height[k])), phase.partition(" ")[2]
        number = re.findall(r"\d+$", detail) if boxes.lane[k] != COMPUTE else []
        kind = bars.kinds[boxes.phase[k]]
        words = [kind] if bars.several[k] else [phase, detail, *number, kind_of(phase)]
        if chart.what != "rank" and not bars.several[k]:
            words = [phase, kind]
        if kind == QUEUE:
            words = [phase, phase.removeprefix("waits for "), "queue"]
        middle = (boxes.start[k] + boxes.end[k]) / 2, places.middle[k]
        text = fitting(words, chart.points(boxes.end[k] - boxes.start[k]), size)
        colour = chart.colours[kind]
        hatched = bars.hidden[k] or kind == QUEUE
        ink = "black" if hatched else ink_on(colour)
        behind = (pale(colour) if bars.hidden[k] else colour) if hatched else None
        write(axes, *middle, text, size, ink, behind)


def _name_rows(axes: Axes, chart: Chart) -> list[str]:
    """Name ranks, and their lanes where they are tall enough. Returns a remark if they are not."""
    schedule = chart.timeline.schedule
    rows = np.arange(0, len(chart.ranks), chart.every)
    serving = np.flatnonzero(chart.ranks >= schedule.workers)
    if len(serving) == 1:
        rows = np.append(rows[rows <= serving[0] - chart.every], serving)
    name_of = chart.place_name or partial(rank_name, schedule)
    names = [name_of(rank) for rank in chart.ranks[rows].tolist()]
    axes.set_yticks(rows, [name.removeprefix(f"{chart.what} ") for name in names])
    axes.set_ylabel(chart.what)
    lanes = [lane for lane in chart.places.lanes if lane[2]]
    order = list(dict.fromkeys(name for *_, name in lanes))
    size = min([6.5, *(chart.tall(height) / 1.1 for _, height, _ in lanes)])
    if len(order) < 2:
        return []
    if size < SMALLEST or chart.every > 1:
        return [f"each row, from the top: {', '.join(order)}"]
    axes.yaxis.remove_overlapping_locs = False
    axes.set_yticks([middle for middle, *_ in lanes], [name for *_, name in lanes], minor=True)
    axes.tick_params(axis="y", which="minor", labelsize=size, length=0, pad=2)
    longest = max(map(len, order))
    axes.tick_params(axis="y", which="major", length=0, pad=longest * LETTER * size + 6)
    return []


def _handles(chart: Chart) -> list[legend.Handle]:
    """The kinds in their colours, how hidden communication is drawn, and the causes of bubbles."""
    handles = legend.kinds(chart.colours)
    if chart.bars.hidden.any():
        handles += legend.communication()
    if chart.bubbles:
        return [*handles, *legend.causes(chart.bubbles.causes)]
    return [*handles, Patch(facecolor="white", edgecolor=GREY, label="idle")]
