"""The picture of a machine: devices by level, links coloured by kind, the wider the faster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.path import Path

from experiments.machine_facts import LinkGroup, link_groups
from experiments.pictures.machines.machine_layout import machine_layout
from experiments.pictures.machines.sketch import Layout
from topologies.columns import Words
from topologies.topology import Floats, Topology
from topologies.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEVICES = {
    "gpu": "#cdeac0",
    "nvswitch": "#8fd175",
    "cpu": "#ffd9a8",
    "pcie switch": "#bcd9f5",
    "nic": "#ddc9f2",
    "port": "#ecdff7",
    "switch": "#c9c9d6",
    "bridge": "#dfe3c4",
}
LINKS = {
    "nvlink": "#2e8b22",
    "xgmi": "#c62828",
    "pcie": "#3a7cc4",
    "upi": "#e07b00",
    "c2c": "#00949e",
    "ib": "#8148b8",
    "roce": "#c2459f",
    "slingshot": "#3f6f5f",
    "ethernet": "#8a5a3c",
    "link": "#4d5a6b",
    "bus": "#4d5a6b",
}
"""Colours of known kinds; others get those that are left."""
GREY = "0.55"
HALF = 0.28
"""Half the height of a device; 1 is a column."""
WIDE, SMALLEST, LARGEST = 14.0, 0.27, 0.62
"""Inches: what all columns together should not exceed, and a column."""
MARGIN, LEGEND, ROW, LEAST = 0.5, 3.3, 0.22, 2.4
"""Columns round everything; inches of the legend, of a row of it, and of the height at least."""
LETTER, LETTERS = 0.62, 9.0
"""Width of a letter as a share of the size of the font; points at most."""
LONGEST = 24
"""Letters of a name that are shown."""
CURVE = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
Place = tuple[float, float]


class _Stroke(NamedTuple):
    """How links that are alike are drawn, and between which devices of the layout, shape (links,
    2)."""

    group: LinkGroup
    colour: str
    width: float
    pairs: npt.NDArray[np.int64]

    @property
    def style(self) -> str | tuple[float, tuple[float, float]]:
        return (0, (2.5, 1.2)) if self.group.assumed else "solid"


def machine_drawing(topology: Topology) -> Figure:
    """A picture; full-duplex links are one line, and the legend counts the whole machine.

    Raises InputError for a plain shape that is too large to draw.
    """
    where = machine_layout(topology)
    strokes = _strokes(topology, where)
    handles = [*_device_handles(topology), *map(_handle, strokes)]
    low, high = _extent(where)
    width, height = high - low
    column = min(max(WIDE / width, SMALLEST), LARGEST)
    inches = max(height * column + ROW * (3 + len(where.left_out)), ROW * (len(handles) + 2), LEAST)
    figure = Figure(figsize=(width * column + LEGEND, inches), layout="constrained")
    axes = figure.add_subplot(aspect="equal", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_axis_off()
    axes.set_title(_plain("\n".join([_title(topology), *where.left_out])), fontsize=11)
    _draw_frames(axes, where, column)
    _draw_links(axes, where, strokes)
    _draw_devices(axes, topology, where, column)
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize="small")
    return figure


def _strokes(topology: Topology, where: Layout) -> list[_Stroke]:
    """The drawn links by kind and figures, the fastest first."""
    groups, group = link_groups(topology)
    number = np.full(len(topology.device_names), -1)
    number[where.devices] = np.arange(len(where.devices))
    ends = np.stack((number[topology.source], number[topology.target]), axis=1)
    drawn = (ends >= 0).all(axis=1) & (group >= 0)
    pairs = [
        np.unique(np.sort(ends[drawn & (group == code)], axis=1), axis=0)
        for code in range(len(groups))
    ]
    colours, widths = (
        _colours(topology.link_kinds, LINKS, "Dark2"),
        _line_widths(groups, int(drawn.sum())),
    )
    return [
        _Stroke(*row)
        for row in zip(groups, (colours[g.kind] for g in groups), widths, pairs, strict=True)
    ]


def _extent(where: Layout) -> tuple[Floats, Floats]:
    """The corners of the picture, in columns."""
    half = np.stack((where.widths / 2, np.full(len(where.widths), HALF)), axis=1)
    points = [where.places - half, where.places + half, *where.curves.values()]
    points += [np.array([frame[1:3], frame[3:5]]) for frame in where.frames]
    every = np.concatenate(points)
    return every.min(axis=0) - MARGIN, every.max(axis=0) + MARGIN


def _title(topology: Topology) -> str:
    nodes = len(np.unique(topology.node[topology.node >= 0]))
    ranks = f"{topology.ranks} rank{'s' * (topology.ranks != 1)}"
    return f"{topology.name}: {ranks}" + (f" on {nodes} nodes" if nodes > 1 else "")


def _draw_frames(axes: Axes, where: Layout, column: float) -> None:
    size = min(LETTERS, 72 * column * 0.4)
    for node, left, bottom, right, top in where.frames:
        _box(
            axes,
            (left, bottom),
            (right - left, top - bottom),
            0.25,
            fc="0.965",
            ec="0.75",
            lw=0.8,
            zorder=0,
        )
        if len(where.frames) > 1:
            axes.text(
                (left + right) / 2,
                bottom - 0.12,
                f"node {node}",
                ha="center",
                va="top",
                fontsize=size,
                color="0.35",
            )
    for place in where.dots:
        axes.text(*place, "...", ha="center", va="center", fontsize=2 * size, color="0.35")


def _draw_links(axes: Axes, where: Layout, strokes: list[_Stroke]) -> None:
    """The fastest first, so that thin lines lie on wide ones."""
    for stroke in strokes:
        paths = [_path(where, (first, second)) for first, second in stroke.pairs.tolist()]
        lines = PathCollection(
            paths, facecolors="none", edgecolors=stroke.colour, linewidths=stroke.width, alpha=0.85
        )
        lines.set(linestyle=stroke.style, zorder=1)
        axes.add_collection(lines)


def _path(where: Layout, pair: tuple[int, int]) -> Path:
    """A curve, or straight; at a bar it ends straight above or below the other end."""
    if pair in where.curves:
        return Path(where.curves[pair], CURVE)
    first, second = pair
    ends = []
    for start, end in ((first, second), (second, first)):
        reach = (
            max(0.0, where.widths[start] / 2 - 0.4)
            if where.widths[start] > where.widths[end]
            else 0.0
        )
        x, y = where.places[start]
        edge = HALF * float(np.sign(where.places[end][1] - y)) if where.rows else 0.0
        ends.append((float(np.clip(where.places[end][0], x - reach, x + reach)), float(y) + edge))
    return Path(ends)


def _line_widths(groups: list[LinkGroup], lines: int) -> list[float]:
    """Points; in proportion to the bandwidth, but never too thin to be seen."""
    thickest = 4.0 if lines <= 45 else 2.2 if lines <= 120 else 1.6
    finite = [group.bandwidth_Bps for group in groups if group.bandwidth_Bps < np.inf]
    fastest = max(finite, default=1.0)
    thickest = min(thickest, 2.0) if len(set(finite)) == 1 else thickest
    return [0.6 + (thickest - 0.6) * min(1.0, group.bandwidth_Bps / fastest) for group in groups]


def _draw_devices(axes: Axes, topology: Topology, where: Layout, column: float) -> None:
    colours = _device_colours(topology)
    labels = [
        _label(topology.device_names[device], float(width))
        for device, width in zip(where.devices.tolist(), where.widths, strict=True)
    ]
    sizes = _fonts(labels, where, column)
    for device, (x, y), width, label in zip(
        where.devices, where.places, where.widths, labels, strict=True
    ):
        fill, edge = (
            colours[topology.device_kinds[device]],
            2.0 if topology.in_network[device] else 0.7,
        )
        _box(
            axes,
            (x - width / 2, y - HALF),
            (width, 2 * HALF),
            0.12,
            fc=fill,
            ec="0.2",
            lw=edge,
            zorder=3,
        )
        axes.text(
            x,
            y,
            _plain(label),
            ha="center",
            va="center",
            fontsize=sizes[float(y)],
            zorder=4,
            linespacing=1.0,
        )


def _box(axes: Axes, corner: Place, size: Place, radius: float, **look: str | float) -> None:
    box = FancyBboxPatch(corner, *size, boxstyle=f"round,pad=0,rounding_size={radius}")
    axes.add_patch(box).set(**look)


def _label(name: str, width: float) -> str:
    """The name without its node or PCI domain; its parts below each other where that allows for
    larger letters."""
    short = re.sub(r"^(node\d+\.|0000:)", "", name)
    short = short if len(short) <= LONGEST else f"{short[: LONGEST // 2]}…{short[-LONGEST // 2 :]}"
    return max(short, re.sub(r"\.(?=[a-z])", "\n", short), key=lambda label: _fits(label, width))


def _fits(label: str, width: float) -> float:
    """The largest letters, as a share of a column, with which a label fits into its box."""
    lines = label.split("\n")
    return min(width * 0.92 / (LETTER * max(map(len, lines))), 2 * HALF * 0.85 / (1.2 * len(lines)))


def _fonts(labels: list[str], where: Layout, column: float) -> dict[float, float]:
    """The size of the letters in every row."""
    sizes: dict[float, float] = {}
    for label, width, y in zip(labels, where.widths, where.places[:, 1].tolist(), strict=True):
        sizes[y] = min(LETTERS, 72 * column * _fits(label, float(width)), sizes.get(y, LETTERS))
    return sizes


def _device_colours(topology: Topology) -> dict[str, str]:
    return _colours(topology.device_kinds, DEVICES, "Pastel1")


def _colours(kinds: Words, colours: dict[str, str], palette_name: str) -> dict[str, str]:
    """The colour of every kind; those that are not known get what a map of colours has, in turn."""
    palette = mpl.colormaps[palette_name]
    strange = [kind for kind in kinds.vocabulary if kind not in colours and kinds.are(kind).any()]
    return colours | {
        kind: mpl.colors.to_hex(palette(k % palette.N)) for k, kind in enumerate(strange)
    }


def _device_handles(topology: Topology) -> list[Patch]:
    colours, kinds = _device_colours(topology), topology.device_kinds
    counts = {kind: int(kinds.are(kind).sum()) for kind in kinds.vocabulary}
    handles = [
        Patch(facecolor=colours[kind], edgecolor="0.2", label=_plain(f"{count} {kind}"))
        for kind, count in counts.items()
        if count
    ]
    if topology.in_network.any():
        handles.append(
            Patch(facecolor="white", edgecolor="0.2", linewidth=2.0, label="reduces and multicasts")
        )
    return handles


def _handle(stroke: _Stroke) -> Line2D:
    line = Line2D([], [], color=stroke.colour, linewidth=stroke.width, alpha=0.85)
    line.set(label=_plain(_about(stroke.group)), linestyle=stroke.style)
    return line


def _about(group: LinkGroup) -> str:
    bandwidth = (
        "unlimited" if group.bandwidth_Bps == np.inf else format_bandwidth(group.bandwidth_Bps)
    )
    remarks = [
        format_seconds(group.latency_s),
        *(["one way"] * (not group.duplex)),
        *(["assumed"] * group.assumed),
    ]
    return f"{group.number} {group.kind}: {bandwidth}, {', '.join(remarks)}"


def _plain(text: str) -> str:
    """Text in which a dollar is no formula."""
    return text.replace("$", r"\$")
