"""A machine as columns: devices, directed links and the media that transfers occupy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from topologies.errors import InputError

if TYPE_CHECKING:
    import networkx as nx

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Topology:
    """What a machine can do. Built by :class:`TopologyBuilder` and the functions of :mod:`topologies.shapes`.

    Device d has `device_names[d]` and `device_kinds[d]`; rank r runs on device `placement[r]`; merging n bytes into
    what a device holds takes n * `reduction[d]` seconds (γ), a local copy n * `copy[d]`.
    Link k goes from device `source[k]` to `target[k]` with `latency[k]` seconds (α) and crosses the media
    `link_media[link_indptr[k]:link_indptr[k + 1]]`. The first of them is its own. Medium m carries
    `medium_bandwidth[m]` bytes/s (β) and needs `medium_gap[m]` seconds a message besides (g).
    """

    name: str
    device_names: tuple[str, ...]
    device_kinds: tuple[str, ...]
    reduction: Floats
    copy: Floats
    placement: Ints
    source: Ints
    target: Ints
    latency: Floats
    link_kinds: tuple[str, ...]
    link_indptr: Ints
    link_media: Ints
    medium_names: tuple[str, ...]
    medium_bandwidth: Floats
    medium_gap: Floats
    _routes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, init=False, repr=False)

    @property
    def ranks(self) -> int:
        """The number of ranks that have a device."""
        return len(self.placement)

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        """The topology as a networkx.DiGraph: nodes with a kind, edges with latency and bandwidth in SI units."""
        import networkx

        graph: nx.DiGraph[str] = networkx.DiGraph(name=self.name)
        for name, kind in zip(self.device_names, self.device_kinds, strict=True):
            graph.add_node(name, kind=kind)
        for link, kind in enumerate(self.link_kinds):
            ends = self.device_names[self.source[link]], self.device_names[self.target[link]]
            media = self.media_of(link)
            bandwidth = float(self.medium_bandwidth[media].min())
            graph.add_edge(*ends, latency=float(self.latency[link]), bandwidth=bandwidth, kind=kind)
        return graph

    def media_of(self, link: int) -> Ints:
        """The media that a transfer over `link` occupies: its own wire first, then the shared ones."""
        return self.link_media[self.link_indptr[link] : self.link_indptr[link + 1]]

    def route(self, source_rank: int, target_rank: int) -> tuple[int, ...]:
        """The links from one rank to another: least latency, then fewest hops, then first by device order.

        Raises InputError when there is none.
        """
        from topologies.routing import find_routes

        pair = (source_rank, target_rank)
        if pair not in self._routes:
            find_routes(self, [pair], self._routes)
        return self._routes[pair]

    def routes(self, source_ranks: npt.NDArray[np.integer], target_ranks: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
        """Routes of many pairs in CSR form: route i is `links[indptr[i]:indptr[i + 1]]`."""
        from topologies.routing import find_routes

        pairs = list(zip(source_ranks.tolist(), target_ranks.tolist(), strict=True))
        missing = [pair for pair in pairs if pair not in self._routes]
        if missing:
            find_routes(self, missing, self._routes)
        routes = [self._routes[pair] for pair in pairs]
        indptr = np.zeros(len(routes) + 1, dtype=np.int32)
        np.cumsum([len(route) for route in routes], out=indptr[1:])
        return indptr, np.array([link for route in routes for link in route], dtype=np.int32)


class TopologyBuilder:
    """Collects devices, links and media, checks each, and builds a :class:`Topology`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._devices: dict[str, tuple[str, float, float]] = {}
        self._links: list[tuple[int, int, float, float, float, str, tuple[int, ...]]] = []
        self._media: list[tuple[str, float, float]] = []
        self._index: dict[str, int] = {}
        self._ends: set[tuple[int, int]] = set()

    def device(self, name: str, kind: str = "gpu", *, reduction: float = 0.0, copy: float = 0.0) -> str:
        """Add a device; `reduction` (γ) and `copy` are seconds a byte. Returns its name."""
        if name in self._devices:
            raise InputError(f"device {name!r} is there twice: names are unique")
        _check(f"reduction of {name}", reduction, "s/B", low=0)
        _check(f"copy of {name}", copy, "s/B", low=0)
        self._index[name] = len(self._devices)
        self._devices[name] = (kind, reduction, copy)
        return name

    def medium(self, name: str, bandwidth: float, gap: float = 0.0) -> int:
        """Add a shared medium (a bus, a port) of `bandwidth` bytes/s and `gap` seconds a message."""
        _check(f"bandwidth of {name}", bandwidth, "B/s", low=0, strict=True)
        _check(f"gap of {name}", gap, "s", low=0)
        self._media.append((name, bandwidth, gap))
        return len(self._media) - 1

    def link(
        self,
        source: str,
        target: str,
        *,
        bandwidth: float,
        latency: float = 0.0,
        gap: float = 0.0,
        kind: str = "link",
        media: Iterable[int] = (),
    ) -> None:
        """Add one directed link: bytes/s, seconds, seconds a message, and the shared media it crosses."""
        name = f"{source}->{target}"
        for end in (source, target):
            if end not in self._index:
                raise InputError(f"link {name} ends at {end!r}: there is no such device")
        ends = self._index[source], self._index[target]
        if ends[0] == ends[1] or ends in self._ends:
            raise InputError(f"link {name} is there twice or leads nowhere: one link a direction between two devices")
        _check(f"bandwidth of {name}", bandwidth, "B/s", low=0, strict=True)
        _check(f"latency of {name}", latency, "s", low=0)
        _check(f"gap of {name}", gap, "s", low=0)
        crossed = tuple(media)
        if any(not 0 <= medium < len(self._media) for medium in crossed):
            raise InputError(f"link {name} crosses media {crossed}: there are {len(self._media)}, add them first")
        self._ends.add(ends)
        self._links.append((*ends, bandwidth, latency, gap, kind, crossed))

    def connect(
        self,
        one: str,
        other: str,
        *,
        bandwidth: float,
        latency: float = 0.0,
        gap: float = 0.0,
        kind: str = "link",
    ) -> None:
        """Add a full-duplex link: one in each direction."""
        self.link(one, other, bandwidth=bandwidth, latency=latency, gap=gap, kind=kind)
        self.link(other, one, bandwidth=bandwidth, latency=latency, gap=gap, kind=kind)

    def build(self, placement: Sequence[str]) -> Topology:
        """The topology, with rank r on the device `placement[r]`."""
        unknown = [name for name in placement if name not in self._index]
        if unknown:
            raise InputError(f"rank {placement.index(unknown[0])} is placed on {unknown[0]!r}: no such device")
        names = tuple(self._devices)
        links = self._links
        own = [(f"{names[k[0]]}->{names[k[1]]}", k[2], k[4]) for k in links]
        media = own + self._media
        crossed = [[index, *(len(links) + m for m in link[6])] for index, link in enumerate(links)]
        return Topology(
            name=self.name,
            device_names=names,
            device_kinds=tuple(kind for kind, _, _ in self._devices.values()),
            reduction=np.array([reduction for _, reduction, _ in self._devices.values()], dtype=np.float64),
            copy=np.array([copy for _, _, copy in self._devices.values()], dtype=np.float64),
            placement=np.array([self._index[name] for name in placement], dtype=np.int32),
            source=np.array([link[0] for link in links], dtype=np.int32),
            target=np.array([link[1] for link in links], dtype=np.int32),
            latency=np.array([link[3] for link in links], dtype=np.float64),
            link_kinds=tuple(link[5] for link in links),
            link_indptr=np.cumsum([0, *map(len, crossed)], dtype=np.int32),
            link_media=np.array([m for media in crossed for m in media], dtype=np.int32),
            medium_names=tuple(name for name, _, _ in media),
            medium_bandwidth=np.array([bandwidth for _, bandwidth, _ in media], dtype=np.float64),
            medium_gap=np.array([gap for _, _, gap in media], dtype=np.float64),
        )


def _check(what: str, value: float, unit: str, *, low: float, strict: bool = False) -> None:
    if not (value > low if strict else low <= value < np.inf):
        raise InputError(f"{what} is {value}{unit}: it is {'above' if strict else 'at least'} {low}{unit}")
