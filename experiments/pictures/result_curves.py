"""Pictures of results as curves: diagnoses, validations, predictions, recommendations, learning
runs and searches for plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, PercentFormatter, StrMethodFormatter

from experiments.output import counted
from experiments.pictures import figures as style
from topologies.topology import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from experiments.calibration.observations import FitCurve
    from experiments.calibration.prediction import PredictedPoint
    from experiments.diagnosis.curve_diagnosis import Diagnosis
    from experiments.learning.learning_run import LearningRun
    from experiments.parallel.plan_search import FoundPlan, SearchResult
    from experiments.simulations.recommendation import Advice, Crossover
    from experiments.simulations.validation import Validation

    Judged = tuple[FitCurve, list[PredictedPoint]]

LOOKS: dict[str, Any] = {
    "wrong result": {"marker": "x", "color": "k"},
    "measured, fitted": {"marker": "o", "color": "0.6"},
    "measured, unseen": {"marker": "s", "color": style.COLOURS[1]},
    "measured": {"marker": "s", "color": style.COLOURS[1]},
}
"""The look of points by what they were to the fit."""
ACROSS, MOST_PANELS = 3, 12
"""Panels beside each other; and panels: further algorithms are left to the table."""
GIGA = 1e9


@mpl.rc_context(style.STYLE)
def diagnosis_drawing(diagnosis: Diagnosis) -> Figure:
    """Measured and expected time by size and fitted protocols above, bus bandwidth below; abnormal
    sizes in red."""
    figure, (upper, lower) = style.panels(7.5, 2)
    curve, size, expected = diagnosis.curve, diagnosis.columns.size, diagnosis.expected
    measured, every = diagnosis.columns.seconds, np.ones(len(size), dtype=np.bool_)
    alarms, notes = np.zeros((2, len(size)), dtype=np.bool_)
    for finding in diagnosis.findings:
        (alarms if finding.alarm else notes)[[*finding.places]] = True
    drawn = list[tuple[str, str, str, Any, Sequence[Floats]]]()
    if expected:
        ends = (expected.low, expected.high) if expected.intervals else ()
        times = expected.seconds, *ends
        drawn.append(("expected: simulated", "-.", style.COLOURS[2], every, times))
        drawn.append(("best bound", "--", style.GREY, every, [expected.bound]))
    fitted = [diagnosis.envelope(size)]
    drawn += [
        ("fitted protocols", "-", style.COLOURS[0], every, fitted),
        ("measured", "o", "k", every, [measured]),
        ("abnormal", "X", style.COLOURS[1], alarms, [measured]),
        ("worth knowing", "D", style.COLOURS[5], notes & ~alarms, [measured]),
    ]
    for label, mark, colour, chosen, seconds in drawn:
        for axes, nbytes in ((upper, None), (lower, diagnosis.busbw * measured)):
            values = [each if nbytes is None else nbytes / each for each in seconds]
            look: Any = {"linestyle": mark} if "-" in mark else {"marker": mark, "linestyle": ""}
            look |= {"markersize": 4 if mark == "o" else 8, "color": colour, "label": label}
            if chosen.any():
                style.draw(axes, size[chosen], *(each[chosen] for each in values), **look)
    style.size_axis(lower, size.tolist())
    style.time_axis(upper)
    style.bandwidth_axis(lower, "bus bandwidth" if curve.ranks else "algbw")
    ranks = f", {counted(curve.ranks, 'rank')}" if curve.ranks else ""
    name = Path(curve.source).name
    return style.finished(figure, f"{curve.collective}{ranks}, {name}: {diagnosis.verdict}")


@mpl.rc_context(style.STYLE)
def validation_drawing(validation: Validation) -> Figure:
    """Measured and predicted time by size, fitted and unseen points apart, and the error below."""
    figure, (upper, lower) = style.panels(6.5, 2, height_ratios=(3, 1))
    points = validation.points
    size = [point.size_B for point in points]
    label = f"predicted: {validation.algorithm}, simulated"
    times = (
        [getattr(each, name) for each in points] for name in ("predicted_s", "low_s", "high_s")
    )
    style.draw(upper, size, *times, marker=".", color=style.COLOURS[0], label=label)
    roles: dict[str, list[Any]] = {}
    others = "measured, unseen" if validation.fit else "measured"
    for point in points:
        role = "measured, fitted" if point.fitted else others
        roles.setdefault("wrong result" if point.wrong else role, []).append(point)
    for role, chosen in roles.items():
        look = LOOKS[role] | {"linestyle": "none", "label": role}
        for axes, name in ((upper, "measured_s"), (lower, "error")):
            places = [point.size_B for point in chosen]
            style.draw(axes, places, [getattr(point, name) for point in chosen], **look)
    style.size_axis(lower, size)
    style.time_axis(upper)
    lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0%}"))
    lower.axhline(0, color=style.GREY, linewidth=0.8)
    lower.set_ylabel("error")
    return style.finished(figure, f"{validation.title}: measured and predicted")


@mpl.rc_context(style.STYLE)
def prediction_drawing(title: str, judged: Sequence[Judged]) -> Figure:
    """A panel an algorithm. Markers are measured, lines predicted, bands intervals. The lighter
    the colour, the more ranks."""
    panels: dict[str, list[Judged]] = {}
    for curve, rows in judged:
        panels.setdefault(curve.label, []).append((curve, rows))
    shown = list(panels.items())[:MOST_PANELS]
    across = min(ACROSS, len(shown))
    down = ceil(len(shown) / across)
    figure = Figure(figsize=(4.4 * across + 2.6, 3.6 * down + 0.4), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True)
    ranks = sorted({curve.ranks for _, curves in shown for curve, _ in curves})
    looks: dict[int, Any] = {
        p: {
            "color": to_hex(colormaps["viridis"](k / max(1, len(ranks) - 1) * 0.85)),
            "marker": style.marker(k),
        }
        for k, p in enumerate(ranks)
    }
    sizes = [float(size) for _, curves in shown for curve, _ in curves for size in curve.sizes]
    for place, axes in enumerate(grid.flat):
        if place >= len(shown):
            axes.set_visible(False)
            continue
        _predicted(axes, *shown[place], looks)
        style.size_axis(axes, sizes, most=5)
        if place < len(shown) - across:
            axes.set_xlabel("")
        else:
            axes.tick_params(labelbottom=True)
    figure.suptitle(f"{title}: measured and predicted times", fontsize=12)
    first = grid.flat[0]
    for p in ranks[:: -(-len(ranks) // style.MOST_CURVES)]:
        first.plot([], [], label=f"{p} ranks", **looks[p])
    first.plot([], [], "o", color="0.2", label="markers: measured")
    first.plot([], [], color="0.2", label="lines: predicted")
    left = style.not_drawn(len(panels) - MOST_PANELS, "more algorithms")
    style.legend_beside(figure, None, *left)
    return figure


def _predicted(axes: Axes, label: str, curves: Sequence[Judged], looks: Mapping[int, Any]) -> None:
    for curve, rows in sorted(curves, key=lambda pair: pair[0].ranks):
        look = looks[curve.ranks]
        axes.plot(curve.sizes, curve.seconds, linestyle="none", markersize=4, **look)
        ends = (
            [row.interval and getattr(row.interval, end) for row in rows] for end in ("low", "high")
        )
        sizes, times = ([getattr(row, name) for row in rows] for name in ("size", "seconds"))
        style.draw(axes, sizes, times, *ends, color=look["color"])
    style.time_axis(axes, "")
    axes.set_title(style.folded(label.replace("|", " or "), 44), fontsize=10)


@mpl.rc_context(style.STYLE)
def recommendation_drawing(
    rows: Sequence[Advice],
    curves: Callable[[], Mapping[str, Sequence[float]]],
    crossovers: Sequence[Crossover],
    title: str,
) -> Figure:
    """A line an algorithm, and the bound. `curves` works out the seconds of each algorithm at the
    sizes of the rows.

    Vertical lines are sizes from which another algorithm is faster.
    """
    figure, (axes,) = style.panels(5.5)
    sizes = [row.size_B for row in rows]
    for number, (name, seconds) in enumerate(curves().items()):
        axes.plot(sizes, seconds, label=name, markersize=4, linewidth=1.1, **style.look(number))
    axes.plot(sizes, [row.bound_s for row in rows], "--", color=style.GREY, label="best bound")
    for crossover in crossovers:
        line = axes.axvline(crossover.size_B, color=style.GREY, linewidth=0.9, linestyle=":")
        line.set_label("another is faster from here")
    style.size_axis(axes, sizes)
    style.time_axis(axes)
    return style.finished(figure, f"{title}: time by size")


@mpl.rc_context(style.STYLE)
def learning_drawing(runs: Sequence[LearningRun]) -> Figure:
    """Loss above, accuracy below, a line a strategy; a column for workers that are alike, and one
    for workers that differ.

    The dotted line is the target.
    """
    kinds = list(dict.fromkeys(run.row.disturbance for run in runs))
    figure = Figure(figsize=(2.6 + max(6.5, 4.6 * len(kinds)), 6.5), layout="constrained")
    rows = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
    most = 0
    for column, kind in enumerate(kinds):
        loss, accuracy = rows[0, column], rows[1, column]
        of_kind = [run for run in runs if run.row.disturbance == kind]
        most = max(most, len(of_kind))
        for number, run in enumerate(of_kind[: style.MOST_CURVES]):
            seconds = [point.seconds for point in run.curve]
            look = {**style.look(number, len(seconds)), "label": run.row.strategy, "markersize": 4}
            loss.plot(seconds, [point.loss for point in run.curve], **look)
            accuracy.plot(seconds, [point.accuracy for point in run.curve], **look)
        style.entitle(loss, f"{runs[0].row.ranks} workers, {kind or 'alike'}")
        accuracy.axhline(runs[0].row.target, color=style.GREY, linestyle=":", label="target")
        accuracy.set_xlabel("simulated time")
    upper, lower = rows[:, 0]
    upper.set_yscale("log")
    style.log_ticks(upper.yaxis, StrMethodFormatter("{x:g}"))
    upper.set_ylabel("loss")
    lower.set_ylabel("accuracy on held-out digits")
    lower.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    lower.xaxis.set_major_formatter(EngFormatter("s"))
    style.legend_beside(figure, None, *style.not_drawn(most - style.MOST_CURVES))
    return figure


@mpl.rc_context(style.STYLE)
def memory_drawing(result: SearchResult) -> Figure:
    """The time of plans against the memory of the fullest rank: of simulated plans, the fastest
    with its name; of all others the bound of their time."""
    figure, (axes,) = style.panels(6)
    rest = [each for each in result.plans if each.seconds is None]
    axes.plot(*_points(rest), ".", color="0.6", markersize=3, label="bound only")
    memory, seconds = _points(result.simulated)
    axes.plot(memory, seconds, "o", color=style.COLOURS[0], markersize=4, label="simulated")
    fastest = result.first
    label = f"the {len(fastest)} fastest" if len(fastest) > 1 else "the fastest"
    best = _points(fastest)
    axes.plot(*best, "D", color=style.COLOURS[1], label=label)
    limit, space = result.limit / GIGA, result.space
    name = f"fastest: {fastest[0].plan}"
    side: Any = {"ha": "right" if best[0][0] > limit / 2 else "left", "fontsize": 9}
    first = best[0][0], best[1][0]
    axes.annotate(name, first, xytext=(0, -14), textcoords="offset points", **side)
    axes.axvline(limit, color=style.COLOURS[7], linestyle="--", label="device memory")
    axes.set_ylim(0.85 * seconds[0], 2 * max(seconds))
    style.time_axis(axes, "time of a step")
    axes.set_xlim(0, 1.05 * limit)
    axes.xaxis.set_major_formatter(EngFormatter("GB", places=0))
    axes.set_xlabel("memory of the fullest rank")
    machine = f"{space.gpus} GPUs ({space.training.times.device})"
    return style.finished(
        figure, f"{space.training.name} on {machine}, {space.batch} sequences a step"
    )


def _points(plans: Sequence[FoundPlan]) -> tuple[list[float], list[float]]:
    """GB of the fullest rank under plans, and seconds of their steps or the bounds of these."""
    seconds = [each.bound if each.seconds is None else each.seconds for each in plans]
    return [each.memory / GIGA for each in plans], seconds


@mpl.rc_context(style.STYLE)
def serving_drawing(
    title: str, curves: Mapping[str, Sequence[tuple[float, float]]], least: float
) -> Figure:
    """Tokens a second of a GPU by those of a user, with a curve for each way to serve. Users want
    at least so many; 0: as few as may be."""
    figure, [axes] = style.panels(4.5)
    for number, (name, points) in enumerate([*curves.items()][: style.MOST_CURVES]):
        users, gpus = zip(*points, strict=True)
        axes.plot(users, gpus, label=name, **style.look(number, len(points)))
    if least:
        axes.axvline(least, color="0.5", linestyle=":", label="limit of TPOT")
    axes.set(xlabel="tokens/s a user", ylabel="tokens/s a GPU", xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        style.log_ticks(axis, StrMethodFormatter("{x:,.0f}"))
    return style.finished(figure, title, *style.not_drawn(len(curves) - style.MOST_CURVES))
