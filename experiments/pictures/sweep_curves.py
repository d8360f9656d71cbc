"""The picture of a sweep: time or bus bandwidth by number of ranks.

Formula and simulation are never the same line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from experiments.pictures.figure_file import GREY, SparseSeconds, to_bytes
from experiments.simulations.sweep import SweepRow
from topologies.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Colour = tuple[float, float, float, float]


def sweep_figure(rows: Sequence[SweepRow], metric: str, kind: str) -> bytes:
    """Time or busbw against the number of ranks: simulated points, the formula's line, the bound's
    dashes."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot()
    several = len({row.size_B for row in rows}) > 1
    curves = _curves(rows, several)
    for label, curve, colour in zip(curves, curves.values(), _colours(len(curves)), strict=True):
        _sweep_curve(axes, label, curve, metric, colour)
    axes.plot([], [], color=GREY, label="formula")
    axes.plot([], [], color=GREY, linestyle="--", label="best bound")
    axes.set_xlabel("ranks p")
    if len({row.ranks for row in rows}) == 1:
        axes.set_xticks([rows[0].ranks])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if metric == "time":
        axes.set_yscale("log")
        axes.set_ylabel("time")
        axes.yaxis.set_major_formatter(EngFormatter("s"))
        axes.yaxis.set_minor_formatter(SparseSeconds())
    else:
        axes.set_ylim(bottom=0)
        axes.set_ylabel("bus bandwidth")
        axes.yaxis.set_major_formatter(EngFormatter("B/s"))
    size = "" if several else f", V = {format_bytes(rows[0].size_B)}"
    axes.set_title(f"{'Time' if metric == 'time' else 'Bus bandwidth'} by number of ranks{size}")
    axes.grid(alpha=0.3)
    figure.legend(
        loc="outside right upper", frameon=False, ncols=1 + len(curves) // 24, fontsize="small"
    )
    return to_bytes(figure, kind)


def _curves(rows: Sequence[SweepRow], several: bool) -> dict[str, list[SweepRow]]:
    curves: dict[str, list[SweepRow]] = {}
    for row in rows:
        label = f"{row.algorithm}, {format_bytes(row.size_B)}" if several else row.algorithm
        curves.setdefault(label, []).append(row)
    return curves


def _sweep_curve(axes: Axes, label: str, rows: list[SweepRow], metric: str, colour: Colour) -> None:
    rows = sorted(rows, key=lambda row: row.ranks)
    p = [row.ranks for row in rows]
    factor = [1.0 if metric == "time" else row.busbw_Bps * row.time_s for row in rows]

    def value(seconds: Iterable[float]) -> list[float]:
        pairs = zip(factor, seconds, strict=True)
        return [t if metric == "time" else f / t if t > 0 else float("nan") for f, t in pairs]

    alone = "_" if len(rows) == 1 else ""
    axes.plot(p, value(row.time_s for row in rows), "o", color=colour, markersize=4, label=label)
    axes.plot(
        p,
        value(row.formula_s for row in rows),
        color=colour,
        linewidth=1,
        marker=alone,
        markersize=16,
    )
    bound = value(row.bound_s for row in rows)
    axes.plot(
        p, bound, color=colour, linewidth=1, linestyle="--", alpha=0.7, marker=alone, markersize=24
    )


def _colours(curves: int) -> list[Colour]:
    if curves <= 10:
        return [colormaps["tab10"](k) for k in range(curves)]
    return [colormaps["turbo"](0.05 + 0.9 * k / (curves - 1)) for k in range(curves)]
