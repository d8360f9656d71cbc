"""Rows of devices: ranks below, what they hang on above them, the network on top."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from topologies.topology import Floats, Longs

if TYPE_CHECKING:
    import networkx as nx

Pair = tuple[int, int]
Item = TypeVar("Item")
WAYS_OUT = ("nic", "port")
"""Kinds of devices that lead out of a node, above all others, in this order."""
STEP, FAN, LOWEST, HIGHEST = 1.5, 0.12, 2.0, 5.0
"""Height of a row within a node; of one of the network as a share of the width, and its limits."""
BOX, WIDEST, HEIGHT = 0.8, 2.4, 0.3
"""Width of a device within a node and at most; half its height."""
MARGIN, BETWEEN, SKIPPED = 0.35, 1.2, 1.6
"""Round a node; between two; more of that where some are left out."""
FLAT = 9.0
"""Between rows, while their arcs are measured."""
ARC = {"aside": 0.5, "rise": 0.28, "room": 0.9}
"""The arcs of links within a row."""


class Layout(NamedTuple):
    """Places of the devices to draw. Lengths are in columns."""

    devices: Longs
    """The number of each device in the topology."""
    places: Floats
    """The centre of each device, shape (devices, 2)."""
    widths: Floats
    """The width of each device."""
    curves: Mapping[Pair, Floats] = {}
    """The curved links: from two places in `devices` to the four points of a Bézier curve. Others
    are straight."""
    frames: Mapping[int, Floats] = {}
    """The box round each node: its lower left and its upper right corner, shape (2, 2)."""
    dots: tuple[float, ...] = ()
    """Where ranks are left out, as x in the lowest row."""
    left_out: tuple[str, ...] = ()
    """Which devices are left out."""
    rows: bool = False
    """Whether links between rows run from top to bottom."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """The devices to draw, which have numbers from 0 on, and the row of each."""

    devices: Longs
    """The number of each device in the topology."""
    kinds: list[str]
    """The kind of each device."""
    nodes: list[int]
    """The node of each device."""
    place: list[int]
    """The place of each device in the lowest row, drawn or not; -1 in other rows."""
    pairs: list[Pair]
    """The pairs of devices with a link."""

    @cached_property
    def graph(self) -> nx.Graph[int]:
        """The devices and the links between them."""
        import networkx

        graph: nx.Graph[int] = networkx.Graph(self.pairs)
        graph.add_nodes_from(range(len(self.kinds)))
        return graph

    @cached_property
    def levels(self) -> tuple[list[int], int]:
        """The row of every device, and the highest of nodes: those above are the network's.

        0 for ranks and -1 below them; above them by distance within the node, then ways out, then
        by distance again.
        """
        everyone = range(len(self.kinds))
        homes = {self.nodes[k] for k in everyone if self.place[k] >= 0}
        inside = [k for k in everyone if self.nodes[k] in homes]
        level = self._within({k for k in inside if self.kinds[k] not in (*WAYS_OUT, "nvswitch")})
        body = max(level.values())
        for k in inside:
            if self.kinds[k] in WAYS_OUT:
                level[k] = body + 1 + WAYS_OUT.index(self.kinds[k])
            elif self.kinds[k] == "nvswitch":
                level[k] = -1
        top = max(level.values())
        away = self._walk(list(level), everyone)
        of = [level.get(k, top + away.get(k, 1)) for k in everyone]
        order = sorted({-1, 0, *of})
        return [order.index(row) - 1 for row in of], order.index(top) - 1 if max(homes) >= 0 else 0

    @property
    def row(self) -> list[int]:
        """The row of every device."""
        return self.levels[0]

    @property
    def highest(self) -> int:
        """The highest row of nodes."""
        return self.levels[1]

    @cached_property
    def members(self) -> dict[tuple[int, int], list[int]]:
        """The devices of every row, in order, by node (-1: none) and row."""
        members = defaultdict[tuple[int, int], list[int]](list)
        for k in sorted(range(len(self.row)), key=lambda k: (self.place[k], k)):
            node = self.nodes[k] if self.row[k] <= self.highest else -1
            members[node, self.row[k]].append(k)
        return members

    def _within(self, body: Collection[int]) -> dict[int, float]:
        """How far above the ranks the devices of nodes are; CPUs in a row of their own, above what
        they hold."""
        walked = self._walk([k for k, place in enumerate(self.place) if place >= 0], body)
        cpus = {k for k, row in walked.items() if self.kinds[k] == "cpu" and row}
        pairs = ((k, low) for k in cpus for low in self.graph[k] if low not in cpus)
        rows = [walked[low] for k, low in pairs if walked.get(low, np.inf) < walked[k]]
        return walked | dict.fromkeys(cpus, max(rows, default=0) + 0.5)

    def _walk(self, start: list[int], allowed: Iterable[int]) -> dict[int, float]:
        """Links from the nearest of some devices to those that are allowed."""
        import networkx

        within = self.graph.subgraph({*start, *allowed})
        return networkx.multi_source_dijkstra_path_length(within, {*start})


def level_layout(sketch: Sketch) -> Layout:
    """Every device in the row of its level. A link within a row is an arc unless its ends have room
    between them: below the ranks, and above all others."""
    x, dots = _columns(sketch)
    widths, row = _widths(sketch, x), np.array(sketch.row)
    within = [pair for pair in sketch.pairs if row[pair[0]] == row[pair[1]]]
    lift = np.zeros(int(row.max()) + 1)
    for (device, _), arc in bends(within, np.stack((x, FLAT * row), axis=1), widths, **ARC).items():
        number = max(0, int(row[device]))
        lift[number] = max(lift[number], 0.75 * abs(arc[1, 1] - FLAT * row[device]))
    places = np.stack((x, _heights(sketch, float(np.ptp(x)), lift)), axis=1)
    return Layout(
        devices=sketch.devices,
        places=places,
        widths=widths,
        curves=_side_by_side(bends(sketch.pairs, places, widths, **ARC), places),
        rows=True,
        frames=dict(_frames(sketch, places, float(lift[0]))),
        dots=tuple(dots),
    )


def bends(
    pairs: Iterable[Pair],
    places: Floats,
    widths: Floats,
    *,
    aside: float,
    rise: float = 0.0,
    room: float = 0.0,
) -> dict[Pair, Floats]:
    """The links that would run behind another device, or have less than some `room` within a row,
    as Bézier curves: this far aside, and within a row by a share of their length more."""
    curves = {}
    for first, second in pairs:
        first, second = sorted((first, second), key=lambda k: places[k, 0])
        start, along = places[first], places[second] - places[first]
        length = float(np.hypot(*along))
        share = (places - start) @ along / length**2
        away = np.linalg.norm(places - start - np.outer(share, along), axis=1)
        behind = (share > 0.01) & (share < 0.99) & (away < HEIGHT)
        level = along[1] == 0
        short = level and length < widths[first] + room
        if short or (behind.any() and widths[first] == widths[second]):
            across = np.array([-along[1], along[0]]) / length
            up = 4 / 3 * min(aside + rise * length * level, HIGHEST) * across
            up = up if start[1] > 0 else -up
            lean = 0.0 if level else 0.1
            inner = [lean * along + up, (1 - lean) * along + up]
            curves[first, second] = start + np.array([0 * along, *inner, along])
    return curves


def _side_by_side(curves: dict[Pair, Floats], places: Floats) -> dict[Pair, Floats]:
    """Arcs of one device leave it at places of their own, in an order in which few cross."""
    import networkx

    arcs = {pair: curve for pair, curve in curves.items() if np.ptp(places[[*pair], 1]) == 0}
    x, leaves = places[:, 0], dict[Pair, float]()
    for device, targets in networkx.Graph([*arcs]).adjacency():
        order = sorted(targets, key=lambda target: (x[target] > x[device], -x[target]))
        slots = BOX * ((np.arange(len(order)) + 0.5) / len(order) - 0.5)
        leaves |= {(device, target): slot for target, slot in zip(order, slots, strict=True)}
    aside = {
        (first, second): [leaves[first, second]] * 2 + [leaves[second, first]] * 2
        for first, second in arcs
    }
    return curves | {pair: curve + np.outer(aside[pair], (1, 0)) for pair, curve in arcs.items()}


def ends(row: list[Item], count: int) -> list[Item]:
    """The first and the last, `count` together or all.

    >>> ends([0, 1, 2, 3, 4], 3)
    [0, 1, 4]
    """
    return row if len(row) <= count else row[: count - count // 2] + row[len(row) - count // 2 :]


def _columns(sketch: Sketch) -> tuple[Floats, list[float]]:
    """x of every device, and of where some ranks are left out."""
    x, dots = _lowest_row(sketch)
    width = float(np.nanmax(x) - np.nanmin(x)) + 1.0
    rows = sorted(sketch.members.items(), key=lambda item: (item[0][1] < 0, item[0][1]))
    for (_, number), row in rows:
        if not number:
            continue
        middles = []
        for k in row:
            # The middle of what a device hangs over, or else of all.
            near = [o for o in sketch.graph[k] if sketch.row[o] != number and not np.isnan(x[o])]
            middles.append(float(np.mean(x[near]) if near else np.nanmean(x)))
        gap = 1.0 if number <= sketch.highest else max(1.0, 0.8 * width / len(row))
        x[row] = _row_places(middles, gap)
    return x, dots


def _lowest_row(sketch: Sketch) -> tuple[Floats, list[float]]:
    """The ranks from left to right, node by node, so far apart that other rows of the node are no
    longer."""
    x, dots, edge, last = np.full(len(sketch.kinds), np.nan), list[float](), 0.0, -1
    for node in sorted(node for node, number in sketch.members if number == 0):
        lowest = sketch.members[node, 0]
        longest = max(len(row) for (owner, _), row in sketch.members.items() if owner == node)
        stride = longest / len(lowest)
        for k in lowest:
            before, skipped = edge, sketch.place[k] != last + 1
            edge += BETWEEN * (k == lowest[0] and last >= 0) + SKIPPED * skipped
            if skipped:
                dots.append((before + edge) / 2)
            x[k], edge, last = edge + stride / 2, edge + stride, sketch.place[k]
    return x, dots


def _row_places(middles: list[float], gap: float) -> Floats:
    """The places of a row's devices, near their `middles`, in the same order and at least `gap`
    columns from each other."""
    from scipy.optimize import isotonic_regression

    order, steps = np.argsort(np.round(middles, 6), kind="stable"), gap * np.arange(len(middles))
    places = np.empty(len(middles))
    places[order] = isotonic_regression(np.asarray(middles)[order] - steps).x + steps
    return places


def _widths(sketch: Sketch, x: Floats) -> Floats:
    """How wide each device is drawn; bars are moved to the middle of what they join."""
    widths = np.full(len(x), BOX)
    for (_, number), row in sketch.members.items():
        near = list(sketch.graph[row[0]])
        if len(row) > 1 and number > sketch.highest:
            widths[row] = np.clip(BOX * np.diff(np.sort(x[row])).min(), BOX, WIDEST)
        if len(row) == 1 and number and len(near) >= 4:
            x[row], widths[row] = (x[near].min() + x[near].max()) / 2, np.ptp(x[near]) + BOX
    return widths


def _heights(sketch: Sketch, width: float, lift: Floats) -> Floats:
    """y of every device: room for the arcs of a row, and the more for a fan of links the wider it
    is."""
    y = {-1: -STEP - lift[0], 0: 0.0}
    for number in range(1, len(lift)):
        step = STEP if number <= sketch.highest else float(np.clip(FAN * width, LOWEST, HIGHEST))
        y[number] = y[number - 1] + step + (lift[number - 1] if number > 1 else 0.0)
    return np.array([y[number] for number in sketch.row])


def _frames(sketch: Sketch, places: Floats, below: float) -> Iterator[tuple[int, Floats]]:
    """The frame round every node, all of one height, with what is `below` the ranks."""
    nodes = np.array(sketch.nodes)
    inside = (np.array(sketch.row) <= sketch.highest) & (nodes >= 0)
    if not inside.any():
        return
    x, y = places.T
    bottom = min(float(y[inside].min()), -below) - HEIGHT - MARGIN
    top = float(y[inside].max()) + HEIGHT + MARGIN
    for node in np.unique(nodes[inside]).tolist():
        columns, side = x[inside & (nodes == node)], BOX / 2 + MARGIN
        yield node, np.array([[columns.min() - side, bottom], [columns.max() + side, top]])
