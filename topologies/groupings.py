"""What can leave and reach the groups of a machine's devices, computed once for all collectives."""

from __future__ import annotations

from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from topologies.capacity import capacities
from topologies.cuts import partitions
from topologies.topology import Flags, Floats, Ints, Topology

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
    """Bytes/s through these links together, summed in their order."""
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
