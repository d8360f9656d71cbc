"""Rows of devices: ranks below, what they hang on above them, the network on top."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from experiments.pictures.machines.sketch import Frame, Layout, Pair, Sketch, ends
from topologies.topology import Floats

Neighbours = dict[int, list[int]]
Members = dict[tuple[int, int], list[int]]
"""Devices by node (-1: none) and level."""
WAYS_OUT = ("nic", "port")
"""Kinds of devices that lead out of a node, above all others, in this order."""
BELOW = "nvswitch"
WIDE = 4
"""A device alone in its row and with links to so many is drawn as a bar."""
MOST_SWITCHES = 16
"""Switches of a row of the network: of more, the first and the last are drawn."""
STEP, FAN, LOWEST, HIGHEST = 1.5, 0.12, 2.0, 5.0
"""Height of a row within a node; of one of the network as a share of the width, and its limits."""
BOX, WIDEST, HEIGHT = 0.8, 2.4, 0.3
"""Width of a device within a node and at most; half its height."""
MARGIN, BETWEEN, SKIPPED = 0.35, 1.2, 1.6
"""Round a node; between two; more of that where some are left out."""
SLOTS = 0.66
"""The width over which arcs leave a device."""
SHIFTS = np.array([0.0, 0.8, -0.8, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0])
CLEARANCE = 0.48
"""How far aside a device may be moved, and from links that pass."""


class Levels(NamedTuple):
    """The row of every device; those above `highest` are the network's."""

    of: list[int]
    highest: int


def level_layout(sketch: Sketch) -> Layout:
    """Every device in the row of its level; a link within a row is an arc unless its ends have room
    between them."""
    sketch, left_out = _thinned(sketch, levels(sketch))
    level = levels(sketch)
    x, dots = _columns(sketch, level)
    widths = _widths(sketch, level, x)
    arcs = _arcs(sketch.pairs, level.of, x, widths)
    y = _heights(level, float(np.ptp(x)), arcs)
    _clear(sketch, level, x, y, widths)
    return Layout(
        devices=sketch.devices,
        places=np.stack((x, y), axis=1),
        widths=widths,
        curves=_curves(arcs, level.of, x, y),
        rows=True,
        frames=tuple(_frames(sketch, level, x, y, arcs)),
        dots=tuple((place, 0.0) for place in dots),
        left_out=left_out,
    )


def levels(sketch: Sketch) -> Levels:
    """0 for ranks and -1 below them; above them by distance within the node, then ways out, then by
    distance again."""
    near, everyone = neighbours(sketch.pairs), range(len(sketch.kinds))
    homes = {sketch.nodes[k] for k in everyone if sketch.place[k] >= 0}
    inside = [k for k in everyone if sketch.nodes[k] in homes]
    level = _within(sketch, near, {k for k in inside if sketch.kinds[k] not in (*WAYS_OUT, BELOW)})
    body = max(level.values())
    level |= {
        k: body + 1 + WAYS_OUT.index(sketch.kinds[k]) for k in inside if sketch.kinds[k] in WAYS_OUT
    }
    level |= {k: -1 for k in inside if sketch.kinds[k] == BELOW}
    top = max(level.values())
    away = _walk(list(level), near, everyone)
    of = [level.get(k, top + away.get(k, 1)) for k in everyone]
    order = sorted({-1, 0, *of})
    return Levels(
        [order.index(row) - 1 for row in of], order.index(top) - 1 if max(homes) >= 0 else 0
    )


def _within(sketch: Sketch, near: Neighbours, body: Collection[int]) -> dict[int, float]:
    """How far above the ranks the devices of nodes are; CPUs in a row of their own, above what they
    hold."""
    walked = _walk([k for k, place in enumerate(sketch.place) if place >= 0], near, body)
    cpus = {k for k, row in walked.items() if sketch.kinds[k] == "cpu" and row}
    under = [
        (walked[k], walked[device])
        for k in cpus
        for device in near[k]
        if device in walked and device not in cpus
    ]
    height = max((row for cpu_row, row in under if row < cpu_row), default=0)
    return walked | dict.fromkeys(cpus, height + 0.5)


def neighbours(pairs: Iterable[Pair]) -> Neighbours:
    """The devices next to each."""
    near: Neighbours = defaultdict(list)
    for device, neighbour in pairs:
        near[device].append(neighbour)
        near[neighbour].append(device)
    return near


def _walk(start: list[int], near: Neighbours, allowed: Collection[int]) -> dict[int, int]:
    """How many links each allowed device is away."""
    away, queue = dict.fromkeys(start, 0), list(start)
    for device in queue:
        for neighbour in near[device]:
            if neighbour in allowed and neighbour not in away:
                away[neighbour] = away[device] + 1
                queue.append(neighbour)
    return away


def _members(sketch: Sketch, level: Levels) -> Members:
    """The devices of every row, in order; the rows of a node are its own."""
    members: Members = defaultdict(list)
    for k in sorted(range(len(level.of)), key=lambda k: (sketch.place[k], k)):
        members[sketch.nodes[k] if level.of[k] <= level.highest else -1, level.of[k]].append(k)
    return members


def _thinned(sketch: Sketch, level: Levels) -> tuple[Sketch, tuple[str, ...]]:
    """Without the middle of rows that are too long, from below."""
    near, gone, left_out, members = (
        neighbours(sketch.pairs),
        set[int](),
        list[str](),
        _members(sketch, level),
    )
    for (node, number), row in sorted(members.items(), key=lambda item: (item[0][1], item[0][0])):
        most = max(8, 2 * len(members[node, 0])) if number <= level.highest else MOST_SWITCHES
        if number > 0 and len(row) > most:
            alike: dict[frozenset[int], list[int]] = defaultdict(list)
            for k in row:
                alike[
                    frozenset(o for o in near[k] if level.of[o] < number and o not in gone)
                ].append(k)
            remainder = _of_each([group for under, group in alike.items() if under], most)
            gone |= set(row) - set(remainder)
            left_out.append(
                f"{len(row) - len(remainder)} of {len(row)} in a row of kind "
                f"{sketch.kinds[row[0]]!r} not drawn"
            )
    return sketch.only([k for k in range(len(sketch.kinds)) if k not in gone]), tuple(
        dict.fromkeys(left_out)
    )


def _of_each(groups: list[list[int]], most: int) -> list[int]:
    """The first and the last, `most` together, of as many groups as can be: of devices that hang
    over the same."""
    return [k for group in ends(groups, most) for k in ends(group, max(1, most // len(groups)))]


def _columns(sketch: Sketch, level: Levels) -> tuple[Floats, list[float]]:
    """x of every device, and of where some ranks are left out."""
    near, members = neighbours(sketch.pairs), _members(sketch, level)
    x, dots = _lowest_row(sketch, members)
    width = float(np.nanmax(x) - np.nanmin(x)) + 1.0
    for (_, number), row in sorted(members.items(), key=lambda item: (item[0][1] < 0, item[0][1])):
        if number:
            gap = 1.0 if number <= level.highest else max(1.0, 0.8 * width / len(row))
            x[row] = _row_places([_middle(near[k], level.of[k], level.of, x) for k in row], gap)
    return x, dots


def _lowest_row(sketch: Sketch, members: Members) -> tuple[Floats, list[float]]:
    """The ranks from left to right, node by node, so far apart that other rows of the node are no
    longer."""
    x, dots, edge, last = np.full(len(sketch.kinds), np.nan), list[float](), 0.0, -1
    for node in sorted(node for node, number in members if number == 0):
        lowest = members[node, 0]
        stride = max(len(row) for (owner, _), row in members.items() if owner == node) / len(lowest)
        for k in lowest:
            before, skipped = edge, sketch.place[k] != last + 1
            edge += BETWEEN * (k == lowest[0] and last >= 0) + SKIPPED * skipped
            if skipped:
                dots.append((before + edge) / 2)
            x[k], edge, last = edge + stride / 2, edge + stride, sketch.place[k]
    return x, dots


def _middle(near: list[int], height: int, level: list[int], x: Floats) -> float:
    """The middle of what a device hangs over, or else of all."""
    under = [x[peer] for peer in near if level[peer] != height and not np.isnan(x[peer])]
    return float(np.mean(under)) if under else float(np.nanmean(x))


def _row_places(middles: list[float], gap: float) -> Floats:
    """The places of a row's devices, near their `middles` and in the same order.

    Neighbours are at least `gap` columns from each other.
    """
    from scipy.optimize import isotonic_regression

    order, steps = np.argsort(np.round(middles, 6), kind="stable"), gap * np.arange(len(middles))
    places = np.empty(len(middles))
    places[order] = isotonic_regression(np.asarray(middles)[order] - steps).x + steps
    return places


def _widths(sketch: Sketch, level: Levels, x: Floats) -> Floats:
    """How wide each device is drawn; bars are moved to the middle of what they join."""
    near, widths = neighbours(sketch.pairs), np.full(len(x), BOX)
    for (_, number), row in _members(sketch, level).items():
        if len(row) > 1 and number > level.highest:
            widths[row] = np.clip(BOX * np.diff(np.sort(x[row])).min(), BOX, WIDEST)
        if len(row) == 1 and number and len(near[row[0]]) >= WIDE:
            joined = x[near[row[0]]]
            x[row], widths[row] = (joined.min() + joined.max()) / 2, np.ptp(joined) + BOX
    return widths


def _arcs(pairs: list[Pair], level: list[int], x: Floats, widths: Floats) -> dict[Pair, float]:
    """The height of every link within a row that is not short and straight; longer ones are
    higher."""
    far = {
        (device, neighbour): abs(float(x[device] - x[neighbour]))
        for device, neighbour in pairs
        if level[device] == level[neighbour]
    }
    arcs = {
        (device, neighbour): length
        for (device, neighbour), length in far.items()
        if length < widths[device] + 0.9 or _between(device, neighbour, level, x)
    }
    longest = max(arcs.values(), default=1.0)
    highest = min(0.6 + 0.3 * longest, 3.0)
    return {pair: 0.4 + (highest - 0.4) * length / longest for pair, length in arcs.items()}


def _between(device: int, neighbour: int, level: list[int], x: Floats) -> bool:
    left, right = sorted((x[device], x[neighbour]))
    return any(
        row == level[device] and left < place < right
        for row, place in zip(level, x.tolist(), strict=True)
    )


def _heights(level: Levels, width: float, arcs: dict[Pair, float]) -> Floats:
    """y of every device: room for the arcs of a row, and the more for a fan of links the wider it
    is."""
    lift: dict[int, float] = defaultdict(float)
    for (device, _), height in arcs.items():
        lift[level.of[device]] = max(lift[level.of[device]], height)
    y = {-1: -STEP - lift[0], 0: 0.0}
    for number in range(1, max(level.of) + 1):
        step = STEP if number <= level.highest else float(np.clip(FAN * width, LOWEST, HIGHEST))
        y[number] = y[number - 1] + step + (lift[number - 1] if number > 1 else 0.0)
    return np.array([y[number] for number in level.of])


def _clear(sketch: Sketch, level: Levels, x: Floats, y: Floats, widths: Floats) -> None:
    """Move devices within nodes aside where the links of others would run behind them."""
    for k, number in enumerate(level.of):
        if 0 < number < level.highest and widths[k] == BOX:
            row = x[[peer for peer in range(len(x)) if y[peer] == y[k] and peer != k]]
            passing = np.array(_passing(k, sketch.pairs, x, y))
            free = (
                at
                for at in x[k] + SHIFTS
                if (abs(row - at) > 0.99).all() and (abs(passing - at) > CLEARANCE).all()
            )
            x[k] = next(free, x[k])


def _passing(k: int, pairs: list[Pair], x: Floats, y: Floats) -> list[float]:
    """Where links of others cross the row of device k."""
    passing = []
    for pair in pairs:
        low, high = sorted(pair, key=lambda end: float(y[end]))
        if y[low] < y[k] < y[high]:
            passing.append(
                float(x[low] + (x[high] - x[low]) * (y[k] - y[low]) / (y[high] - y[low]))
            )
    return passing


def _curves(arcs: dict[Pair, float], level: list[int], x: Floats, y: Floats) -> dict[Pair, Floats]:
    """Arcs as Bézier curves, below the ranks and above all others; those of one device leave it
    side by side."""
    near, leaves = neighbours(arcs), dict[Pair, float]()
    for device, targets in near.items():
        order = sorted(targets, key=lambda neighbour: (x[neighbour] > x[device], -x[neighbour]))
        leaves |= {
            (device, neighbour): x[device] + _slot(k, len(order))
            for k, neighbour in enumerate(order)
        }
    curves = {}
    for (device, neighbour), height in arcs.items():
        start, end, up = (
            leaves[device, neighbour],
            leaves[neighbour, device],
            4 / 3 * (height if level[device] > 0 else -height),
        )
        points = [
            (start, y[device]),
            (start, y[device] + up),
            (end, y[neighbour] + up),
            (end, y[neighbour]),
        ]
        curves[device, neighbour] = np.array(points)
    return curves


def _slot(number: int, slots: int) -> float:
    return 0.0 if slots == 1 else SLOTS * (number / (slots - 1) - 0.5)


def _frames(
    sketch: Sketch, level: Levels, x: Floats, y: Floats, arcs: dict[Pair, float]
) -> Iterable[Frame]:
    """A frame round every node, all of one height."""
    inside = [
        k for k, number in enumerate(level.of) if number <= level.highest and sketch.nodes[k] >= 0
    ]
    if not inside:
        return
    lift = max(
        (height for (device, _), height in arcs.items() if level.of[device] <= 0), default=0.0
    )
    bottom = min(float(y[inside].min()), -lift) - HEIGHT - MARGIN
    top = float(y[inside].max()) + HEIGHT + MARGIN
    for node in sorted({sketch.nodes[k] for k in inside}):
        columns = x[[k for k in inside if sketch.nodes[k] == node]]
        yield Frame(
            node,
            float(columns.min()) - BOX / 2 - MARGIN,
            bottom,
            float(columns.max()) + BOX / 2 + MARGIN,
            top,
        )
