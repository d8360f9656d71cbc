"""Where the devices of a machine are drawn on a page; large machines by node and switch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.machines.machine_layout import MOST_DEVICES, machine_layout
from topologies.topology import Floats, Ints, Topology

MOST_BOXES = 128
"""Boxes of a row of a large machine, at most: of more devices, several are one box."""


Numbers = npt.NDArray[np.int64]


class Places(NamedTuple):
    """Boxes and where they are."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    """Kinds of devices."""
    kind: Ints
    """A place in `kinds`."""
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
    """A row of nodes, or of ranks, and rows of switches above. Of many, neighbours are one box."""
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
            boxes.append(_box(topology, devices[place == number], (number + 0.5) / shown, row))
    kinds = tuple(dict.fromkeys(box.kind for box in boxes))
    height = max(2.0, widest / 5)
    places = Places(
        tuple(box.name for box in boxes),
        kinds,
        np.array([kinds.index(box.kind) for box in boxes], dtype=np.int32),
        np.array([box.node for box in boxes], dtype=np.int32),
        np.array([box.x * widest for box in boxes]),
        np.array([rows.index(box.level) * height for box in boxes]),
        np.full(len(boxes), 0.8),
    )
    return places, group, ("A box stands for a node or for several neighbours of a large machine.",)


class _Box(NamedTuple):
    name: str
    kind: str
    node: int
    x: float
    level: int


def _box(topology: Topology, devices: Numbers, x: float, level: int) -> _Box:
    """The box of devices of one level."""
    nodes = np.unique(topology.node[devices])
    first, last = (topology.device_names[devices[k]] for k in (0, -1))
    if nodes[0] >= 0:
        one = len(nodes) == 1
        name = f"node {nodes[0]}" if one else f"nodes {nodes[0]} to {nodes[-1]}"
        return _Box(name, "node", int(nodes[0]) if one else -1, x, level)
    name = first if len(devices) == 1 else f"{first} to {last}"
    return _Box(name, topology.device_kinds[int(devices[0])], -1, x, level)


def _levels(topology: Topology) -> Numbers:
    """How many links each device is away from nodes, or from ranks where there are none; -1 for
    devices that cannot be reached."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count = len(topology.device_names)
    start = np.flatnonzero(topology.node >= 0)
    if not len(start):
        start = np.unique(topology.placement)
    graph = csr_array(
        (np.ones(topology.links), (topology.source, topology.target)), shape=(count, count)
    )
    away = dijkstra(graph, indices=start, unweighted=True, min_only=True)
    return np.where(np.isfinite(away), away, -1).astype(np.int64)
