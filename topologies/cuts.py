"""Cuts of a machine: groups of devices and what can leave and reach them, and halves of its ranks.
Distances between its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from topologies.capacity import capacities, max_flow
from topologies.columns import distinct, distinct_rows, plain_rows
from topologies.errors import InputError
from topologies.routing import distances
from topologies.topology import Flags, Floats, Ints, Numbers, Topology

ANGLES = 8
TREE = 2048
"""Devices of a tree up to which the devices beyond each wire are listed."""
CHUNK = 256


class Bisection(NamedTuple):
    """The least bytes/s from one half of the ranks to the other. Unless `exact`, it is an upper
    estimate."""

    bandwidth: float
    exact: bool


class Diameter(NamedTuple):
    """The greatest distance between two ranks: the most links, and the most seconds."""

    hops: int
    latency: float


def diameter(topology: Topology) -> Diameter:
    """The greatest distance between two ranks, in links and in latency.

    Raises InputError if two ranks have no route.

    >>> from topologies.shapes import ring
    >>> diameter(ring(8, bandwidth=1e9, latency=1e-6))
    Diameter(hops=4, latency=4e-06)
    """
    farthest, ranks = [], np.arange(topology.ranks, dtype=np.int32)
    parts = [ranks[first : first + CHUNK] for first in range(0, len(ranks), CHUNK)]
    for measured in (replace(topology, latency=np.ones(topology.links)), topology):
        away = (float(distances(measured, part).max()) for part in parts)
        farthest.append(max(away, default=0.0))
    if not np.isfinite(farthest[0]):
        raise InputError(f"{topology.name} has ranks without a route between them: connect them")
    return Diameter(int(farthest[0]), farthest[1])


def components(topology: Topology, links: Flags) -> Ints:
    """The number of the group of each device. Devices are in one group if `links`, in either
    direction, connect them.

    >>> from topologies.shapes import line
    >>> components(line(4, bandwidth=1e9), np.array([True, True, False, False, True, True]))
    array([0, 0, 1, 1], dtype=int32)
    """
    source, target = topology.source[links], topology.target[links]
    label = np.arange(len(topology.device_names))
    if not len(source):
        return label.astype(np.int32)
    while True:
        lower = label.copy()
        for start, end in ((source, target), (target, source)):
            np.minimum.at(lower, label[start], label[end])
        lower = lower[lower]
        if np.array_equal(lower, label):
            return _numbered(label)
        label = lower


def partitions(topology: Topology) -> list[Ints]:
    """Groups of devices that may be hard to leave: each as the number of the group of every device.

    - every device by itself;
    - the nodes;
    - for each speed, the devices that links above this speed connect;
    - for each number of hops, the devices that links within so many hops of a rank connect. So
      ranks gather around the switches that they share.
    """
    devices, source, target = len(topology.device_names), topology.source, topology.target
    alone = np.arange(devices)
    away = _hops_from_ranks(topology)
    reach = np.maximum(away[source], away[target])
    partitions = [
        alone.astype(np.int32),
        _numbered(np.where(topology.node < 0, alone, devices + topology.node)),
    ]
    speeds = topology.bandwidth
    alike = len(speeds) > 0 and speeds.min() == speeds.max()
    # The 16 slowest speeds of links group devices.
    for speed in speeds[:1] if alike else distinct(speeds)[:16]:
        partitions.append(components(topology, topology.bandwidth > speed))
    for hops in np.flatnonzero(np.bincount(reach))[:-1]:
        partitions.append(components(topology, reach <= hops))
    return list({groups.tobytes(): groups for groups in partitions}.values())


def tree_cuts(topology: Topology) -> Flags:
    """The devices beyond each wire, shape (wires, devices), if the devices form a tree of at most
    `TREE`; else no rows.

    >>> from topologies.shapes import line
    >>> tree_cuts(line(3, bandwidth=1e9)).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    devices = len(topology.device_names)
    if devices > TREE:
        return np.zeros((0, devices), dtype=np.bool_)
    neighbours: list[set[int]] = [set() for _ in range(devices)]
    for source, target in plain_rows(topology.source, topology.target):
        neighbours[source].add(target)
        neighbours[target].add(source)
    order, parent = [0], {0: 0}
    for device in order:
        beyond = [neighbour for neighbour in sorted(neighbours[device]) if neighbour not in parent]
        parent |= dict.fromkeys(beyond, device)
        order += beyond
    if len(order) < devices or sum(map(len, neighbours)) != 2 * (devices - 1):
        return np.zeros((0, devices), dtype=np.bool_)
    below = np.eye(devices, dtype=np.bool_)
    for device in order[:0:-1]:
        below[parent[device]] |= below[device]
    return below[1:]


def _hops_from_ranks(topology: Topology) -> Ints:
    """Links between each device and the nearest rank, in either direction. Without a rank, more
    than there are devices."""
    away = np.full(len(topology.device_names), len(topology.device_names) + 1, dtype=np.int32)
    away[topology.placement] = 0
    level = 0
    while True:
        for start, end in ((topology.source, topology.target), (topology.target, topology.source)):
            away[start[(away[end] == level) & (away[start] > level + 1)]] = level + 1
        level += 1
        if not (away == level).any():
            return away


def _numbered(label: Numbers) -> Ints:
    """Numbers for labels, in the order in which they appear."""
    if np.array_equal(label, np.arange(len(label))):
        return label.astype(np.int32)
    return distinct_rows(label, met=True)[1].astype(np.int32)


def bisection(topology: Topology) -> Bisection:
    """The least bandwidth from p // 2 of the ranks to the others, or back.

    All halves of a small machine are compared. Of a large machine, the likely worst halves are: by
    node and rank, by port, and by the first eigenvectors of the Laplacian (M. Fiedler, "Algebraic
    connectivity of graphs", 1973). The bandwidth is infinite if in every half some rank shares its
    device with a rank of the other half.

    >>> from topologies.shapes import ring
    >>> bisection(ring(8, bandwidth=1e9))
    Bisection(bandwidth=2000000000.0, exact=True)
    """
    # All halves of so few devices are compared, if no media are shared.
    if not topology.shared_names and len(topology.device_names) <= 20:
        return Bisection(_least_of_all(topology), exact=True)
    devices, place, count = np.unique(topology.placement, return_inverse=True, return_counts=True)
    # Of so few devices with ranks the flow between all halves is computed.
    if len(devices) <= 10:
        sides = _subsets(len(devices))
        halves = sides[sides @ count == topology.ranks // 2]
        return Bisection(_least(topology, halves[:, place]), exact=True)
    return Bisection(_least(topology, _likely_halves(topology)), exact=False)


def _subsets(count: int) -> Flags:
    octets = np.arange(2**count, dtype="<u4").view(np.uint8).reshape(-1, 4)
    return np.unpackbits(octets, axis=1, bitorder="little", count=count).astype(np.bool_)


def _least_of_all(topology: Topology) -> float:
    """The least bandwidth out of or into any set of devices that has half of the ranks."""
    devices, fast = len(topology.device_names), np.isinf(topology.bandwidth)
    unlimited = 1.0 + 2 * float(topology.bandwidth[~fast].sum())
    table = np.zeros((devices, devices))
    table[topology.source, topology.target] = np.where(fast, unlimited, topology.bandwidth)
    sides = _subsets(devices)
    inside = sides[
        sides @ np.bincount(topology.placement, minlength=devices) == topology.ranks // 2
    ].astype(np.float64)
    ways = (
        ((side @ table) * (1 - side)).sum(axis=1).min(initial=np.inf)
        for side in (inside, 1 - inside)
    )
    least = float(min(ways))
    return least if least < unlimited else np.inf


def _least(topology: Topology, halves: Iterable[Flags]) -> float:
    sides = ((topology.placement[half], topology.placement[~half]) for half in halves)
    flows = (
        max_flow(topology, *ends).bandwidth
        for members, complement in sides
        for ends in ((members, complement), (complement, members))
    )
    return min(flows, default=np.inf)


def _likely_halves(topology: Topology) -> Iterator[Flags]:
    port = np.bincount(topology.source, topology.bandwidth, len(topology.device_names))
    keys: list[npt.NDArray[np.generic]] = [topology.node, port]
    # Eigenvectors are computed of a Laplacian of up to 1024 devices.
    if len(port) <= 1024:
        keys += _gradients(topology)
    for key in keys:
        order = np.argsort(key[topology.placement], kind="stable")
        yield np.argsort(order) < topology.ranks // 2


def _gradients(topology: Topology) -> list[Floats]:
    """The smoothest functions on the devices: eigenvectors of the second and third eigenvalue of
    the Laplacian, mixed, with bandwidth as weights."""
    devices, fast = len(topology.device_names), np.isinf(topology.bandwidth)
    weight = np.where(fast, 2 * topology.bandwidth[~fast].max(initial=1.0), topology.bandwidth)
    table = np.zeros((devices, devices))
    table[topology.source, topology.target] = weight / weight.max(initial=1.0)
    table += table.T
    second, third = np.linalg.eigh(np.diag(table.sum(axis=1)) - table)[1][:, 1:3].T
    angles = np.arange(ANGLES) * np.pi / ANGLES
    return [np.round(np.cos(angle) * second + np.sin(angle) * third, 9) for angle in angles]


End = Literal["source", "target"]


class Grouping:
    """Groups of devices: device d is in `group[d]`. All methods take the same topology."""

    def __init__(self, topology: Topology, group: Ints) -> None:
        self.group, self.count = group, int(group.max()) + 1
        self.holders = np.zeros(self.count, dtype=np.bool_)
        """Whether each group has a rank, or a switch that reduces."""
        self.holders[group[topology.placement]] = True
        self.holders[group[topology.in_network]] = True
        self._ports: dict[End, Floats] = {}
        self._together: dict[tuple[End, bytes], float] = {}

    def ports(self, topology: Topology, end: End) -> Floats:
        """Bytes/s out of each group (at the source of links) or into it (at their target)."""
        if end not in self._ports:
            of = np.where(self._crossing(topology), self._at(topology, end), np.int32(-1))
            self._ports[end] = capacities(topology, of, self.count)
        return self._ports[end]

    def together(self, topology: Topology, end: End, members: Flags) -> float:
        """Bytes/s out of, or into, all groups of `members`, through all their links."""
        if np.count_nonzero(members) == 1:
            return float(self.ports(topology, end)[members.argmax()])
        key = end, members.tobytes()
        if key not in self._together:
            chosen = self._crossing(topology) & members[self._at(topology, end)]
            self._together[key] = _sum(topology, chosen)
        return self._together[key]

    def _at(self, topology: Topology, end: End) -> Ints:
        return self.group[topology.source if end == "source" else topology.target]

    def _crossing(self, topology: Topology) -> Flags:
        return np.asarray(self._at(topology, "source") != self._at(topology, "target"))


def _sum(topology: Topology, links: Flags) -> float:
    if topology.shared_names:
        return float(capacities(topology, np.where(links, np.int32(0), np.int32(-1)), 1)[0])
    total = np.cumsum(topology.bandwidth[links])
    return float(total[-1]) if len(total) else 0.0


_KNOWN: WeakKeyDictionary[Topology, list[Grouping]] = WeakKeyDictionary()
"""The groupings that have been looked at, as long as their topology is in use."""


def groupings(topology: Topology) -> list[Grouping]:
    """The groups of :func:`topologies.cuts.partitions`. In the first, every device is alone."""
    if topology not in _KNOWN:
        _KNOWN[topology] = [Grouping(topology, group) for group in partitions(topology)]
    return _KNOWN[topology]
