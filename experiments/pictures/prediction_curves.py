"""Measured beside predicted times of many curves: a panel an algorithm, a colour a number of
ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator

from experiments.calibration.observations import Series
from experiments.calibration.prediction import Predicted
from experiments.pictures.figure_file import to_bytes
from topologies.units import format_bytes

ACROSS, TICKS = 3, 7
MOST = 12
"""Panels; further algorithms are left to the table."""
Judged = tuple[Series, list[Predicted]]


def measured_and_predicted(title: str, judged: Sequence[Judged], kind: str) -> bytes:
    """Dots are measured, lines predicted. Returns the picture as a file of `kind`."""
    panels: dict[str, list[Judged]] = {}
    for curve, rows in judged:
        panels.setdefault(curve.label, []).append((curve, rows))
    shown = list(panels.items())[:MOST]
    across = min(ACROSS, len(shown))
    down = ceil(len(shown) / across)
    figure = Figure(figsize=(4.6 * across + 0.4, 3.6 * down + 0.4), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True)
    ranks = sorted({curve.ranks for curve, _ in judged})
    colour = {
        count: colormaps["viridis"](k / max(1, len(ranks) - 1) * 0.9)
        for k, count in enumerate(ranks)
    }
    for axes, (label, curves) in zip(grid.flat, shown, strict=False):
        _panel(axes, label, curves, colour)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    for axes in grid.flat[max(0, len(shown) - across) : len(shown)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("size V")
    figure.suptitle(f"{title}: measured (dots), predicted (lines)")
    return to_bytes(figure, kind)


def _panel(
    axes: Axes, label: str, curves: Sequence[Judged], colour: Mapping[int, tuple[float, ...]]
) -> None:
    for curve, rows in sorted(curves, key=lambda pair: pair[0].ranks):
        axes.plot(curve.sizes, curve.seconds, "o", color=colour[curve.ranks], markersize=4)
        sizes, seconds = [row.size for row in rows], [row.seconds for row in rows]
        axes.plot(sizes, seconds, "-", color=colour[curve.ranks], label=f"{curve.ranks} ranks")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(EngFormatter("s"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    axes.set_title(label.replace("|", " or "), fontsize=9)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=TICKS))
    axes.grid(alpha=0.3)
    handles, names = axes.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    axes.legend(unique.values(), unique.keys(), frameon=False, fontsize=7)
