"""The picture of a machine: devices by level, links coloured by kind, the wider the faster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.path import Path

from experiments.machine_facts import LinkGroup, link_groups
from experiments.output import counted
from experiments.pictures.machines.level_layout import Layout
from experiments.pictures.machines.machine_layout import machine_layout
from topologies.columns import Words
from topologies.topology import Floats, Longs, Numbers, Topology
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


@mpl.rc_context({"text.parse_math": False})
def machine_drawing(topology: Topology) -> Figure:
    """A picture; full-duplex links are one line, and the legend counts the whole machine.

    Raises InputError for a plain shape that is too large to draw.
    """
    where = machine_layout(topology)
    groups, group = link_groups(topology)
    pairs = _drawn_pairs(topology, where, len(groups), group)
    looks = _link_looks(topology, groups, sum(map(len, pairs)))
    fills = _colours(topology.device_kinds, DEVICES, "Pastel1")
    handles = [*_device_handles(topology, fills), *map(_link_handle, groups, looks)]
    low, high = _extent(where)
    width, height = high - low
    column = min(max(WIDE / width, SMALLEST), LARGEST)
    inches = max(height * column + ROW * (3 + len(where.left_out)), ROW * (len(handles) + 2), LEAST)
    figure = Figure(figsize=(width * column + LEGEND, inches), layout="constrained")
    axes = figure.add_subplot(aspect="equal", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_axis_off()
    axes.set_title("\n".join([_title(topology), *where.left_out]), fontsize=11)
    _draw_frames(axes, where, min(LETTERS, 72 * column * 0.4))
    # The fastest first, so that thin lines lie on wide ones.
    for look, ends in zip(looks, pairs, strict=True):
        paths = [_path(where, first, second) for first, second in ends.tolist()]
        lines = PathCollection(paths, facecolors="none", edgecolors=look["color"], zorder=1)
        lines.set(linewidth=look["linewidth"], linestyle=look["linestyle"], alpha=look["alpha"])
        axes.add_collection(lines)
    _draw_devices(axes, topology, where, column, fills)
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize="small")
    return figure


def _drawn_pairs(topology: Topology, where: Layout, groups: int, group: Numbers) -> list[Longs]:
    """The ends of the drawn links of each group, as places in the layout, each pair once."""
    number = np.full(len(topology.device_names), -1)
    number[where.devices] = np.arange(len(where.devices))
    ends = np.sort(number[np.stack((topology.source, topology.target), axis=1)], axis=1)
    drawn = (ends >= 0).all(axis=1)
    return [np.unique(ends[drawn & (group == code)], axis=0) for code in range(groups)]


def _link_looks(topology: Topology, groups: list[LinkGroup], lines: int) -> list[dict[str, Any]]:
    """The looks of groups of links: wide in proportion to the bandwidth, but never too thin to be
    seen."""
    colours = _colours(topology.link_kinds, LINKS, "Dark2")
    thickest = 4.0 if lines <= 45 else 2.2 if lines <= 120 else 1.6
    finite = [group.bandwidth_Bps for group in groups if group.bandwidth_Bps < np.inf]
    fastest = max(finite, default=1.0)
    thickest = min(thickest, 2.0) if len(set(finite)) == 1 else thickest
    return [
        {
            "color": colours[group.kind],
            "linewidth": 0.6 + (thickest - 0.6) * min(1.0, group.bandwidth_Bps / fastest),
            "linestyle": (0, (2.5, 1.2)) if group.assumed else "solid",
            "alpha": 0.85,
        }
        for group in groups
    ]


def _extent(where: Layout) -> tuple[Floats, Floats]:
    half = np.stack((where.widths / 2, np.full(len(where.widths), HALF)), axis=1)
    edges = where.places - half, where.places + half
    every = np.concatenate([*edges, *where.curves.values(), *where.frames.values()])
    return every.min(axis=0) - MARGIN, every.max(axis=0) + MARGIN


def _title(topology: Topology) -> str:
    nodes = len(np.unique(topology.node[topology.node >= 0]))
    ranks = counted(topology.ranks, "rank")
    return f"{topology.name}: {ranks}" + (f" on {nodes} nodes" if nodes > 1 else "")


def _draw_frames(axes: Axes, where: Layout, size: float) -> None:
    grey: Any = {"color": "0.35", "ha": "center"}
    for node, (low, high) in where.frames.items():
        _box(axes, low, high - low, 0.25, fc="0.965", ec="0.75", lw=0.8, zorder=0)
        if len(where.frames) > 1:
            place = (low[0] + high[0]) / 2, low[1] - 0.12
            axes.text(*place, f"node {node}", va="top", fontsize=size, **grey)
    for x in where.dots:
        axes.text(x, 0.0, "...", va="center", fontsize=2 * size, **grey)


def _path(where: Layout, first: int, second: int) -> Path:
    """A curve, or straight; at a bar it ends straight above or below the other end."""
    if (first, second) in where.curves:
        return Path(where.curves[first, second], [Path.MOVETO, *[Path.CURVE4] * 3])
    ends = []
    for start, end in ((first, second), (second, first)):
        wider = where.widths[start] > where.widths[end]
        reach = max(0.0, where.widths[start] / 2 - 0.4) if wider else 0.0
        (x, y), (far, high) = where.places[start], where.places[end]
        edge = HALF * float(np.sign(high - y)) if where.rows else 0.0
        ends.append((float(np.clip(far, x - reach, x + reach)), float(y) + edge))
    return Path(ends)


def _draw_devices(
    axes: Axes, topology: Topology, where: Layout, column: float, fills: dict[str, str]
) -> None:
    devices, widths = where.devices.tolist(), where.widths.tolist()
    labels = [
        _label(topology.device_names[device], width)
        for device, width in zip(devices, widths, strict=True)
    ]
    # All letters of a row have one size.
    sizes: dict[float, float] = {}
    for label, width, y in zip(labels, widths, where.places[:, 1].tolist(), strict=True):
        sizes[y] = min(LETTERS, 72 * column * _fits(label, width), sizes.get(y, LETTERS))
    middle: Any = {"ha": "center", "va": "center", "zorder": 4, "linespacing": 1.0}
    rows = zip(devices, where.places.tolist(), widths, labels, strict=True)
    for device, (x, y), width, label in rows:
        look: Any = {"fc": fills[topology.device_kinds[device]], "ec": "0.2", "zorder": 3}
        corner, size = np.array((x - width / 2, y - HALF)), np.array((width, 2 * HALF))
        _box(axes, corner, size, 0.12, lw=2.0 if topology.in_network[device] else 0.7, **look)
        axes.text(x, y, label, fontsize=sizes[y], **middle)


def _box(axes: Axes, corner: Floats, size: Floats, radius: float, **look: str | float) -> None:
    style = f"round,pad=0,rounding_size={radius}"
    width, height = size.tolist()
    axes.add_patch(FancyBboxPatch(tuple(corner), width, height, boxstyle=style)).set(**look)


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


def _colours(kinds: Words, colours: dict[str, str], palette_name: str) -> dict[str, str]:
    """The colour of every kind; those that are not known get what a map of colours has, in turn."""
    palette = mpl.colormaps[palette_name]
    strange = [kind for kind in kinds.vocabulary if kind not in colours and kinds.are(kind).any()]
    return colours | {
        kind: mpl.colors.to_hex(palette(k % palette.N)) for k, kind in enumerate(strange)
    }


def _device_handles(topology: Topology, fills: dict[str, str]) -> Iterator[Patch]:
    for kind in topology.device_kinds.vocabulary:
        if count := int(topology.device_kinds.are(kind).sum()):
            yield Patch(facecolor=fills[kind], edgecolor="0.2", label=f"{count} {kind}")
    if topology.in_network.any():
        look: Any = {"facecolor": "white", "edgecolor": "0.2", "linewidth": 2.0}
        yield Patch(label="reduces and multicasts", **look)


def _link_handle(group: LinkGroup, look: dict[str, Any]) -> Line2D:
    unlimited = group.bandwidth_Bps == np.inf
    bandwidth = "unlimited" if unlimited else format_bandwidth(group.bandwidth_Bps)
    remarks = ["one way"] * (not group.duplex) + ["assumed"] * group.assumed
    words = ", ".join([bandwidth, format_seconds(group.latency_s), *remarks])
    return Line2D([], [], label=f"{group.number} {group.kind}: {words}", **look)
