"""Pictures of several runs: scaling with workers, step time by an option, and strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator

from experiments.output import Record
from experiments.pictures import plot_style as style
from experiments.pictures.timelines.palette import FILLS, Fill
from experiments.templates import written
from experiments.training.training_table import COLUMNS, scaling, series
from simulator.analysis.bubbles import CAUSES
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
TIMES = ("step_s", "exposed_s")
END: Any = {
    "color": "k",
    "marker": "o",
    "markersize": 12,
    "linestyle": "none",
    "markerfacecolor": "none",
}
"""The look of the last number of workers that pays."""
THIN = 0.002
"""A part is drawn if it is longer than this share of the longest step."""
MOST_LABELS = 12
"""The values of an option that have a label, at most."""


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
    ideal = max(
        _number(curve[0], "samples_per_s") / _speed_up(curve[0]) for curve in shown.values()
    )
    p = sorted({_number(record, "ranks") for record in records})
    upper.plot(p, [ideal * ranks for ranks in p], color=style.GREY, label="ideal: p x one worker")
    for number, (value, curve) in enumerate(shown.items()):
        name = names.get(value, "simulated")
        label = name if swept in ("", "strategy") else f"{swept} {name}"
        _scaling_curve((upper, lower), label, curve, number)
    if not swept:
        _changes(upper, records)
    lower.axhline(1, color=style.GREY)
    lower.set_ylim(0, max(1.05, *(1.05 * _number(record, "efficiency") for record in records)))
    style.share_axis(lower, "efficiency")
    style.rank_axis(lower, [int(ranks) for ranks in p], "workers p")
    if upper.get_xscale() == "log":
        upper.set_yscale("log")
        style.log_ticks(upper.yaxis, EngFormatter(sep=""))
    else:
        upper.set_ylim(bottom=0)
        upper.yaxis.set_major_formatter(EngFormatter(sep=""))
    upper.set_ylabel("samples/s")
    if not swept:
        _speed_up_axis(upper, ideal)
    style.entitle(upper, f"{_title(records, swept)} on {machine}: samples/s by workers")
    handles = upper.get_legend_handles_labels()[0]
    if any(map(_is_sure, records)):
        handles.append(style.band_handle())
    if any(scaling(curve).end is not None for curve in shown.values()):
        handles.append(Line2D([], [], **END, label="last number that pays"))
    style.legend_beside(figure, handles, *style.not_drawn(len(curves) - len(shown)))
    return figure


def _speed_up_axis(axes: Axes, one: float) -> None:
    """A second axis: samples per second as a multiple of those of one worker."""
    axis = axes.secondary_yaxis(
        "right",
        functions=(
            lambda rates: np.asarray(rates, float) / one,
            lambda times: np.asarray(times, float) * one,
        ),
    )
    axis.set_ylabel("speed-up over one worker")
    axis.yaxis.set_major_formatter(EngFormatter(sep=""))
    if axes.get_yscale() == "log":
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def _scaling_curve(
    both: tuple[Axes, Axes], label: str, curve: Sequence[Record], number: int
) -> None:
    p = [_number(record, "ranks") for record in curve]
    end = scaling(curve).end
    for axes, key in zip(both, ("samples_per_s", "efficiency"), strict=True):
        values = [_number(record, key) for record in curve]
        axes.plot(p, values, label=label, **style.look(number, len(p)))
        if sure := list(filter(_is_sure, curve)):
            whole = [_number(record, key) * _number(record, "step_s") for record in sure]
            low, high = (np.divide(whole, ends) for ends in reversed(_ends(sure)))
            places = [_number(record, "ranks") for record in sure]
            style.band(axes, places, low, high, style.colour(number))
        if end is not None:
            axes.plot(p[end], values[end], **END)


def _changes(axes: Axes, records: Sequence[Record]) -> None:
    """Dashed, what changes of the machine would do."""
    curve = sorted(records, key=lambda record: _number(record, "ranks"))
    p = [_number(record, "ranks") for record in curve]
    for number, (name, column) in enumerate(COLUMNS.items(), 1):
        faster = [
            _number(record, "samples_per_s")
            * _number(record, "step_s")
            / _number(record, f"{column}_s")
            for record in curve
        ]
        axes.plot(p, faster, "--", color=style.colour(number), linewidth=1.1, label=name)


@mpl.rc_context(style.STYLE)
def swept_drawing(
    records: Sequence[Record], swept: str, names: Mapping[str, str], machine: str
) -> Figure:
    """Step time, and what of it is exposed communication, at each value of an option; a line a
    number of workers."""
    figure, (axes,) = style.panels(5.5)
    values = list(dict.fromkeys(str(record[swept]) for record in records))
    numbers = list(dict.fromkeys(record["ranks"] for record in records))
    handles = []
    for number, p in enumerate(numbers[: style.MOST_CURVES]):
        curve = [record for record in records if record["ranks"] == p]
        place = [values.index(str(record[swept])) for record in curve]
        look = style.look(number)
        step, exposed = ([_number(record, key) for record in curve] for key in TIMES)
        handles += axes.plot(place, step, label=f"{p} workers", **look)
        axes.plot(place, exposed, "--", **look)
        if sure := list(filter(_is_sure, curve)):
            places = [values.index(str(record[swept])) for record in sure]
            style.band(axes, places, *_ends(sure), style.colour(number))
    handles.append(Line2D([], [], color="0.2", label="a step"))
    handles.append(Line2D([], [], color="0.2", linestyle="--", label="exposed communication"))
    handles += [style.band_handle()] if any(map(_is_sure, records)) else []
    every = -(-len(values) // MOST_LABELS)
    labels = [names[value] for value in values[::every]]
    slanted = sum(map(len, labels)) > 70
    axes.set_xticks(
        range(0, len(values), every),
        labels,
        rotation=30 if slanted else 0,
        ha="right" if slanted else "center",
    )
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(EngFormatter("s"))
    axes.set_xlabel(swept)
    axes.set_ylabel("time a step")
    style.entitle(axes, f"{_title(records, swept)} on {machine}: time a step by {swept}")
    left = style.not_drawn(len(numbers) - style.MOST_CURVES, "more numbers of workers")
    style.legend_beside(figure, handles, *left)
    return figure


@mpl.rc_context(style.STYLE)
def strategies_drawing(records: Sequence[Record], machine: str) -> Figure:
    """A bar a strategy: what its step consists of, and its samples per second."""
    shown = list(records)[: style.MOST_CURVES]
    figure, (axes,) = style.panels(1.8 + 0.55 * len(shown))
    starts = [0.0] * len(shown)
    longest = max(_number(record, "step_s") for record in shown)
    parts = PARTS_WITH_PLANS if "idle_s" in shown[0] else PARTS
    for key, (label, fill) in parts.items():
        widths = [_number(record, key) for record in shown]
        if max(widths) > THIN * longest:
            look: Any = {"color": fill.colour, "hatch": fill.hatch, "edgecolor": fill.ink}
            axes.barh(range(len(shown)), widths, left=starts, label=label, height=0.65, **look)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    for place, (end, record) in enumerate(zip(starts, shown, strict=True)):
        words = f" {format_seconds(_number(record, 'step_s'))}\n {_rate(record)}"
        axes.text(max(end, _number(record, "high_s")), place, words, va="center", fontsize=9)
    sure = [place for place, record in enumerate(shown) if _is_sure(record)]
    if sure:
        ends = _ends([shown[place] for place in sure])
        axes.hlines(sure, *ends, color="k", linewidth=2, label=style.INTERVAL)
    axes.set_xlim(0, 1.25 * max(*starts, *(_number(record, "high_s") for record in shown)))
    axes.set_yticks(
        range(len(shown)), [style.folded(str(record["strategy"]), 24) for record in shown]
    )
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.set_xlabel("time a step, mean of the workers")
    style.entitle(axes, f"{_title(records, 'strategy')} on {machine}, p = {records[0]['ranks']}")
    style.legend_beside(figure, None, *style.not_drawn(len(records) - len(shown)))
    return figure


def _rate(record: Record) -> str:
    return f"{written('samples_per_s', record['samples_per_s'])} samples/s"


def _title(records: Sequence[Record], swept: str) -> str:
    first = records[0]
    fixed = {"model": first["model"], "strategy": first["strategy"]}
    if len({record["batch"] for record in records}) == 1:
        fixed = {"model": first["model"], "batch": f"batch {_number(first, 'batch'):g}", **fixed}
    numbers = {record["ranks"] for record in records}
    words = [str(word) for key, word in fixed.items() if key != swept]
    ranks = [f"p = {first['ranks']}"] if len(numbers) == 1 and swept != "strategy" else []
    return ", ".join([*words, *ranks])


def _speed_up(record: Record) -> float:
    return _number(record, "efficiency") * _number(record, "ranks") or 1.0


def _is_sure(record: Record) -> bool:
    """Whether the step has an interval."""
    return record.get("low_s") is not None


def _ends(records: Sequence[Record]) -> tuple[list[float], list[float]]:
    """The ends of the intervals of steps: the lower ones, then the upper ones."""
    low, high = ([_number(record, end) for record in records] for end in ("low_s", "high_s"))
    return low, high


def _number(record: Record, key: str) -> float:
    return float(record.get(key) or 0.0)
