"""Collects devices, links and media, one at a time or as columns, and builds a topology."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from topologies.columns import Words
from topologies.device_names import DeviceNames, Numbered
from topologies.errors import InputError
from topologies.link import Link
from topologies.topology import Floats, Ints, Paths, Topology
from topologies.topology_checks import check_figure, check_link

KINDS = 127
T = TypeVar("T", int, float)


class TopologyBuilder:
    """Collects devices, media and links, and builds a :class:`topologies.topology.Topology`."""

    def __init__(self, name: str, *, paths: Paths = "first") -> None:
        self.name, self.paths = name, paths
        self._names = DeviceNames()
        self._devices = {"kind": array("b"), "node": array("i"), "in_network": array("b")}
        self._costs = {"reduction": array("d"), "copy": array("d")}
        self._links = {
            "source": array("i"),
            "target": array("i"),
            "kind": array("b"),
            "assumed": array("b"),
        }
        self._figures = {"bandwidth": array("d"), "latency": array("d"), "gap": array("d")}
        self._crossed = array("i"), array("i")
        self._media: dict[str, tuple[float, float]] = {}
        self._kinds: dict[str, int] = {}
        self._ends: set[tuple[int, int]] = set()
        self.notes: list[str] = []
        self._built = False

    def __len__(self) -> int:
        """The number of devices."""
        return len(self._names)

    def device(
        self,
        name: str,
        kind: str = "gpu",
        *,
        reduction: float = 0.0,
        copy: float = 0.0,
        node: int = -1,
        in_network: bool = False,
    ) -> str:
        """Add a device; `reduction` (γ) and `copy` are seconds a byte. Returns its name."""
        self.devices([name], kind, reduction=reduction, copy=copy, node=node, in_network=in_network)
        return name

    def devices(
        self,
        names: Sequence[str],
        kind: str,
        *,
        reduction: float = 0.0,
        copy: float = 0.0,
        node: npt.ArrayLike = -1,
        in_network: bool = False,
    ) -> Ints:
        """Add devices that are alike, on one node or on a node each. Returns their numbers."""
        for column, cost in {"reduction": reduction, "copy": copy}.items():
            check_figure(f"{column} of {names[0] if names else kind}", cost, "s/B", low=0)
        code = self._kind(kind)
        first = self._add_names(names)
        rows: dict[str, npt.ArrayLike] = {
            "kind": code,
            "node": node,
            "in_network": in_network,
        }
        for column, values in rows.items():
            _extend(self._devices[column], values, len(names))
        for column, cost in {"reduction": reduction, "copy": copy}.items():
            _extend(self._costs[column], cost, len(names))
        return np.arange(first, first + len(names), dtype=np.int32)

    def medium(self, name: str, bandwidth: float, gap: float = 0.0) -> int:
        """Add a shared medium (a bus, a port) of `bandwidth` bytes/s and `gap` seconds a
        message."""
        check_figure(f"bandwidth of {name}", bandwidth, "B/s", low=0, strict=True)
        check_figure(f"gap of {name}", gap, "s", low=0)
        if name in self._media:
            raise InputError(f"medium {name!r} is there twice: names are unique")
        self._media[name] = bandwidth, gap
        return len(self._media) - 1

    def link(
        self,
        source: str,
        target: str,
        link: Link,
        *,
        kind: str = "link",
        media: Iterable[int] = (),
        assumed: bool = False,
    ) -> None:
        """Add a link in one direction, which also crosses some shared media."""
        name, numbers = f"{source}->{target}", self._names.numbers()
        for end in (source, target):
            if end not in numbers:
                raise InputError(f"link {name} ends at {end!r}: there is no such device")
        ends = numbers[source], numbers[target]
        if ends[0] == ends[1] or ends in self._ends:
            raise InputError(
                f"link {name} is there twice or leads nowhere: one link a direction between two "
                f"devices"
            )
        check_link(link, f" of {name}")
        crossed = tuple(media)
        if any(not 0 <= medium < len(self._media) for medium in crossed):
            raise InputError(
                f"link {name} crosses media {crossed}: there are {len(self._media)}, add them first"
            )
        code = self._kind(kind)
        self._ends.add(ends)
        for medium in crossed:
            self._crossed[0].append(len(self._links["source"]))
            self._crossed[1].append(medium)
        row = {"source": ends[0], "target": ends[1], "kind": code, "assumed": assumed}
        for column, value in row.items():
            self._links[column].append(value)
        self._figures["bandwidth"].append(link.bandwidth)
        self._figures["latency"].append(link.latency)
        self._figures["gap"].append(link.gap)

    def connect(
        self,
        first: str,
        other: str,
        link: Link,
        *,
        kind: str = "link",
        assumed: bool = False,
    ) -> None:
        """Add a full-duplex link: one in each direction."""
        for ends in ((first, other), (other, first)):
            self.link(*ends, link, kind=kind, assumed=assumed)

    def wire(
        self,
        first: npt.ArrayLike,
        other: npt.ArrayLike,
        link: Link,
        *,
        cables: npt.ArrayLike = 1,
        kind: str = "link",
        assumed: bool = False,
    ) -> None:
        """Add many full-duplex links between devices by number, all alike.

        `cables`, one number for all or one for each pair, multiplies the bandwidth.
        """
        ends = np.stack([np.ravel(end) for end in np.broadcast_arrays(first, other)], axis=1)
        self.arrows(
            ends.ravel(),
            ends[:, ::-1].ravel(),
            link,
            cables=np.repeat(cables, 2) if np.size(cables) > 1 else cables,
            kind=kind,
            assumed=assumed,
        )

    def arrows(
        self,
        sources: npt.ArrayLike,
        targets: npt.ArrayLike,
        link: Link,
        *,
        cables: npt.ArrayLike = 1,
        kind: str = "link",
        media: npt.ArrayLike = (),
        assumed: bool = False,
    ) -> None:
        """Add many links in one direction between devices by number, all alike.

        `cables` multiplies the bandwidth, as in :meth:`wire`. `media` are the shared media that
        each link crosses, shape (links, media).
        """
        source, target = (
            np.ravel(end).astype(np.int32, copy=False)
            for end in np.broadcast_arrays(sources, targets)
        )
        if not (count := len(source)):
            return
        low, high = (min(map(np.min, (source, target))), max(map(np.max, (source, target))))
        if not 0 <= low <= high < len(self):
            raise InputError(f"links end at devices {low} to {high}: add them first")
        bandwidth = link.bandwidth * np.ravel(cables)
        for extreme in (bandwidth.min(), bandwidth.max()):
            check_link(replace(link, bandwidth=float(extreme)))
        row: dict[str, npt.ArrayLike] = {
            "source": source,
            "target": target,
            "kind": self._kind(kind),
            "assumed": assumed,
        }
        if np.size(media):
            self._cross(np.reshape(media, (count, -1)))
        for column, value in row.items():
            _extend(self._links[column], value, count)
        figures: dict[str, npt.ArrayLike] = {
            "bandwidth": bandwidth,
            "latency": link.latency,
            "gap": link.gap,
        }
        for column, figure in figures.items():
            _extend(self._figures[column], figure, count)

    def copies(self, part: Topology, count: int, prefix: str = "node") -> Ints:
        """Add `count` copies of a topology without shared media, as nodes 0, 1, ... with names like
        "node3.gpu0".

        Returns the number of the first device of each copy.
        """
        if part.shared_names:
            raise InputError(
                f"{part.name} has shared media ({part.shared_names[0]}): it cannot be copied"
            )
        devices = len(part.device_names)
        ends = [(prefix, f".{name}") for name in part.device_names]
        first = self._add_names(Numbered(count * devices, *ends) if ends else ())
        rows: dict[str, npt.ArrayLike] = {
            "kind": np.tile(self._recoded(part.device_kinds), count),
            "node": np.repeat(np.arange(count), devices),
            "in_network": np.tile(part.in_network, count),
        }
        for column, values in rows.items():
            _extend(self._devices[column], values, count * devices)
        for column, cost in {"reduction": part.reduction, "copy": part.copy}.items():
            _extend(self._costs[column], np.tile(cost, count), count * devices)
        starts = first + devices * np.arange(count, dtype=np.int32)
        links = {
            "source": np.add.outer(starts, part.source),
            "target": np.add.outer(starts, part.target),
            "kind": np.tile(self._recoded(part.link_kinds), count),
            "assumed": np.tile(part.assumed, count),
        }
        for column, values in links.items():
            _extend(self._links[column], np.ravel(values), count * part.links)
        figures = {
            "bandwidth": part.medium_bandwidth,
            "latency": part.latency,
            "gap": part.medium_gap,
        }
        for column, figure in figures.items():
            _extend(self._figures[column], np.tile(figure, count), count * part.links)
        return starts

    def build(self, placement: Sequence[str] | Ints) -> Topology:
        """The topology, with rank r on the device `placement[r]`, a name or a number.

        The topology takes the builder's columns. Later additions go into copies of them.
        """
        self._built = True
        if not isinstance(placement, np.ndarray):
            numbers = self._names.numbers()
            unknown = [name for name in placement if name not in numbers]
            if unknown:
                raise InputError(
                    f"rank {placement.index(unknown[0])} is placed on {unknown[0]!r}: no such "
                    f"device"
                )
            placement = np.array([numbers[name] for name in placement], dtype=np.int32)
        kinds = tuple(self._kinds)
        source, target = (
            np.frombuffer(self._links[end], dtype=np.int32) for end in ("source", "target")
        )
        indptr, media = self._media_of_links(len(source))
        return Topology(
            name=self.name,
            device_names=self._names,
            device_kinds=Words(np.frombuffer(self._devices["kind"], dtype=np.int8), kinds),
            node=np.frombuffer(self._devices["node"], dtype=np.int32),
            reduction=np.frombuffer(self._costs["reduction"]),
            copy=np.frombuffer(self._costs["copy"]),
            in_network=np.frombuffer(self._devices["in_network"], dtype=np.bool_),
            placement=placement,
            source=source,
            target=target,
            latency=np.frombuffer(self._figures["latency"]),
            link_kinds=Words(np.frombuffer(self._links["kind"], dtype=np.int8), kinds),
            assumed=np.frombuffer(self._links["assumed"], dtype=np.bool_),
            link_indptr=indptr,
            link_media=media,
            shared_names=tuple(self._media),
            medium_bandwidth=self._of_media("bandwidth", 0),
            medium_gap=self._of_media("gap", 1),
            paths=self.paths,
            notes=tuple(self.notes),
        )

    def _add_names(self, names: Sequence[str]) -> int:
        """Returns the number of the first of them."""
        self._part()
        first = len(self._names)
        self._names.add(names)
        return first

    def _cross(self, media: Ints) -> None:
        """The next links cross these shared media, shape (links, media of a link)."""
        first, (links, crossed) = len(self._links["source"]), media.shape
        _extend(self._crossed[0], np.repeat(np.arange(first, first + links), crossed), media.size)
        _extend(self._crossed[1], media.ravel(), media.size)

    def _part(self) -> None:
        """Copy the columns that a topology already has, before rows are added."""
        if self._built:
            self._names = self._names.copy()
            self._devices, self._links = _copies(self._devices), _copies(self._links)
            self._costs, self._figures = _copies(self._costs), _copies(self._figures)
            self._built = False

    def _kind(self, kind: str) -> int:
        """The number of a kind. Methods that add rows call this first."""
        self._part()
        code = self._kinds.setdefault(kind, len(self._kinds))
        if code >= KINDS:
            raise InputError(
                f"kind {kind!r} is one too many: a topology has at most {KINDS} kinds of devices "
                f"and links"
            )
        return code

    def _recoded(self, words: Words) -> npt.NDArray[np.int8]:
        return np.array([self._kind(word) for word in words.vocabulary], dtype=np.int8)[words.codes]

    def _media_of_links(self, links: int) -> tuple[Ints, Ints]:
        """The media of every link as CSR: its wire, then the shared media in their order."""
        link, medium = (np.array(column, dtype=np.int32) for column in self._crossed)
        if not len(link):
            return np.arange(links + 1, dtype=np.int32), np.arange(links, dtype=np.int32)
        owner = np.concatenate((np.arange(links, dtype=np.int32), link))
        order = np.argsort(owner, kind="stable")
        indptr = np.zeros(links + 1, dtype=np.int32)
        np.cumsum(np.bincount(owner, minlength=links), out=indptr[1:])
        wires = np.arange(links, dtype=np.int32)
        return indptr, np.concatenate((wires, medium + np.int32(links)))[order]

    def _of_media(self, column: str, field: int) -> Floats:
        shared = np.array([figures[field] for figures in self._media.values()], dtype=np.float64)
        wires = np.frombuffer(self._figures[column])
        return np.concatenate((wires, shared)) if len(shared) else wires


def _copies(columns: dict[str, array[T]]) -> dict[str, array[T]]:
    return {name: array(column.typecode, column) for name, column in columns.items()}


def _extend(column: array[int] | array[float], values: npt.ArrayLike, count: int) -> None:
    """Append `count` values, one for all or one for each."""
    rows = np.ascontiguousarray(np.broadcast_to(values, count), dtype=column.typecode)
    column.frombytes(rows.view(np.uint8).data)
