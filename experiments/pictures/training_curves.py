"""Pictures of several runs: scaling with workers, step time by an option, and strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator

from experiments.output import Record
from experiments.pictures import figures as style
from experiments.pictures.timelines.palette import FILLS, Fill
from experiments.templates import written
from experiments.training.training_table import COLUMNS, scaling, series
from simulator.analysis.bubbles import CAUSES
from topologies.topology import Floats
from topologies.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = {
    "computing_s": ("computing", Fill("#56b4e9", "", "0.2")),
    "restarting_s": ("restarting", Fill("#a51c30", "|||", "#ffffff")),
    **{f"{cause.replace(' ', '_')}_s": (f"waiting: {cause}", FILLS[cause]) for cause in CAUSES},
    "input_s": ("waiting: input", Fill("#f0e442", "...", "#8c7a00")),
}
"""The parts of a step: their labels and fills, those of the causes as in timelines."""
PARTS_WITH_PLANS = {
    "computing_s": PARTS["computing_s"],
    "restarting_s": PARTS["restarting_s"],
    "exposed_s": ("exposed communication", FILLS["transfer"]),
    "idle_s": ("idle", FILLS["drain"]),
    "input_s": PARTS["input_s"],
}
"""The parts of a step of a strategy or a plan."""
END: Any = {"color": "k", "linestyle": "none", "markerfacecolor": "none"}
END |= {"marker": "o", "markersize": 12, "label": "last number that pays"}
"""The look of the last number of workers that pays."""


def training_drawing(
    records: Sequence[Record], swept: str, names: Mapping[str, str], machine: str
) -> Figure:
    """The picture that suits the runs of a table.

    More numbers of workers than values of the swept option make a scaling curve. Otherwise
    strategies are bars, and other options have a curve over their values. `names` says how to show
    a value.
    """
    numbers = len({record["ranks"] for record in records})
    values = len({str(record[swept]) for record in records}) if swept else 1
    if not swept or numbers > values or (swept == "strategy" and numbers > 1):
        return scaling_drawing(records, swept, names, machine)
    if swept == "strategy":
        return strategies_drawing(records, machine)
    return swept_drawing(records, swept, names, machine)


@mpl.rc_context(style.STYLE)
def scaling_drawing(
    records: Sequence[Record], swept: str, names: Mapping[str, str], machine: str
) -> Figure:
    """Samples per second and efficiency by number of workers, and where more workers stop paying.
    Intervals are bands: a step that takes longer has a lower rate.

    A single job has what changes of the machine would do, dashed.
    """
    figure, (upper, lower) = style.panels(6.5, 2, height_ratios=(2, 1))
    curves = series(records, swept)
    shown = dict(list(curves.items())[: style.MOST_CURVES])
    firsts = [curve[0] for curve in shown.values()]
    speed_up = _column(firsts, "efficiency") * _column(firsts, "ranks")
    ideal = float((_column(firsts, "samples_per_s") / np.where(speed_up, speed_up, 1.0)).max())
    p = np.unique(_column(records, "ranks"))
    upper.plot(p, ideal * p, color=style.GREY, label="ideal: p x one worker")
    for number, (value, curve) in enumerate(shown.items()):
        name = names.get(value, "simulated")
        label = name if swept in ("", "strategy") else f"{swept} {name}"
        for axes, key in ((upper, "samples_per_s"), (lower, "efficiency")):
            _draw(axes, curve, key, label=label, **style.look(number, len(curve)))
    if not swept:
        # Dashed, what changes of the machine would do.
        curve = sorted(records, key=lambda record: _column([record], "ranks")[0])
        whole = _column(curve, "samples_per_s") * _column(curve, "step_s")
        for number, (name, column) in enumerate(COLUMNS.items(), 1):
            look: Any = {"color": style.colour(number), "linewidth": 1.1, "label": name}
            upper.plot(_column(curve, "ranks"), whole / _column(curve, f"{column}_s"), "--", **look)
    for curve in shown.values():
        if (end := scaling(curve).end) is not None:
            for axes, key in ((upper, "samples_per_s"), (lower, "efficiency")):
                last = [_column(curve[end : end + 1], name) for name in ("ranks", key)]
                axes.plot(*last, **END)
    lower.axhline(1, color=style.GREY)
    lower.set_ylim(0, max(1.05, 1.05 * _column(records, "efficiency").max()))
    style.share_axis(lower, "efficiency")
    style.rank_axis(lower, p.tolist(), "workers p")
    upper.set_ylabel("samples/s")
    if upper.get_xscale() == "log":
        upper.set_yscale("log")
        style.log_ticks(upper.yaxis, EngFormatter(sep=""))
    else:
        upper.set_ylim(bottom=0)
        upper.yaxis.set_major_formatter(EngFormatter(sep=""))
    if not swept:
        _speed_up_axis(upper, ideal)
    return style.finished(
        figure,
        f"{_title(records, swept)} on {machine}: samples/s by workers",
        *style.not_drawn(len(curves) - len(shown)),
    )


def _speed_up_axis(axes: Axes, one: float) -> None:
    """A second axis: samples per second as a multiple of those of one worker."""
    ways = (lambda rate: np.asarray(rate, float) / one, lambda up: np.asarray(up, float) * one)
    axis = axes.secondary_yaxis("right", functions=ways)
    axis.set_ylabel("speed-up over one worker")
    axis.yaxis.set_major_formatter(EngFormatter(sep=""))
    if axes.get_yscale() == "log":
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def _draw(axes: Axes, curve: Sequence[Record], key: str, **look: Any) -> None:
    """A figure by number of workers. A step that takes longer has a lower rate."""
    ends = (
        [
            _column([record], key)[0] * _column([record], "step_s")[0] / _column([record], end)[0]
            if _is_sure(record)
            else None
            for record in curve
        ]
        for end in ("low_s", "high_s")
    )
    style.draw(axes, _column(curve, "ranks"), _column(curve, key), *ends, **look)


@mpl.rc_context(style.STYLE)
def swept_drawing(
    records: Sequence[Record], swept: str, names: Mapping[str, str], machine: str
) -> Figure:
    """Step time, and what of it is exposed communication, at each value of an option; a line a
    number of workers."""
    figure, (axes,) = style.panels(5.5)
    values = list(dict.fromkeys(str(record[swept]) for record in records))
    numbers = list(dict.fromkeys(record["ranks"] for record in records))
    for number, p in enumerate(numbers[: style.MOST_CURVES]):
        curve = [record for record in records if record["ranks"] == p]
        places, look = [values.index(str(record[swept])) for record in curve], style.look(number)
        ends: Any = ([record.get(end) for record in curve] for end in ("low_s", "high_s"))
        style.draw(axes, places, _column(curve, "step_s"), *ends, label=f"{p} workers", **look)
        axes.plot(places, _column(curve, "exposed_s"), "--", **look)
    axes.plot([], [], color="0.2", label="a step")
    axes.plot([], [], "--", color="0.2", label="exposed communication")
    every = -(-len(values) // 12)
    labels = [names[value] for value in values[::every]]
    look = {"rotation": 30, "ha": "right"} if sum(map(len, labels)) > 70 else {}
    axes.set_xticks(range(0, len(values), every), labels, **look)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(EngFormatter("s"))
    axes.set(xlabel=swept, ylabel="time a step")
    left = style.not_drawn(len(numbers) - style.MOST_CURVES, "more numbers of workers")
    return style.finished(
        figure, f"{_title(records, swept)} on {machine}: time a step by {swept}", *left
    )


@mpl.rc_context(style.STYLE)
def strategies_drawing(records: Sequence[Record], machine: str) -> Figure:
    """A bar a strategy: what its step consists of, and its samples per second."""
    shown = list(records)[: style.MOST_CURVES]
    figure, (axes,) = style.panels(1.8 + 0.55 * len(shown))
    starts, rows = np.zeros(len(shown)), np.arange(len(shown))
    longest = _column(shown, "step_s").max()
    parts = PARTS_WITH_PLANS if "idle_s" in shown[0] else PARTS
    for key, (label, fill) in parts.items():
        widths = _column(shown, key)
        if widths.max() > 0.002 * longest:
            look: Any = {"color": fill.colour, "hatch": fill.hatch, "edgecolor": fill.ink}
            axes.barh(rows, widths, left=starts, label=label, height=0.65, **look)
        starts = starts + widths
    low, high = (_column(shown, key) for key in ("low_s", "high_s"))
    for place, record in enumerate(shown):
        rate = written("samples_per_s", record["samples_per_s"])
        words = f" {format_seconds(_column([record], 'step_s')[0])}\n {rate} samples/s"
        axes.text(max(starts[place], high[place]), place, words, va="center", fontsize=9)
    if sure := [place for place, record in enumerate(shown) if _is_sure(record)]:
        axes.hlines(sure, low[sure], high[sure], color="k", linewidth=2, label=style.INTERVAL)
    axes.set_xlim(0, 1.25 * max(starts.max(), high.max()))
    axes.set_yticks(rows, [style.folded(str(record["strategy"]), 24) for record in shown])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.set_xlabel("time a step, mean of the workers")
    return style.finished(
        figure,
        f"{_title(records, 'strategy')} on {machine}, p = {records[0]['ranks']}",
        *style.not_drawn(len(records) - len(shown)),
    )


def _title(records: Sequence[Record], swept: str) -> str:
    first = records[0]
    fixed = {"model": first["model"], "strategy": first["strategy"]}
    if len({record["batch"] for record in records}) == 1:
        batch = f"batch {_column([first], 'batch')[0]:g}"
        fixed = {"model": first["model"], "batch": batch, **fixed}
    words = [str(word) for key, word in fixed.items() if key != swept]
    alone = len({record["ranks"] for record in records}) == 1 and swept != "strategy"
    return ", ".join([*words, *[f"p = {first['ranks']}"] * alone])


def _is_sure(record: Record) -> bool:
    return record.get("low_s") is not None


def _column(records: Sequence[Record], key: str) -> Floats:
    """A number of each run; 0 where there is none."""
    return np.array([float(record.get(key) or 0.0) for record in records])
