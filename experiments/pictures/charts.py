"""Pictures: each takes results and returns the bytes of a file. Formula and simulation are never
the same line."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from experiments.names import rank_name
from experiments.pictures.timelines.tracks import partition
from experiments.simulations.sweep import Row
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.timeline import Timeline
from topologies.topology import Floats, Ints
from topologies.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from experiments.simulations.validation import Point, Validation

LEGEND = 10
SPANS = 200_000
GREY = "0.55"
Colour = tuple[float, float, float, float]


def sweep_figure(rows: Sequence[Row], metric: str, kind: str) -> bytes:
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
        axes.yaxis.set_minor_formatter(_SparseSeconds())
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


def timeline_figure(timeline: Timeline, title: str, kind: str) -> bytes:
    """Who does what when: a row a rank, coloured by phase, idle white; what runs at once is drawn
    side by side."""
    schedule = timeline.schedule
    spans = _thinned(_spans(timeline))
    figure = Figure(
        figsize=(12, min(max(2.6, 0.32 * schedule.ranks + 1.4), 13)), layout="constrained"
    )
    axes = figure.add_subplot()
    bottom, height = _bands(spans, schedule.ranks)
    boxes, wide = _boxes(spans, bottom, height), spans.end - spans.start > timeline.makespan / 250
    for phase, colour in enumerate(_colours(len(schedule.phases))):
        for chosen, edge in ((wide, "white"), (~wide, colour)):
            drawn = list(boxes[chosen & (spans.phase == phase)])
            axes.add_collection(
                PolyCollection(
                    drawn, facecolor=colour, edgecolor=edge, linewidth=0.4, rasterized=True
                )
            )
    axes.set_xlim(0, timeline.makespan or 1.0)
    axes.set_ylim(schedule.ranks - 0.5, -0.5)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=33, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rank, _: _label(schedule, int(rank))))
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.set_xlabel("time")
    axes.set_ylabel("rank")
    axes.set_title(title)
    _phase_legend(figure, schedule.phases, spans.phase)
    return to_bytes(figure, kind)


def validation_figure(validation: Validation, kind: str) -> bytes:
    """Measured and predicted time by size, fitted and unseen points apart, and the error below."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    size = [point.size_B for point in validation.points]
    predicted = [point.predicted_s for point in validation.points]
    upper.plot(
        size, predicted, ".-", color="C0", label=f"predicted: {validation.algorithm}, simulated"
    )
    for label, points in _roles(validation).items():
        marker, colour = (
            ("x", "k") if label == "wrong result" else ("o", "C7" if "fitted" in label else "C3")
        )
        x = [point.size_B for point in points]
        upper.plot(x, [point.measured_s for point in points], marker, color=colour, label=label)
        lower.plot(x, [point.error for point in points], marker, color=colour)
    upper.set_xscale("log", base=2)
    upper.set_yscale("log")
    upper.yaxis.set_major_formatter(EngFormatter("s"))
    upper.yaxis.set_minor_formatter(_SparseSeconds())
    lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0%}"))
    lower.axhline(0, color=GREY, linewidth=0.8)
    lower.set_ylabel("error")
    lower.set_xlabel("size V")
    upper.set_ylabel("time")
    upper.set_title(validation.title)
    upper.legend(frameon=False)
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    return to_bytes(figure, kind)


def _roles(validation: Validation) -> dict[str, list[Point]]:
    """The points by what they were to the fit."""
    roles: dict[str, list[Point]] = {}
    for point in validation.points:
        role = (
            "measured, fitted"
            if point.fitted
            else "measured, unseen"
            if validation.fit
            else "measured"
        )
        roles.setdefault("wrong result" if point.wrong else role, []).append(point)
    return roles


class _SparseSeconds(EngFormatter):
    """Labels the minor ticks at 2 and 5 of a logarithmic axis."""

    def __init__(self) -> None:
        super().__init__("s")

    def __call__(self, value: float, position: int | None = None) -> str:
        """The label of a tick, empty for the others."""
        leading = round(value / 10 ** np.floor(np.log10(value))) if value > 0 else 0
        return super().__call__(value, position) if leading in (2, 5) else ""


class _Spans(NamedTuple):
    """What is drawn: rank, seconds, phase; `compute` is drawn above what is sent."""

    rank: Ints
    start: Floats
    end: Floats
    phase: Ints
    compute: Ints

    def take(self, chosen: npt.NDArray[np.int64]) -> _Spans:
        """Some of them."""
        columns = (
            self.rank[chosen],
            self.start[chosen],
            self.end[chosen],
            self.phase[chosen],
            self.compute[chosen],
        )
        return _Spans(*columns)


def _curves(rows: Sequence[Row], several: bool) -> dict[str, list[Row]]:
    curves: dict[str, list[Row]] = {}
    for row in rows:
        label = f"{row.algorithm}, {format_bytes(row.size_B)}" if several else row.algorithm
        curves.setdefault(label, []).append(row)
    return curves


def _sweep_curve(axes: Axes, label: str, rows: list[Row], metric: str, colour: Colour) -> None:
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


def _spans(timeline: Timeline) -> _Spans:
    """Computations, first hops of transfers for as long as they hold the sender's port, and merging
    at the receiver."""
    schedule, routed = timeline.schedule, timeline.routed
    held = np.zeros(len(schedule))
    np.maximum.at(held, *_first_hops(timeline))
    compute = np.flatnonzero(schedule.kind == COMPUTE)
    sent = np.flatnonzero(held > 0)
    last = routed.node_indptr[1:] - 1
    merged = np.flatnonzero(
        (schedule.kind != COMPUTE) & (timeline.node_start[last] < timeline.finish)
    )
    merged = merged[(schedule.reduces[merged] == 1) | (np.diff(routed.node_indptr)[merged] == 1)]
    merged = merged[~np.isin(merged, sent) | (schedule.reduces[merged] == 1)]
    rows = np.concatenate((compute, sent, merged))
    rank = np.concatenate((schedule.rank[compute], schedule.rank[sent], schedule.peer[merged]))
    start = np.concatenate(
        (timeline.start[compute], timeline.start[sent], timeline.node_start[last[merged]])
    )
    end = np.concatenate(
        (timeline.finish[compute], timeline.start[sent] + held[sent], timeline.finish[merged])
    )
    above = np.repeat(np.array([1, 0, 0], dtype=np.int32), (len(compute), len(sent), len(merged)))
    return _Spans(rank, start, end, schedule.phase[rows].astype(np.int32), above)


def _first_hops(timeline: Timeline) -> tuple[Ints, Floats]:
    """Operation and seconds of every medium on a first hop."""
    occupancy = timeline.occupancy
    first = occupancy.start == timeline.start[occupancy.operation]
    return occupancy.operation[first], occupancy.seconds[first]


def _thinned(spans: _Spans) -> _Spans:
    """The longest spans: a picture shows no more, and says so."""
    if len(spans.rank) <= SPANS:
        return spans
    from experiments.output import note

    note(f"the picture shows the longest {SPANS} of {len(spans.rank)} spans")
    longest = np.sort(np.argsort(spans.start - spans.end, kind="stable")[:SPANS])
    return spans.take(longest)


def _bands(spans: _Spans, ranks: int) -> tuple[Floats, Floats]:
    """Bottom and height of every span: the row of a rank is cut into as many bands as it needs at
    once."""
    band, bands = np.zeros(len(spans.rank), dtype=np.int32), np.ones(ranks, dtype=np.int32)
    slack = 1e-9 * float(spans.end.max(initial=0.0))
    for rank in np.unique(spans.rank):
        used = 0
        for compute in (1, 0):
            mine = np.flatnonzero((spans.rank == rank) & (spans.compute == compute))
            mine = mine[np.argsort(spans.start[mine], kind="stable")]
            band[mine] = used + partition(spans.start[mine], spans.end[mine] - slack)
            used = int(band[mine].max()) + 1 if len(mine) else used
        bands[rank] = max(used, 1)
    height = 0.84 / bands[spans.rank]
    return spans.rank - 0.42 + band * height, height


def _boxes(spans: _Spans, bottom: Floats, height: Floats) -> Floats:
    """Corners, shape (spans, 4, 2)."""
    start, end = spans.start, spans.end
    x, y = (
        np.stack((start, end, end, start), axis=1),
        np.stack((bottom, bottom, bottom + height, bottom + height), axis=1),
    )
    return np.stack((x, y), axis=2)


def _colours(phases: int) -> list[Colour]:
    if phases <= 10:
        return [mpl.colormaps["tab10"](k) for k in range(phases)]
    return [mpl.colormaps["turbo"](0.05 + 0.9 * k / (phases - 1)) for k in range(phases)]


def _phase_legend(figure: Figure, phases: Sequence[str], drawn: Ints) -> None:
    present = [k for k in range(len(phases)) if np.any(drawn == k)]
    colours = _colours(len(phases))
    shown = (
        present
        if len(present) <= LEGEND
        else [present[k] for k in np.linspace(0, len(present) - 1, LEGEND, dtype=int)]
    )
    handles = [Patch(facecolor=colours[k], label=phases[k]) for k in shown]
    if len(present) > LEGEND:
        handles.append(Patch(facecolor="none", label=f"... {len(present)} in all"))
    handles.append(
        Patch(facecolor="white", edgecolor=GREY, label="idle: sends, merges\nand computes nothing")
    )
    figure.legend(handles=handles, loc="outside right upper", frameon=False)


def _label(schedule: Schedule, rank: int) -> str:
    """A rank on an axis, which may reach beyond the last."""
    return rank_name(schedule, rank).removeprefix("rank ") if 0 <= rank < schedule.ranks else ""


def to_bytes(figure: Figure, kind: str) -> bytes:
    """The figure as a file of this kind, the same each time."""
    file = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with mpl.rc_context({"svg.hashsalt": "simctl"}):
        figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    return file.getvalue()
