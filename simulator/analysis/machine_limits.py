"""What lower bounds need of a machine: the latency between the farthest ranks of a collective, and
what two halves of its ranks can send each other."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Collective
from topologies.capacity import congestion, max_flow
from topologies.errors import InputError
from topologies.routing import distances
from topologies.topology import Floats, Ints, Topology

Longs = npt.NDArray[np.int64]
EXACT_WORKERS = 256
"""Up to so many workers, the latency is that of the farthest two. Beyond, a few sweeps look for
them."""
SEARCHED_DISTANCES = 2**18
"""Devices times sources up to which all distances from several ranks are computed. Beyond, the
latencies of their routes are added up."""
_ROWS: WeakKeyDictionary[Topology, dict[int, Floats]] = WeakKeyDictionary()
"""The distances from some ranks, as long as their topology is in use."""
_FLOWS: WeakKeyDictionary[Topology, dict[tuple[int, bool], float]] = WeakKeyDictionary()
"""The flows between halves of ranks, as long as their topology is in use."""


def farthest(collective: Collective, topology: Topology, workers: int) -> float:
    """The latency in seconds between the farthest two of the first `workers` ranks of which one
    must receive data of the other."""
    near = np.arange(min(workers, EXACT_WORKERS), dtype=np.int32)
    if collective.pairs is not None:
        source, target, _ = collective.pairs(workers)
        return _of_pairs(topology, source, target)
    match collective.family:
        case "broadcast" | "scatter":
            return float(_row(topology, 0)[:workers].max())
        case "reduce" | "gather":
            return _apart(topology, near, np.zeros_like(near))
        case "send_recv":
            return _apart(topology, near, (near + 1) % workers)
        case "all_reduce" | "reduce_scatter" | "all_gather" | "all_to_all":
            return _diameter(topology, workers)
        case "barrier" | "ring_exchange":
            return _diameter(topology, workers)
    return 0.0


def is_exact(collective: Collective, workers: int) -> bool:
    """Whether :func:`farthest` looks at all ranks."""
    return workers <= EXACT_WORKERS or collective.family in ("broadcast", "scatter")


def _of_pairs(topology: Topology, source: Longs, target: Longs) -> float:
    """The longest distance of pairs, of which the first `EXACT` senders are looked at."""
    sources, place = np.unique(source, return_inverse=True)
    near = np.flatnonzero(place < EXACT_WORKERS)
    if not len(near):
        return 0.0
    rows = distances(topology, sources[:EXACT_WORKERS].astype(np.int32))
    return float(rows[place[near], target[near]].max())


def _diameter(topology: Topology, workers: int) -> float:
    if workers <= EXACT_WORKERS:
        return float(distances(topology, np.arange(workers, dtype=np.int32))[:, :workers].max())
    latency, source = 0.0, 0
    for _ in range(4):
        row = _row(topology, source)[:workers]
        latency, source = max(latency, float(row.max())), int(row.argmax())
    return latency


def _row(topology: Topology, source: int) -> Floats:
    """The distance from a rank to each rank."""
    rows = _ROWS.setdefault(topology, {})
    if source not in rows:
        rows[source] = distances(topology, np.array([source], dtype=np.int32))[0]
    return rows[source]


def _apart(topology: Topology, sources: Ints, targets: Ints) -> float:
    """The longest distance from a source to its target."""
    if len(topology.device_names) * len(sources) <= SEARCHED_DISTANCES:
        return float(distances(topology, sources)[np.arange(len(sources)), targets].max())
    try:
        indptr, links = topology.routes(sources, targets)
    except InputError:
        return np.inf
    route = np.repeat(np.arange(len(sources)), np.diff(indptr))
    return float(np.bincount(route, topology.latency[links], len(sources)).max())


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
