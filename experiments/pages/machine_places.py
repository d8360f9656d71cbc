"""Where the devices of a machine are drawn on a page; large machines by node and switch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.machines.machine_layout import MOST_DEVICES, distances, machine_layout
from topologies.topology import Floats, Ints, Topology

WIDEST = 3.0
"""The width of a box, at most."""
MOST_BOXES = 128
"""Boxes of a row of a large machine, at most: of more devices, several are one box."""


Numbers = npt.NDArray[np.int64]


class Places(NamedTuple):
    """Boxes and where they are."""

    devices: tuple[str, ...]
    """Their names."""
    device_kinds: tuple[str, ...]
    """Kinds of devices."""
    device_kind: Ints
    """A place in `device_kinds`."""
    node: Ints
    """The node of each box; -1 for none."""
    x: Floats
    """The middle, from left to right. 1 is the distance of neighbours."""
    y: Floats
    """The middle, upwards."""
    width: Floats
    """The width of each box."""


def places_of(topology: Topology) -> tuple[Places, Ints, tuple[str, ...]]:
    """The boxes of a machine, the box of each device, and remarks."""
    small = len(topology.device_names) <= MOST_DEVICES
    layout = machine_layout(topology) if small else None
    if layout is None or layout.left_out:
        return _large(topology)
    group = np.full(len(topology.device_names), -1, dtype=np.int32)
    group[layout.devices] = np.arange(len(layout.devices))
    names = [topology.device_names[device] for device in layout.devices.tolist()]
    kinds = [topology.device_kinds[device] for device in layout.devices.tolist()]
    words, code = np.unique(np.array(kinds), return_inverse=True)
    places = Places(
        tuple(names),
        tuple(words.tolist()),
        code.ravel().astype(np.int32),
        topology.node[layout.devices].astype(np.int32),
        layout.places[:, 0],
        layout.places[:, 1],
        np.asarray(layout.widths, dtype=np.float64),
    )
    return places, group, ()


def _large(topology: Topology) -> tuple[Places, Ints, tuple[str, ...]]:
    """A row of nodes, or of ranks, and rows of switches above; a single row becomes a circle. Of
    many, neighbours are one box."""
    level = _levels(topology)
    group = np.full(len(level), -1, dtype=np.int32)
    boxes: list[_Box] = []
    rows = np.unique(level[level >= 0]).tolist()
    widest = 0
    for row in rows:
        devices = np.flatnonzero(level == row)
        node = topology.node[devices]
        # Devices of a node are one thing; others are a thing each, behind all nodes.
        key = np.where(node >= 0, node, devices + (node.max(initial=0) + 1))
        _, thing = np.unique(key, return_inverse=True)
        thing = thing.ravel()
        count = int(thing.max()) + 1
        shown = min(count, MOST_BOXES)
        place = thing * shown // count
        group[devices] = place + len(boxes)
        widest = max(widest, shown)
        for number in range(shown):
            boxes.append(_box(topology, devices[place == number], (number, shown), row))
    kinds = tuple(dict.fromkeys(box.kind for box in boxes))
    share, level_of = (np.array([box[k] for box in boxes]) for k in (3, 4))
    x: Floats = share * widest
    y: Floats = np.searchsorted(rows, level_of) * np.float64(max(2.0, widest / 5))
    if len(rows) == 1:
        x, y = (turn(2 * np.pi * share) * widest / 6 for turn in (np.sin, np.cos))
    places = Places(
        tuple(box.name for box in boxes),
        kinds,
        np.array([kinds.index(box.kind) for box in boxes], dtype=np.int32),
        np.array([box.node for box in boxes], dtype=np.int32),
        x,
        y,
        np.array([min(0.8 * widest / box.of, WIDEST) for box in boxes]),
    )
    return places, group, tuple(_remarks(boxes, np.bincount(group[group >= 0]), topology))


def _remarks(boxes: list[_Box], members: Numbers, topology: Topology) -> Iterator[str]:
    if any(box.kind == "node" for box in boxes):
        yield "A box in the lowest row is a node: its colour is the mean use of its inner links."
    several = [count > 1 for box, count in zip(boxes, members, strict=True) if box.kind != "node"]
    if any(several) or sum(box.kind == "node" for box in boxes) < len(np.unique(topology.node)) - 1:
        yield "Some boxes stand for several neighbours: the machine is too large to draw them all."


class _Box(NamedTuple):
    name: str
    kind: str
    node: int
    x: float
    level: int
    of: int
    """The boxes of its row."""


def _box(topology: Topology, devices: Numbers, place: tuple[int, int], level: int) -> _Box:
    """The box of devices of one level: its place among so many."""
    x = (place[0] + 0.5) / place[1]
    nodes = np.unique(topology.node[devices])
    first, last = (topology.device_names[devices[k]] for k in (0, -1))
    if nodes[0] >= 0:
        one = len(nodes) == 1
        name = f"node {nodes[0]}" if one else f"nodes {nodes[0]} to {nodes[-1]}"
        return _Box(name, "node", int(nodes[0]) if one else -1, x, level, place[1])
    name = first if len(devices) == 1 else f"{first} to {last}"
    return _Box(name, topology.device_kinds[int(devices[0])], -1, x, level, place[1])


def _levels(topology: Topology) -> Numbers:
    """How many links each device is away from nodes, or from ranks where there are none; -1 for
    devices that cannot be reached."""
    start = np.flatnonzero(topology.node >= 0)
    if not len(start):
        start = np.unique(topology.placement)
    away = distances(topology, start)
    return np.where(np.isfinite(away), away, -1).astype(np.int64)
