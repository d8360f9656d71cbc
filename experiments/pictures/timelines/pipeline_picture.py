"""The picture of pipelines: a row for each device, a box for each action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from experiments.pictures.timelines.palette import FILLS, ink_on
from experiments.pictures.timelines.rows import FULL, corners_of
from experiments.pictures.timelines.texts import LETTER, TEXT, fitting, write
from simulator.parallel.pipeline_times import PipelineTimes
from topologies.errors import InputError
from topologies.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW, HEAD = 13.5, 0.22, 0.62
"""Inches: the width of the picture, the height of a row, and that of a title and an axis."""
LEGEND = 1.5
"""Height of the legend in inches, at most."""
POINTS = 760
"""Approximate width of the time axis, in points."""
MOST = 100_000
"""Actions of all pipelines, at most."""
HIGHEST = 100.0
"""Height of the picture in inches, at most."""
IDLE = {
    "fill": "idle: no work has come yet",
    "slower peer": "idle: other devices compute",
    "drain": "idle: nothing left to do",
}
"""Why a device is idle, in the order of time, by the cause whose fill it has."""
KINDS = ("forward", "backward", "backward for inputs", "backward for weights")
COLOURS = (
    ("#9bd0f2", "#56b4e9"),
    ("#4a9fd0", "#0072b2"),
    ("#7fc8bb", "#44aa99"),
    ("#f3cd7c", "#e69f00"),
)
"""The colour of each kind, for the first and for later stages of a device."""


def pipeline_drawing(runs: Sequence[PipelineTimes]) -> Figure:
    """Draw pipelines one above the other, on one scale of time. A box has the colour of its kind,
    darker in later stages of a device, and the number of its micro-batch if that fits. Idle time
    is filled by its cause.

    Raises InputError if they have too many devices or actions.
    """
    heights = [ROW * run.pipeline.devices + HEAD for run in runs]
    count = sum(len(run.pipeline) for run in runs)
    if count > MOST or sum(heights) > HIGHEST:
        raise InputError(
            f"{count} actions of {sum(run.pipeline.devices for run in runs)} devices are too many "
            f"for a picture: take fewer devices, micro-batches or pipelines"
        )
    with mpl.rc_context({"hatch.linewidth": 0.5}):
        return _drawn(runs, heights)


def _drawn(runs: Sequence[PipelineTimes], heights: Sequence[float]) -> Figure:
    figure = Figure(figsize=(WIDTH, max(sum(heights), LEGEND) + 0.4), layout="constrained")
    longest = max(run.step for run in runs) or 1.0
    panels = figure.subplots(len(runs), 1, squeeze=False, height_ratios=heights)
    for axes, run in zip(panels[:, 0], runs, strict=True):
        _draw(axes, run, longest)
    kinds = sorted({int(kind) for run in runs for kind in np.unique(run.pipeline.kind)})
    handles = [Patch(facecolor=COLOURS[kind][0], label=KINDS[kind]) for kind in kinds]
    for cause, meaning in IDLE.items():
        colour, hatch, ink = FILLS[cause]
        handles.append(Patch(facecolor=colour, edgecolor=ink, hatch=hatch, label=meaning))
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=8)
    return figure


def _draw(axes: Axes, run: PipelineTimes, longest: float) -> None:
    pipeline = run.pipeline
    axes.set(xlim=(0, longest), ylim=(pipeline.devices - 0.5, -0.5), ylabel="device")
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.tick_params(labelsize=7)
    idle = f"{format_seconds(float(run.idle.max()))} idle"
    within = f"{format_seconds(float(run.idle_within.max()))} within"
    title = f"{pipeline.name}: {format_seconds(run.step)}, {idle}, {within}"
    axes.set_title(title, loc="left", fontsize=8, color=TEXT, pad=3, parse_math=False)
    start, finish, later = run.start, run.finish, _is_later(run)
    _draw_idle(axes, run)
    corners = corners_of(
        start, finish, pipeline.device.astype(np.float64), np.full(len(start), FULL)
    )
    for kind, pair in enumerate(COLOURS):
        for dark, colour in enumerate(pair):
            chosen = (pipeline.kind == kind) & (later == dark)
            boxes = PolyCollection(
                list(corners[chosen]), facecolor=colour, edgecolor="white", linewidth=0.4
            )
            axes.add_collection(boxes).set_rasterized(True)
    size = min(7.0, 72 * ROW * FULL / 1.25)
    widths = (finish - start) * POINTS / longest
    for row in np.flatnonzero(widths > LETTER * 4.5).tolist():
        text = fitting([str(pipeline.micro[row])], widths[row], size)
        colour = COLOURS[pipeline.kind[row]][int(later[row])]
        middle = (start[row] + finish[row]) / 2, float(pipeline.device[row])
        write(axes, *middle, text, size, ink_on(colour))


def _draw_idle(axes: Axes, run: PipelineTimes) -> None:
    """What is not covered by actions: before the first of a device, between, and after the last."""
    devices = run.pipeline.devices
    first, last = np.full(devices, run.step), np.zeros(devices)
    np.minimum.at(first, run.pipeline.device, run.start)
    np.maximum.at(last, run.pipeline.device, run.finish)
    ends = np.zeros(devices), first, last, np.full(devices, run.step)
    for cause, begin, end in zip(IDLE, ends[:-1], ends[1:], strict=True):
        colour, hatch, ink = FILLS[cause]
        strips = axes.barh(np.arange(devices), end - begin, FULL, begin, color=colour, zorder=0)
        for strip in strips:
            strip.set(edgecolor=ink, linewidth=0, hatch=hatch or None)


def _is_later(run: PipelineTimes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the stage of each action is not the first of its device."""
    pipeline = run.pipeline
    first = np.full(pipeline.devices, pipeline.stages)
    np.minimum.at(first, pipeline.device, pipeline.stage)
    return np.asarray(pipeline.stage > first[pipeline.device])
