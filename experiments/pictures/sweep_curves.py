"""The picture of a sweep: time or bus bandwidth by number of ranks, or by size.

Formula and simulation are never the same line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from experiments.pictures.figure_file import GREY, SparseSeconds, to_bytes
from experiments.simulations.sweep_rows import SweepRow
from topologies.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Colour = tuple[float, float, float, float]
HEADINGS = {"time": "Time", "busbw": "Bus bandwidth"}


def sweep_figure(rows: Sequence[SweepRow], metric: str, kind: str) -> bytes:
    """The picture as a file of `kind`."""
    return to_bytes(sweep_drawing(rows, metric), kind)


def sweep_drawing(rows: Sequence[SweepRow], metric: str) -> Figure:
    """Time or busbw: simulated points, the formula's line, the bound's dashes.

    The axis shows numbers of ranks. It shows sizes if there are several, all of one number of
    ranks.
    """
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot()
    several_sizes = len({row.size_B for row in rows}) > 1
    by_size = several_sizes and len({row.ranks for row in rows}) == 1
    curves = _curves(rows, with_size=several_sizes and not by_size)
    for label, curve, colour in zip(curves, curves.values(), _colours(len(curves)), strict=True):
        x = [row.size_B if by_size else row.ranks for row in curve]
        _sweep_curve(axes, label, x, curve, metric, colour)
    axes.plot([], [], color=GREY, label="formula")
    axes.plot([], [], color=GREY, linestyle="--", label="best bound")
    if by_size:
        title = f"by size, p = {rows[0].ranks}"
        _size_axis(axes)
    else:
        title = "by number of ranks"
        title += "" if several_sizes else f", V = {format_bytes(rows[0].size_B)}"
        _rank_axis(axes, rows)
    _value_axis(axes, metric)
    axes.set_title(f"{HEADINGS[metric]} {title}")
    axes.grid(alpha=0.3)
    figure.legend(
        loc="outside right upper", frameon=False, ncols=1 + len(curves) // 24, fontsize="small"
    )
    return figure


def _curves(rows: Sequence[SweepRow], *, with_size: bool) -> dict[str, list[SweepRow]]:
    """The rows of each curve, by ascending ranks and size."""
    curves: dict[str, list[SweepRow]] = {}
    for row in rows:
        name = row.curve or row.algorithm
        label = f"{name}, {format_bytes(row.size_B)}" if with_size else name
        curves.setdefault(label, []).append(row)
    return {
        label: sorted(curve, key=lambda row: (row.ranks, row.size_B))
        for label, curve in curves.items()
    }


def _size_axis(axes: Axes) -> None:
    axes.set_xlabel("size V")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))


def _rank_axis(axes: Axes, rows: Sequence[SweepRow]) -> None:
    axes.set_xlabel("ranks p")
    if len({row.ranks for row in rows}) == 1:
        axes.set_xticks([rows[0].ranks])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _value_axis(axes: Axes, metric: str) -> None:
    if metric == "time":
        axes.set_yscale("log")
        axes.set_ylabel("time")
        axes.yaxis.set_major_formatter(EngFormatter("s"))
        axes.yaxis.set_minor_formatter(SparseSeconds())
    else:
        axes.set_ylim(bottom=0)
        axes.set_ylabel("bus bandwidth")
        axes.yaxis.set_major_formatter(EngFormatter("B/s"))


def _sweep_curve(
    axes: Axes,
    label: str,
    x: Sequence[float],
    rows: Sequence[SweepRow],
    metric: str,
    colour: Colour,
) -> None:
    factor = [1.0 if metric == "time" else row.busbw_Bps * row.time_s for row in rows]

    def value(seconds: Iterable[float]) -> list[float]:
        pairs = zip(factor, seconds, strict=True)
        return [t if metric == "time" else f / t if t > 0 else float("nan") for f, t in pairs]

    single = "_" if len(rows) == 1 else ""
    simulated, formula, bound = (
        value(seconds)
        for seconds in zip(*((row.time_s, row.formula_s, row.bound_s) for row in rows), strict=True)
    )
    axes.plot(x, simulated, "o", color=colour, markersize=4, label=label)
    axes.plot(x, formula, color=colour, linewidth=1, marker=single, markersize=16)
    axes.plot(
        x, bound, color=colour, linewidth=1, linestyle="--", alpha=0.7, marker=single, markersize=24
    )


def _colours(curves: int) -> list[Colour]:
    if curves <= 10:
        return [colormaps["tab10"](k) for k in range(curves)]
    return [colormaps["turbo"](0.05 + 0.9 * k / (curves - 1)) for k in range(curves)]
