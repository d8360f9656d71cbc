"""Measured beside predicted times of many curves: a panel an algorithm, a colour a number of
ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import matplotlib as mpl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.calibration.observations import FitCurve
from experiments.calibration.prediction import PredictedPoint
from experiments.pictures import plot_style as style

ACROSS = 3
MOST = 12
"""Panels; further algorithms are left to the table."""
Judged = tuple[FitCurve, list[PredictedPoint]]
Looks = Mapping[int, tuple[str, str]]
"""Colour and marker of each number of ranks."""


@mpl.rc_context(style.STYLE)
def prediction_drawing(title: str, judged: Sequence[Judged]) -> Figure:
    """Markers are measured, lines predicted, bands intervals. The lighter the colour, the more
    ranks."""
    panels: dict[str, list[Judged]] = {}
    for curve, rows in judged:
        panels.setdefault(curve.label, []).append((curve, rows))
    shown = list(panels.items())[:MOST]
    across = min(ACROSS, len(shown))
    down = ceil(len(shown) / across)
    figure = Figure(figsize=(4.4 * across + 2.6, 3.6 * down + 0.4), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True)
    ranks = sorted({curve.ranks for _, curves in shown for curve, _ in curves})
    looks = {
        p: (to_hex(colormaps["viridis"](k / max(1, len(ranks) - 1) * 0.85)), style.marker(k))
        for k, p in enumerate(ranks)
    }
    sizes = [float(size) for _, curves in shown for curve, _ in curves for size in curve.sizes]
    for axes, (label, curves) in zip(grid.flat, shown, strict=False):
        _panel(axes, label, curves, looks)
        style.size_axis(axes, sizes, most=5)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    for axes in grid.flat[: max(0, len(shown) - across)]:
        axes.set_xlabel("")
    for axes in grid.flat[max(0, len(shown) - across) : len(shown)]:
        axes.tick_params(labelbottom=True)
    figure.suptitle(f"{title}: measured and predicted times", fontsize=12)
    left = style.not_drawn(len(panels) - MOST, "more algorithms")
    sure = any(row.interval for _, rows in judged for row in rows)
    style.legend_beside(figure, _handles(looks, sure=sure), *left)
    return figure


def _handles(looks: Looks, *, sure: bool) -> list[Line2D]:
    """At most as many numbers of ranks as a legend holds, evenly."""
    numbers = list(looks)
    every = -(-len(numbers) // style.MOST_CURVES)
    lines = [
        Line2D([], [], color=looks[p][0], marker=looks[p][1], label=f"{p} ranks")
        for p in numbers[::every]
    ]
    dots = Line2D([], [], color="0.2", marker="o", linestyle="none", label="markers: measured")
    lines += [dots, Line2D([], [], color="0.2", label="lines: predicted")]
    band = Line2D([], [], color="0.85", linewidth=8, label="bands: intervals of a run")
    return [*lines, band] if sure else lines


def _panel(axes: Axes, label: str, curves: Sequence[Judged], looks: Looks) -> None:
    for curve, rows in sorted(curves, key=lambda pair: pair[0].ranks):
        colour, marker = looks[curve.ranks]
        axes.plot(curve.sizes, curve.seconds, marker, color=colour, markersize=4)
        sizes = [row.size for row in rows]
        axes.plot(sizes, [row.seconds for row in rows], color=colour)
        if sure := [row.interval for row in rows if row.interval]:
            ends = [each.low for each in sure], [each.high for each in sure]
            style.band(axes, sizes, *ends, colour)
    style.time_axis(axes, "")
    axes.set_title(style.folded(label.replace("|", " or "), 44), fontsize=10)
