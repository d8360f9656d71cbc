"""Bubbles in a picture: filled by cause, with their cause as a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import PolyCollection

from experiments.pictures.timelines.palette import FILLS, Fill
from experiments.pictures.timelines.rows import corners_of
from experiments.pictures.timelines.stretches import Stretches
from experiments.pictures.timelines.texts import TEXT, fitting, write
from simulator.analysis.bubble_spans import BUBBLE_CAUSES
from topologies.topology import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from experiments.pictures.timelines.painter import Chart

LABELLED = 0.02
"""Bubbles of at least this share of their step are labelled."""


def draw_bubbles(axes: Axes, chart: Chart, bubbles: Stretches) -> None:
    """Bubbles with the fill of their cause, below all boxes."""
    spans, places = bubbles.spans, chart.places
    row = np.searchsorted(chart.ranks, spans.rank)
    corners = corners_of(spans.start, spans.end, places.main_middle[row], places.main_height[row])
    for number in np.unique(spans.cause).tolist():
        cause = BUBBLE_CAUSES[number]
        boxes = add_filled(axes, corners[spans.cause == number], f"bubble: {cause}", FILLS[cause])
        boxes.set_zorder(0.4)


def add_filled(axes: Axes, corners: Floats, label: str, fill: Fill) -> PolyCollection:
    """Add boxes with one fill."""
    boxes = PolyCollection(
        list(corners),
        label=label,
        facecolor=fill.colour,
        edgecolor=fill.ink,
        linewidth=0,
        hatch=fill.hatch or None,
        rasterized=True,
    )
    axes.add_collection(boxes)
    return boxes


def label_bubbles(axes: Axes, chart: Chart, bubbles: Stretches, share: Floats) -> None:
    """Write into each bubble with room for it its cause, and its `share` of the step."""
    spans, places = bubbles.spans, chart.places
    middle, length = (spans.start + spans.end) / 2, spans.end - spans.start
    row = np.searchsorted(chart.ranks, spans.rank)
    for k in np.flatnonzero(share >= LABELLED).tolist():
        words, cause = bubbles.words(k), BUBBLE_CAUSES[spans.cause[k]]
        size = chart.letters(float(places.main_height[row[k]]))
        texts = [*(f"{word}, {share[k]:.0%}" for word in words), *words, f"{share[k]:.0%}"]
        if cause == "drain":
            texts = ["drain"]
        text = fitting(texts, chart.points(length[k]) - size / 2, size)
        colour = FILLS[cause].colour
        write(axes, middle[k], places.main_middle[row[k]], text, size, TEXT, colour)
