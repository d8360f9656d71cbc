"""What the first half of some ranks and the second can send each other."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from topologies.capacity import congestion, max_flow
from topologies.topology import Topology

_FLOWS: WeakKeyDictionary[Topology, dict[tuple[int, bool], float]] = WeakKeyDictionary()
"""The flows between halves of ranks, as long as their topology is in use."""


def flow_between_halves(topology: Topology, workers: int, back: bool) -> float:
    """The most bytes/s from the first half of the ranks to the second, or back."""
    known = _FLOWS.setdefault(topology, {})
    if (workers, back) not in known:
        devices = topology.placement[:workers]
        ends = devices[: workers // 2], devices[workers // 2 :]
        known[workers, back] = max_flow(topology, *(ends[::-1] if back else ends)).bandwidth
    return known[workers, back]


def routes_between_halves(topology: Topology, workers: int, back: bool) -> float:
    """The bytes/s of rank k of the first half to rank k of the second, or back, for all k at once,
    along their routes: not more than the flow.

    It is 0 on machines without nodes, where routes may be long.
    """
    if topology.node.max(initial=-1) < 0:
        return 0.0
    half = np.arange(workers // 2)
    ends = half, half + workers // 2
    seconds = congestion(topology, *(ends[::-1] if back else ends))
    return len(half) / seconds if seconds > 0 else np.inf
