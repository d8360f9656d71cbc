"""The painter of timelines: a row for each rank, a box for everything that takes time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from experiments.names import link_name
from experiments.pictures.timelines.chart import FULL, PIXELS, SEAM, Chart, boxes_of, look_of
from experiments.pictures.timelines.palette import FILLS, HIDDEN, Fill, colours, ink_on, pale
from experiments.pictures.timelines.spans import Columns, Spans
from topologies.topology import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER, SMALLEST = 0.58, 4.5
"""Width of a letter as a share of its height; and its height in points at least."""
LARGEST, POINTS = 7.0, 670
"""In points: the height of letters at most, and about the width of the time axis."""
TEXT = "0.25"
"""The grey of texts beside boxes and on idle time."""
LEGEND, KINDS = 8.5, 20
"""Of the legend: the height of letters in points, and the kinds that it lists at most."""
SAMPLE = "#777777"
"""The colour that shows how hidden and exposed communication differ."""
MEANINGS = {
    "transfer": "transfer: data is on its way",
    "contention": "contention: data queues\nbehind other ranks",
    "slower peer": "slower peer: another rank\nor lane still computes",
    "drain": "drain: nothing left to do",
    "fill": "fill: no work has come yet",
    "launch": "launch: the CPU is late",
}
"""What each cause of idle time means."""


def timeline_drawing(*panels: Spans, title: str = "") -> Figure:
    """Draw all lanes of every rank, coloured by kind; of several timelines below each other, on
    one scale of time.

    The main lane is on top. A communication lasts from entering to leaving; what computations hide
    of it is pale and hatched. Idle time is filled by cause, and large parts of it are labelled. At
    the right is the share of the run for which each worker does not compute. Above 32 ranks there
    are no labels, and narrow neighbours of one kind are one box: the picture says so.
    """
    longest = max(spans.makespan for spans in panels) or 1.0
    charts = [Chart(spans, *boxes_of(spans), longest) for spans in panels]
    palette = colours(kind for chart in charts for kind in _kinds(chart))
    handles = _handles(charts, palette)
    alone = len(panels) == 1
    heights = [chart.inches + (1.3 if alone else 0.5) for chart in charts]
    lines = sum(1 + str(handle.get_label()).count("\n") for handle in handles)
    height = max(sum(heights), (lines + 1) * LEGEND * 1.62 / 72, 3.0)
    with mpl.rc_context({"hatch.linewidth": 0.5, "text.parse_math": False}):
        figure = Figure(figsize=(13.5, height), layout="constrained")
        grid = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)
        for axes, chart in zip(grid[:, 0], charts, strict=True):
            _paint(axes, chart, palette)
            if alone:
                _explain(axes, chart)
        if title:
            figure.suptitle(title)
        legend = figure.legend(
            handles=handles, loc="outside right upper", frameon=False, fontsize=LEGEND
        )
        for handle, text in zip(handles, legend.get_texts(), strict=True):
            if isinstance(handle, Line2D):
                text.set(fontweight="bold", position=(-24, 0))
    return figure


def _kinds(chart: Chart) -> list[str]:
    kinds = np.unique(chart.boxes.kind[chart.boxes.cause < 0]).tolist()
    return [chart.spans.kinds[kind] for kind in kinds]


def _idle_shares(chart: Chart) -> Floats:
    spans = chart.spans
    idle = spans.columns.take(spans.idle & (spans.columns.lane == spans.main))
    seconds = np.bincount(idle.row, idle.end - idle.start, chart.workers)
    return np.asarray(seconds / (spans.makespan or 1.0))


def _remarks(chart: Chart) -> list[str]:
    spans, what = chart.spans, chart.spans.what
    if spans.main < 0:
        used = np.flatnonzero((chart.tall > 0).any(axis=0)).tolist()
        *first, last = [spans.lanes[lane] for lane in used] or ["sends"]
        verbs = " and ".join([", ".join(first), last] if first else [last])
        return [f"what each {what} {verbs}, and why it waits", *_longest_waits(spans)]
    about = f"what each {what} computes and communicates, and why it is idle"
    share = _idle_shares(chart)
    least, most = int(np.argmin(share)), int(np.argmax(share))
    mean, low, high = (f"{value:.1%}" for value in (share.mean(), share[least], share[most]))
    if low == high:
        return [about, f"not computing: {mean} of the run of every {what}"]
    ends = f"from {low} ({spans.rows[least]}) to {high} ({spans.rows[most]})"
    return [about, f"not computing: {mean} of the run, {ends}"]


def _longest_waits(spans: Spans) -> list[str]:
    """A remark that names the links for which messages wait longest behind other ranks."""
    columns = spans.columns
    causes = [k for k, cause in enumerate(spans.causes) if cause == "contention"]
    queues = columns.take(np.isin(columns.cause, causes) & (columns.link >= 0))
    seconds = np.bincount(queues.link, queues.end - queues.start, len(spans.links))
    order = np.argsort(-seconds, kind="stable")[: np.count_nonzero(seconds)].tolist()
    names = list(dict.fromkeys(link_name(spans.links[link]) for link in order))[:3]
    return [f"messages wait longest for {', '.join(names)}"] if names else []


def _paint(axes: Axes, chart: Chart, palette: dict[str, str]) -> None:
    spans, rows = chart.spans, len(chart.spans.rows)
    axes.set(facecolor="0.955", xlim=(0, chart.seconds), ylim=(rows - 0.5, -0.5))
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    if spans.main < 0:
        axes.barh(np.arange(rows), spans.makespan, FULL, color="white", zorder=0)
    _draw_boxes(axes, chart, palette)
    remarks = [*spans.remarks, *chart.remarks]
    if chart.every == 1:
        _label_boxes(axes, chart, palette)
    else:
        remarks.append(f"one {spans.what} in {chart.every} is named, boxes have no labels")
    remarks += _name_rows(axes, chart)
    axes.set_title("\n".join(remarks), loc="left", fontsize=8, color=TEXT)
    _draw_steps(axes, chart)


def _explain(axes: Axes, chart: Chart) -> None:
    """Say above a picture of its own what it shows, and at the right each worker's share of the
    run in which it is idle."""
    remarks = "\n".join([*_remarks(chart), axes.get_title(loc="left")]).strip()
    axes.set_title(remarks, loc="left", fontsize=8, color=TEXT)
    axes.set_xlabel("time")
    if chart.spans.main < 0:
        return
    rows = np.arange(0, chart.workers, chart.every)
    right = axes.secondary_yaxis("right")
    shares = [f"{share:.0%}" for share in _idle_shares(chart)[rows]]
    right.set_yticks(chart.middle[rows, chart.spans.main], shares)
    right.tick_params(length=0, labelsize=8)
    right.set_ylabel("not computing, share of the run", labelpad=8)


def _draw_boxes(axes: Axes, chart: Chart, palette: dict[str, str]) -> None:
    """Boxes in the colour of their kind or with the fill of their cause, hidden communication
    hatched, and white edges of wide boxes."""
    spans, boxes, (owner, hidden) = chart.spans, chart.boxes, chart.hidden
    middle, height = chart.heights
    corners, look = _corners(boxes, middle, height), look_of(spans, boxes)
    covers = _corners(hidden, middle[owner], height[owner])
    for number in np.unique(look).tolist():
        if number >= len(spans.kinds):
            cause = spans.causes[number - len(spans.kinds)]
            fill = FILLS[cause]
            _add_filled(axes, corners[look == number], f"idle: {cause}", fill).set_zorder(0.4)
            continue
        kind = spans.kinds[number]
        colour = palette[kind]
        _add_filled(axes, corners[look == number], kind, Fill(colour, "", colour))
        if len(cover := covers[hidden.kind == number]):
            _add_filled(axes, cover, f"hidden {kind}", Fill(pale(colour), HIDDEN, colour))
    wide = (boxes.end - boxes.start >= SEAM * chart.seconds / PIXELS) & (boxes.cause < 0)
    sides = [*corners[wide][:, (0, 3)], *corners[wide][:, (1, 2)]]
    lines = LineCollection(sides, colors="white", linewidths=0.6)
    axes.add_collection(lines).set_rasterized(True)


def _corners(columns: Columns, middle: Floats, height: Floats) -> Floats:
    bottom, top = middle - height / 2, middle + height / 2
    x = np.stack((columns.start, columns.end, columns.end, columns.start), axis=1)
    return np.stack((x, np.stack((bottom, bottom, top, top), axis=1)), axis=2)


def _add_filled(axes: Axes, corners: Floats, label: str, fill: Fill) -> PolyCollection:
    boxes = PolyCollection(
        list(corners),
        label=label,
        facecolor=fill.colour,
        edgecolor=fill.ink,
        linewidth=0,
        hatch=fill.hatch or None,
        rasterized=True,
    )
    axes.add_collection(boxes)
    return boxes


def _label_boxes(axes: Axes, chart: Chart, palette: dict[str, str]) -> None:
    """Write into each box its name, or a shorter text if only that fits: the name without its
    first word, a number at its end, and the kind. Boxes that stand for several get their kind, and
    large idle times of main lanes their cause and their share of the step."""
    spans, boxes, (owner, hidden) = chart.spans, chart.boxes, chart.hidden
    length, centre = boxes.end - boxes.start, (boxes.start + boxes.end) / 2
    under = (hidden.start <= centre[owner]) & (centre[owner] <= hidden.end)
    covered, (middle, height) = set(owner[under].tolist()), chart.heights
    wide = np.flatnonzero(length > LETTER * SMALLEST * chart.seconds / POINTS)
    for k, share in zip(wide.tolist(), _step_shares(chart, boxes.take(wide)), strict=True):
        if boxes.cause[k] >= 0:
            words, cause = _reasons(spans, boxes, k), spans.causes[boxes.cause[k]]
            if boxes.lane[k] == spans.main and cause != "drain":
                words = [*(f"{word}, {share:.0%}" for word in words), *words, f"{share:.0%}"]
            if boxes.lane[k] == spans.main and share < 0.02:
                words = []
            behind, ink = FILLS[cause].colour, TEXT
        else:
            name, kind = spans.names[boxes.name[k]], spans.kinds[boxes.kind[k]]
            detail, colour = name.partition(" ")[2], palette[kind]
            number = re.findall(r"\b\d+$", detail)
            words = [kind] if boxes.members[k] > 1 else [name, detail, *number, kind]
            behind = pale(colour) if k in covered else ""
            ink = "black" if behind else ink_on(colour)
        # Letters fit into the height of the box.
        size = min(LARGEST, 72 * chart.inches / len(spans.rows) * float(height[k]) / 1.25)
        points = length[k] * POINTS / chart.seconds
        fits = (word for word in words if word and len(word) * LETTER * size < points)
        if size >= SMALLEST and (text := next(fits, "")):
            centred = {"ha": "center", "va": "center_baseline"}
            written = axes.text(centre[k], middle[k], text, centred, fontsize=size, color=ink)
            written.set(in_layout=False, clip_on=True)
            if behind:
                written.set_bbox({"facecolor": behind, "edgecolor": "none", "pad": 0.5})


def _step_shares(chart: Chart, boxes: Columns) -> Floats:
    """The share of its step that each box of a worker lasts."""
    spans, length = chart.spans, boxes.end - boxes.start
    ends = spans.steps if len(spans.steps) else np.full((1, 1), spans.makespan)
    each = np.broadcast_to(ends, (len(ends), max(chart.workers, 1)))
    row = np.minimum(boxes.row, each.shape[1] - 1)
    step = np.minimum((each[:, row] < boxes.start + length / 2).sum(axis=0), len(each) - 1)
    return np.asarray(length / np.maximum(np.diff(each, axis=0, prepend=0.0)[step, row], length))


def _reasons(spans: Spans, columns: Columns, k: int) -> list[str]:
    """Texts for idle time, the longest first: what it waits for, and its cause in a word."""
    cause, peer, link = spans.causes[columns.cause[k]], columns.peer[k], columns.link[k]
    if cause == "contention" and link >= 0:
        name = link_name(spans.links[link])
        return [f"waits for {name}", name, cause]
    if cause == "slower peer" and peer >= 0 and spans.peers[peer] != spans.rows[columns.row[k]]:
        return [f"slower peer: {spans.peers[peer]}", spans.peers[peer], cause]
    return [cause]


def _name_rows(axes: Axes, chart: Chart) -> list[str]:
    """Name ranks, and their lanes where they are tall enough. Returns a remark if they are not."""
    spans, tall, what = chart.spans, chart.tall, chart.spans.what
    rows = np.arange(0, len(tall), chart.every)
    if chart.workers == len(tall) - 1:
        # A lone server is always named.
        rows = np.append(rows[rows <= chart.workers - chart.every], chart.workers)
    names = [spans.rows[row].removeprefix(f"{what} ") for row in rows.tolist()]
    axes.set_yticks(rows, names)
    axes.set_ylabel(what)
    drawn = np.nonzero(tall.T)[::-1]
    lanes = [spans.lanes[lane] for lane in drawn[1].tolist()]
    order = list(dict.fromkeys(lanes))
    heights = 72 * chart.inches / len(tall) * tall[*drawn]
    size = float(min(6.5, heights.min(initial=np.inf) / 1.1))
    if len(order) < 2:
        return []
    if size < SMALLEST or chart.every > 1:
        return [f"each row, from the top: {', '.join(order)}"]
    axes.yaxis.remove_overlapping_locs = False
    axes.set_yticks(chart.middle[*drawn], lanes, minor=True)
    axes.tick_params(axis="y", which="minor", labelsize=size, length=0, pad=2)
    longest = max(map(len, order))
    axes.tick_params(axis="y", which="major", length=0, pad=longest * LETTER * size + 6)
    return []


def _draw_steps(axes: Axes, chart: Chart) -> None:
    """Draw a line at the end of each step, and name the steps above.

    Workers that do not wait for each other have a line each, and no names.
    """
    ends, names, rows = chart.spans.steps, chart.spans.step_names, len(chart.spans.rows)
    if not len(ends):
        return
    if ends.shape[1] == 1:
        times = ends[:, 0]
        lines = axes.vlines(times[:-1], -0.5, rows - 0.5)
        above, every = axes.secondary_xaxis("top"), -(-len(times) // 20)
        above.set_xticks(((np.append(0.0, times[:-1]) + times) / 2)[::every], names[::every])
        above.tick_params(length=0, labelsize=8)
    else:
        row = np.broadcast_to(np.arange(ends.shape[1]), ends.shape).ravel()
        lines = axes.vlines(ends.ravel(), row - 0.5, row + 0.5)
    lines.set(color="0.2", linewidth=0.8, linestyle=(0, (4, 2)), zorder=0.5)


def _handles(charts: Sequence[Chart], palette: dict[str, str]) -> list[Patch | Line2D]:
    """The kinds in their colours, of many only some; how hidden communication is drawn; and the
    causes of idle time."""
    names = list(palette)
    picks = np.linspace(0, len(names) - 1, min(len(names), KINDS), dtype=int).tolist()
    handles: list[Patch | Line2D] = [
        Patch(facecolor=palette[names[k]], label=names[k]) for k in picks
    ]
    if len(names) > KINDS:
        handles.append(Patch(facecolor="none", label=f"... {len(names)} in all"))
    if any(len(chart.hidden[0]) for chart in charts):
        hidden = Patch(facecolor=pale(SAMPLE), edgecolor=SAMPLE, linewidth=0, hatch=HIDDEN)
        hidden.set_label("hidden behind computing")
        exposed = Patch(facecolor=SAMPLE, label="exposed")
        handles += [_heading("communication"), exposed, hidden]
    causes = {cause for chart in charts for cause in chart.spans.causes}
    if known := [cause for cause in MEANINGS if cause in causes]:
        handles.append(_heading("idle, by cause"))
    for cause in known:
        colour, hatch, ink = FILLS[cause]
        look = Patch(facecolor=colour, edgecolor=ink, linewidth=0.4, hatch=hatch)
        look.set_label(MEANINGS[cause])
        handles.append(look)
    if any(chart.spans.main < 0 for chart in charts):
        handles.append(Patch(facecolor="white", edgecolor="0.55", label="idle"))
    return handles


def _heading(text: str) -> Line2D:
    """A line of text without a colour."""
    return Line2D([], [], linestyle="none", label=text)
