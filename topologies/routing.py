"""Routes between ranks: least latency, then fewest hops, then first by device order."""

from collections.abc import Iterable
from fractions import Fraction
from heapq import heappop, heappush

import numpy as np

from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology

Pair = tuple[int, int]
Route = tuple[int, ...]

SMALL = 200
_NO_LATENCY = 1e-30
"""Stands for zero where a graph of weights knows no edge of weight zero."""
_TICKS_PER_SECOND = 1024 * 10**15
"""Latencies are added as whole numbers, fine enough for 1 fs and for 2^-25 s: equal routes are really equal."""


def find_routes(topology: Topology, pairs: Iterable[Pair], routes: dict[Pair, Route]) -> None:
    """Add to `routes` the links of every (source rank, target rank) in `pairs`. Raises InputError if there is none."""
    graph = _Graph(topology)
    placement = topology.placement.tolist()
    cores = {pair: graph.contract(*_devices(topology.name, placement, pair)) for pair in pairs}
    wanted: dict[int, set[int]] = {}
    for _, source, _, target in cores.values():
        wanted.setdefault(source, set()).add(target)
    known = {source: graph.search(source, targets) for source, targets in wanted.items()}
    for pair, (head, source, tail, target) in cores.items():
        if target not in known[source]:
            raise InputError(f"no route from rank {pair[0]} to rank {pair[1]} in {topology.name}: connect them")
        routes[pair] = head + known[source][target] + tail


def _devices(name: str, placement: list[int], pair: Pair) -> Pair:
    for rank in pair:
        if not 0 <= rank < len(placement):
            raise InputError(f"rank {rank} has no device: {name} has {len(placement)} ranks")
    return placement[pair[0]], placement[pair[1]]


class _Graph:
    """Adjacency of a topology, in device order."""

    def __init__(self, topology: Topology) -> None:
        count = len(topology.device_names)
        self.leaving: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
        self.entering: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        ticks = [round(Fraction(latency) * _TICKS_PER_SECOND) for latency in topology.latency.tolist()]
        ends = zip(topology.source.tolist(), topology.target.tolist(), ticks, strict=True)
        for link, (source, target, latency) in enumerate(ends):
            self.leaving[source].append((target, latency, link))
            self.entering[target].append((source, link))

    def contract(self, source: int, target: int) -> tuple[Route, int, Route, int]:
        """Walk the only way out of `source` and the only way into `target`: what is left needs a search."""
        head: list[int] = []
        tail: list[int] = []
        while source != target and len(self.leaving[source]) == 1 and len(head) < len(self.leaving):
            source, _, link = self.leaving[source][0]
            head.append(link)
        while source != target and len(self.entering[target]) == 1 and len(tail) < len(self.leaving):
            target, link = self.entering[target][0]
            tail.append(link)
        return tuple(head), source, tuple(reversed(tail)), target

    def search(self, source: int, targets: set[int]) -> dict[int, Route]:
        """The routes from `source` to the devices in `targets` that it reaches."""
        nearest = min((latency for _, latency, _ in self.leaving[source]), default=0)
        direct = {device: (link,) for device, latency, link in self.leaving[source] if latency == nearest}
        found: dict[int, Route] = {source: ()} | {target: direct[target] for target in targets & direct.keys()}
        missing = targets - found.keys()
        return found | self._dijkstra(source, missing) if missing else found

    def _dijkstra(self, source: int, missing: set[int]) -> dict[int, Route]:
        """The heap orders by (latency, hops, devices on the way), so that the first arrival is the route."""
        heap: list[tuple[int, int, Route, Route]] = [(0, 0, (source,), ())]
        settled: dict[int, Route] = {}
        while heap and missing:
            latency, hops, devices, route = heappop(heap)
            device = devices[-1]
            if device in settled:
                continue
            settled[device] = route
            missing = missing - {device}
            for neighbour, ticks, link in self.leaving[device]:
                if neighbour not in settled:
                    heappush(heap, (latency + ticks, hops + 1, (*devices, neighbour), (*route, link)))
        return settled


def distances(topology: Topology, sources: Ints | None = None) -> Floats:
    """Least latency in seconds from some ranks (by default all) to all, shape (sources, ranks); inf where none."""
    placed = topology.placement
    chosen = placed if sources is None else placed[sources]
    least = _all_pairs if len(topology.device_names) <= SMALL else _from_sources
    return least(topology, chosen)[:, placed]


def _all_pairs(topology: Topology, devices: Ints) -> Floats:
    """Floyd and Warshall's, a row at a time: at this size quicker than an import."""
    count = len(topology.device_names)
    least = np.full((count, count), np.inf)
    np.fill_diagonal(least, 0.0)
    np.minimum.at(least, (topology.source, topology.target), topology.latency)
    for via in range(count):
        np.minimum(least, least[:, via : via + 1] + least[via], out=least)
    return np.asarray(least[devices])


def _from_sources(topology: Topology, devices: Ints) -> Floats:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count = len(topology.device_names)
    weights = np.maximum(topology.latency, _NO_LATENCY)
    graph = csr_array((weights, (topology.source, topology.target)), shape=(count, count))
    least = np.atleast_2d(dijkstra(graph, indices=devices))
    return np.where(least < _NO_LATENCY * count, 0.0, least)
