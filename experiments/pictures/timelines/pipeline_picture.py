"""The picture of pipelines: a row for each device, a box for each action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from experiments.pictures.figure_file import GREY, to_bytes
from experiments.pictures.timelines.palette import is_dark
from experiments.pictures.timelines.rows import FULL
from experiments.pictures.timelines.texts import LETTER, TEXT, fitting, write
from simulator.parallel.pipeline_times import PipelineTimes
from topologies.errors import InputError
from topologies.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW, HEAD = 13.5, 0.22, 0.62
"""Inches: the width of the picture, the height of a row, and that of a title and an axis."""
POINTS = 880
"""Approximate width of the time axis, in points."""
MOST = 100_000
"""Actions of all pipelines, at most."""
HIGHEST = 100.0
"""Height of the picture in inches, at most."""
KINDS = ("forward", "backward", "backward for inputs", "backward for weights")
COLOURS = (
    ("#9bd0f2", "#56b4e9"),
    ("#4a9fd0", "#0072b2"),
    ("#7fc8bb", "#44aa99"),
    ("#f3cd7c", "#e69f00"),
)
"""The colour of each kind, for the first and for later stages of a device."""


def pipeline_figure(runs: Sequence[PipelineTimes], kind: str) -> bytes:
    """The picture of :func:`pipeline_drawing` as "png", "svg" or "pdf"."""
    return to_bytes(pipeline_drawing(runs), kind)


def pipeline_drawing(runs: Sequence[PipelineTimes]) -> Figure:
    """Draw pipelines one above the other, on one scale of time. A box has the colour of its kind,
    darker in later stages of a device, and the number of its micro-batch if that fits.

    Raises InputError if they have too many devices or actions.
    """
    heights = [ROW * run.pipeline.devices + HEAD for run in runs]
    count = sum(len(run.pipeline) for run in runs)
    if count > MOST or sum(heights) > HIGHEST:
        raise InputError(
            f"{count} actions of {sum(run.pipeline.devices for run in runs)} devices are too many "
            f"for a picture: take fewer devices, micro-batches or pipelines"
        )
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.4), layout="constrained")
    longest = max(run.step for run in runs) or 1.0
    panels = figure.subplots(len(runs), 1, squeeze=False, height_ratios=heights)
    for axes, run in zip(panels[:, 0], runs, strict=True):
        _draw(axes, run, longest)
    kinds = sorted({int(kind) for run in runs for kind in np.unique(run.pipeline.kind)})
    handles = [Patch(facecolor=COLOURS[kind][0], label=KINDS[kind]) for kind in kinds]
    handles.append(Patch(facecolor="white", edgecolor=GREY, label="idle"))
    figure.legend(handles=handles, loc="outside upper right", ncols=5, frameon=False, fontsize=8)
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
    axes.set_title(title, loc="left", fontsize=8, color=TEXT, pad=3)
    start, finish, later = run.start, run.finish, _is_later(run)
    top, bottom = pipeline.device - FULL / 2, pipeline.device + FULL / 2
    corners = np.stack(
        [
            np.stack([start, finish, finish, start], axis=1),
            np.stack([bottom, bottom, top, top], axis=1),
        ],
        axis=2,
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
        write(axes, *middle, text, size, "white" if is_dark(colour) else "black")


def _is_later(run: PipelineTimes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the stage of each action is not the first of its device."""
    pipeline = run.pipeline
    first = np.full(pipeline.devices, pipeline.stages)
    np.minimum.at(first, pipeline.device, pipeline.stage)
    return np.asarray(pipeline.stage > first[pipeline.device])
