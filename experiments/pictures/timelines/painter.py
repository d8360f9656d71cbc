"""The painter of timelines: a row for each rank, a box for everything that takes time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from experiments.names import rank_name
from experiments.pictures.figure_file import GREY
from experiments.pictures.timelines.bars import Bars
from experiments.pictures.timelines.palette import colours, is_dark
from experiments.pictures.timelines.tracks import kind_of
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE
from topologies.topology import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 13.5
"""Width of the picture in inches."""
HIGHEST, LOWEST, MARGIN = 11.5, 3.0, 1.3
"""Inches: all rows together at most, the picture at least, and the space above and below the
rows."""
POINTS = 750
"""Approximate width of the time axis, in points."""
FULL, INK = 0.86, 0.92
"""Height of all lanes of a rank as a share of its row, and of a box as a share of its band."""
LETTER, LARGEST, SMALLEST = 0.58, 7.0, 4.5
"""Width of a letter as a share of its height; heights in points, at most and at least."""
NAMES = 32
"""At most this many ranks are named."""
LEGEND = 20
"""At most this many kinds are listed in the legend."""
BETWEEN, TEXT = "0.955", "0.35"
"""Greys: the background between lanes, and text on white."""


class Places(NamedTuple):
    """Where boxes and main lanes are drawn, in rows: row 0 is centred at 0, row 1 at 1."""

    middle: Floats
    """The vertical middle of each box."""
    height: Floats
    """The height of each box."""
    main_middle: Floats
    """The vertical middle of each row's main lane."""
    main_height: Floats
    """The height of each row's main lane."""


@dataclass(frozen=True, eq=False)
class Chart:
    """The boxes of a timeline and where they are drawn."""

    timeline: Timeline
    bars: Bars
    places: Places
    ranks: Ints
    """The rank of each row."""
    white: int
    """This many rows, from the top, have a white main lane: white there means idle."""
    idle: str
    """The legend's text for white."""
    row: float
    """Height of a row in inches, if all rows fit into the picture."""
    what: str = "rank"
    """What each row is of."""

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
        return colours(dict.fromkeys(self.bars.kinds[phase] for phase in self._phases))

    @property
    def _phases(self) -> list[int]:
        return np.unique(self.bars.boxes.phase).tolist()  # type: ignore[no-any-return]

    def points(self, seconds: float) -> float:
        """The approximate width of a duration, in points."""
        return seconds * (POINTS / (self.timeline.makespan or 1.0))

    def letters(self, height: float) -> float:
        """The height, in points, of letters that fit into a box of this height."""
        return min(LARGEST, 72 * self.inches / len(self.ranks) * height / 1.25)


def paint(chart: Chart, title: str, remarks: Sequence[str]) -> tuple[Figure, Axes]:
    """Draw and label all boxes, name the ranks, and explain the colours in a legend.

    Labels are left out above 32 ranks. The `remarks` are written below the title.
    """
    figure = Figure(figsize=(WIDTH, max(chart.inches + MARGIN, LOWEST)), layout="constrained")
    axes = figure.add_subplot(facecolor=BETWEEN, xlim=(0, chart.timeline.makespan or 1.0))
    axes.set_ylim(len(chart.ranks) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.set_xlabel("time")
    _draw_boxes(axes, chart)
    if chart.every == 1:
        _label_boxes(axes, chart)
    else:
        remarks = [*remarks, f"one rank in {chart.every} is named, boxes have no labels"]
    _name_ranks(axes, chart)
    figure.suptitle(title)
    axes.set_title("\n".join(remarks), loc="left", fontsize=8, color=TEXT)
    figure.legend(handles=_handles(chart), loc="outside right upper", frameon=False)
    return figure, axes


def _draw_boxes(axes: Axes, chart: Chart) -> None:
    """White main lanes, boxes in the colour of their kind, and white edges of wide boxes."""
    boxes, places, timeline = chart.bars.boxes, chart.places, chart.timeline
    lanes = places.main_middle[: chart.white], places.main_height[: chart.white]
    axes.barh(lanes[0], timeline.makespan, lanes[1], color="white", zorder=0)
    corners = _corners(boxes.start, boxes.end, places)
    kinds = np.array(chart.bars.kinds)[boxes.phase]
    for kind, colour in chart.colours.items():
        drawn = list(corners[kinds == kind])
        axes.add_collection(
            PolyCollection(drawn, label=kind, facecolor=colour, linewidth=0, rasterized=True)
        )
    wide = corners[chart.bars.wide(timeline)]
    for edge in (0, 1):
        lines = LineCollection(list(wide[:, (edge, 3 - edge)]), colors="white", linewidths=0.6)
        axes.add_collection(lines).set_rasterized(True)


def _corners(start: Floats, end: Floats, places: Places) -> Floats:
    """The corners of each box, shape (boxes, 4, 2)."""
    bottom, top = places.middle - places.height / 2, places.middle + places.height / 2
    x = np.stack((start, end, end, start), axis=1)
    return np.stack((x, np.stack((bottom, bottom, top, top), axis=1)), axis=2)


def _label_boxes(axes: Axes, chart: Chart) -> None:
    """Write into each box its phase, or a shorter text if only that fits.

    The shorter texts are the phase without its first word, a bucket's number and the first word.
    Boxes that stand for several neighbours get their kind only.
    """
    boxes, places, bars = chart.bars.boxes, chart.places, chart.bars
    least = LETTER * SMALLEST * chart.timeline.makespan / POINTS
    for k in np.flatnonzero(boxes.end - boxes.start > least).tolist():
        phase = chart.timeline.schedule.phases[boxes.phase[k]]
        size, detail = chart.letters(float(places.height[k])), phase.partition(" ")[2]
        number = re.findall(r"\d+$", detail) if boxes.lane[k] != COMPUTE else []
        kind = bars.kinds[boxes.phase[k]]
        words = [kind] if bars.several[k] else [phase, detail, *number, kind_of(phase)]
        middle = (boxes.start[k] + boxes.end[k]) / 2, places.middle[k]
        text = fitting(words, chart.points(boxes.end[k] - boxes.start[k]), size)
        colour = "white" if is_dark(chart.colours[kind]) else "black"
        write(axes, *middle, text, size, colour)


def fitting(words: Sequence[str], points: float, size: float) -> str:
    """The first of the texts that fits into `points` in legible letters of this size, or ""."""
    fits = (word for word in words if word and len(word) * LETTER * size < points)
    return next(fits, "") if size >= SMALLEST else ""


def write(axes: Axes, x: float, y: float, text: str, size: float, colour: str) -> None:
    """Write a text centred at (x, y); grey text covers the lines behind it."""
    if not text:
        return
    plain = text.replace("$", r"\$")
    written = axes.text(x, y, plain, ha="center", va="center_baseline", fontsize=size, color=colour)
    written.set(in_layout=False, clip_on=True)
    if colour == TEXT:
        written.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})


def _name_ranks(axes: Axes, chart: Chart) -> None:
    rows, schedule = np.arange(0, len(chart.ranks), chart.every), chart.timeline.schedule
    names = [rank_name(schedule, rank) for rank in chart.ranks[rows].tolist()]
    axes.set_yticks(chart.places.main_middle[rows], [name.removeprefix("rank ") for name in names])
    axes.set_ylabel(chart.what)


def _handles(chart: Chart) -> list[Patch]:
    """The legend: the kinds in their colours, of many only some, and the meaning of white."""
    kinds = list(chart.colours)
    picks = np.linspace(0, len(kinds) - 1, min(len(kinds), LEGEND), dtype=int).tolist()
    handles = [Patch(facecolor=chart.colours[kinds[k]], label=kinds[k]) for k in picks]
    if len(kinds) > LEGEND:
        handles.append(Patch(facecolor="none", label=f"... {len(kinds)} in all"))
    return [*handles, Patch(facecolor="white", edgecolor=GREY, label=chart.idle)]
