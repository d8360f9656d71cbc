"""The picture of a sweep: bus bandwidth, time or efficiency by size or by number of ranks.

Formula and simulation are never the same line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import exp, log, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from experiments.pictures import figures as style
from experiments.pictures.timelines.palette import mixed
from experiments.simulations.sweep_rows import SweepRow
from topologies.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from experiments.simulations.measured_curves import MeasuredCurve

METRICS: Any = {
    "time": ("time", style.time_axis),
    "busbw": ("bus bandwidth", style.bandwidth_axis),
    "efficiency": ("efficiency (bound / time)", style.share_axis),
}
"""The heading and the axis of each metric."""
HOLLOW: Any = {"linestyle": "none", "markerfacecolor": "none", "markersize": 6.5}
"""The look of measured points."""
MOST_MEASURED = 8
"""The measured curves of a picture, at most."""


class _Curve(NamedTuple):
    name: str
    """The algorithm."""
    label: str
    rows: list[SweepRow]
    share: float
    """The share of white in its colour."""
    colour: str
    marker: str


@mpl.rc_context(style.STYLE)
def sweep_drawing(
    rows: Sequence[SweepRow],
    metric: str | None = None,
    subject: str = "",
    measured: Sequence[MeasuredCurve] = (),
) -> Figure:
    """Simulated points with a line, the formula's dots, the bound's dashes, measured points, and
    intervals as bands where the profile has them.

    A formula is drawn where its assumptions hold.

    The axis shows sizes if there are more sizes than numbers of ranks, else numbers of ranks.
    `metric` is one of `METRICS`; without it, busbw by size and time by number of ranks. `subject`
    is the collective and the machine, for the title.
    """
    by_size = len({row.size_B for row in rows}) > len({row.ranks for row in rows})
    metric = metric or ("busbw" if by_size else "time")
    curves, left_out = _curves(rows, by_size)
    figure, (axes,) = style.panels(5.5)
    for curve in curves:
        values = (_values(curve.rows, field, metric) for field in ("time_s", "low_s", "high_s"))
        about: Any = {"color": curve.colour, "label": curve.label, "marker": curve.marker}
        every = style.sparse(len(curve.rows))
        style.draw(axes, _places(curve.rows, by_size), *values, markevery=every, **about)
    _draw_formulas(axes, curves, metric, by_size)
    for points, users in _bounds(curves, metric, by_size):
        # In the colour of its algorithm if it is of one among several.
        alone = len({curve.name for curve in users}) < len({curve.name for curve in curves})
        colour = users[0].colour if alone else mixed(style.GREY, users[0].share)
        ends = zip(*sorted(points.items()), strict=True)
        axes.plot(*ends, "--", color=colour, linewidth=1.1, **_single(points))
    axes.plot([], [], "--", color=style.GREY, linewidth=1.1, label="best bound")
    colours = {curve.name: curve.colour for curve in curves}
    _draw_measured(axes, measured[:MOST_MEASURED], rows, (metric, by_size), colours)
    left_out += style.not_drawn(len(measured) - MOST_MEASURED, "more measured curves")
    (style.size_axis if by_size else style.rank_axis)(axes, _places(rows, by_size))
    heading, value_axis = METRICS[metric]
    value_axis(axes, heading)
    return style.finished(figure, _title(rows, metric, subject, by_size), *left_out)


def _places(rows: Iterable[SweepRow], by_size: bool) -> list[float]:
    return [row.size_B if by_size else row.ranks for row in rows]


def _title(rows: Sequence[SweepRow], metric: str, subject: str, by_size: bool) -> str:
    others = sorted({row.ranks if by_size else row.size_B for row in rows})
    fixed = ""
    if len(others) == 1:
        fixed = f", p = {others[0]}" if by_size else f", V = {format_bytes(others[0])}"
    axis = "size" if by_size else "number of ranks"
    title = f"{METRICS[metric][0].partition(' (')[0]} by {axis}{fixed}"
    return f"{subject}: {title}" if subject else title[0].upper() + title[1:]


def _curves(rows: Sequence[SweepRow], by_size: bool) -> tuple[list[_Curve], list[str]]:
    """The curves, each by ascending ranks or size, and what is left out of them in words.

    An algorithm has a colour. Its curves have differing markers, and the first are paler.
    """
    table: dict[str, dict[float, list[SweepRow]]] = {}
    for row in rows:
        fixed = row.ranks if by_size else row.size_B
        table.setdefault(row.curve or row.algorithm, {}).setdefault(fixed, []).append(row)
    others = sorted({fixed for curves in table.values() for fixed in curves})
    kept = _spread(others, max(2, style.MOST_CURVES // len(table)))
    fast = sorted(table, key=lambda name: _slowness(table[name]))[: style.MOST_CURVES // len(kept)]
    names = [name for name in table if name in fast]
    several, curves = len(others) > 1, list[_Curve]()
    for number, name in enumerate(names):
        for place, fixed in enumerate(kept):
            if points := table[name].get(fixed):
                share = 0.55 * (1 - place / (len(kept) - 1)) if len(kept) > 1 else 0.0
                other_text = f"p = {fixed}" if by_size else format_bytes(fixed)
                curves.append(
                    _Curve(
                        name,
                        f"{name}, {other_text}" if several else name,
                        sorted(points, key=lambda row: (row.ranks, row.size_B)),
                        share,
                        mixed(style.colour(number), share),
                        style.marker(place if len(kept) > 1 else number),
                    )
                )
    slow = [name for name in table if name not in names]
    left_out = [f"not drawn, as slower: {', '.join(slow)}"] if slow else []
    what = f"of {len(others)} {'numbers of ranks' if by_size else 'sizes'}"
    return curves, left_out + style.not_drawn(len(others) - len(kept), what)


def _spread(values: list[float], most: int) -> list[float]:
    """At most so many of the values, evenly, with the first and the last."""
    places = np.linspace(0, len(values) - 1, min(most, len(values)))
    return [values[place] for place in dict.fromkeys(np.round(places).astype(int).tolist())]


def _slowness(curves: dict[float, list[SweepRow]]) -> float:
    ratios = [row.over_bound for points in curves.values() for row in points]
    return exp(sum(log(max(ratio, 1e-9)) for ratio in ratios) / len(ratios))


def _draw_formulas(axes: Axes, curves: Sequence[_Curve], metric: str, by_size: bool) -> None:
    """The formula of each curve where it says something about this machine."""
    claimed = {_claimed(row) for curve in curves for row in curve.rows}
    if True not in claimed:
        return
    label = "formula, where its assumptions hold" if False in claimed else "formula"
    for curve in curves:
        every = zip(curve.rows, _values(curve.rows, "formula_s", metric), strict=True)
        values = [value if _claimed(row) else nan for row, value in every]
        look: Any = {"color": mixed(curve.colour, 0.55, "black"), **_single(curve.rows)}
        axes.plot(_places(curve.rows, by_size), values, ":", **look)
    axes.plot([], [], ":", color="0.2", label=label)


def _claimed(row: SweepRow) -> bool:
    return row.formula_s == row.formula_s and row.verdict.claimed


def _bounds(
    curves: Sequence[_Curve], metric: str, by_size: bool
) -> list[tuple[dict[float, float], list[_Curve]]]:
    """The bounds by their places, each once, with their curves."""
    bounds = list[tuple[dict[float, float], list[_Curve]]]()
    for curve in curves:
        values = (float(f"{value:.6g}") for value in _values(curve.rows, "bound_s", metric))
        points = dict(zip(_places(curve.rows, by_size), values, strict=True))
        for known, users in bounds:
            if known.keys() & points and {**known, **points} == {**points, **known}:
                known |= points
                users.append(curve)
                break
        else:
            bounds.append((points, [curve]))
    return bounds


def _single(points: Collection[object]) -> Any:
    """How lines of a single point are seen."""
    return {"marker": "_", "markersize": 16} if len(points) == 1 else {}


def _values(rows: Iterable[SweepRow], field: str, metric: str) -> list[Any]:
    """The metric of each row for a time of it; None without that time."""
    values = list[Any]()
    for row in rows:
        seconds = getattr(row, field)
        if metric != "time" and seconds is not None:
            whole = row.bound_s if metric == "efficiency" else row.busbw_Bps * row.time_s
            seconds = whole / seconds if seconds > 0 else nan
        values.append(seconds)
    return values


def _draw_measured(
    axes: Axes,
    measured: Sequence[MeasuredCurve],
    rows: Sequence[SweepRow],
    shown: tuple[str, bool],
    colours: Mapping[str, str],
) -> None:
    """Hollow points in the colour of their algorithm, crossed where the result was wrong.

    `shown` is the metric, and whether the axis shows sizes. If not, only points of a swept size are
    drawn.
    """
    metric, by_size = shown
    bounds = {(row.ranks, row.size_B): row.bound_s for row in rows}
    sizes = {row.size_B for row in rows}
    for number, curve in enumerate(measured):
        places: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for point in curve.points:
            if by_size or point.size in sizes:
                whole = point.size * curve.busbw
                if metric == "efficiency":
                    whole = bounds.get((curve.ranks, point.size), nan)
                value = point.time_s if metric == "time" else whole / point.time_s
                place = float(point.size if by_size else curve.ranks)
                places[bool(point.wrong)].append((place, value))
        name = f"measured {curve.algorithm}" if curve.algorithm else "measured"
        label = f"{name}: {curve.name}, p = {curve.ranks}"
        colour = colours.get(curve.algorithm, "k")
        for wrong, marker, note in ((False, style.marker(number), ""), (True, "x", " (wrong)")):
            if places[wrong]:
                x, y = zip(*places[wrong], strict=True)
                axes.plot(x, y, color=colour, marker=marker, label=label + note, **HOLLOW)
