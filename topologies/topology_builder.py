"""Collects devices, links and media, one at a time or as columns, and builds a topology.

:class:`topologies.topology.Topology` checks what is built: its figures and its ends.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.columns import DeviceNames, Numbered, Words, starts
from topologies.errors import InputError
from topologies.link import Link
from topologies.topology import Floats, Ints, Paths, Topology

KINDS = 127
Columns = dict[str, "array[Any]"]


class TopologyBuilder:
    """Collects devices, media and links, and builds a :class:`topologies.topology.Topology`."""

    def __init__(self, name: str, *, paths: Paths = "first") -> None:
        self.name, self.paths = name, paths
        self._names = DeviceNames()
        self._devices = _columns(kind="b", node="i", in_network="b", reduction="d", copy="d")
        self._links = _columns(
            source="i", target="i", kind="b", assumed="b", bandwidth="d", latency="d", gap="d"
        )
        self._crossed = _columns(link="i", medium="i")
        self._media: dict[str, tuple[float, float]] = {}
        self._kinds: dict[str, int] = {}
        self.notes: list[str] = []
        self._built = False

    def __len__(self) -> int:
        return len(self._names)

    def count(self, kind: str) -> int:
        """The number of devices of a kind."""
        return self._devices["kind"].count(self._kinds.get(kind, -1))

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
        reduction: npt.ArrayLike = 0.0,
        copy: npt.ArrayLike = 0.0,
        node: npt.ArrayLike = -1,
        in_network: npt.ArrayLike = False,
    ) -> Ints:
        """Add devices of a kind; each figure is one for all or one for each. Returns their
        numbers."""
        row = {"kind": self._kind(kind), "node": node, "in_network": in_network}
        return self._add_devices(names, row | {"reduction": reduction, "copy": copy})

    def medium(self, name: str, bandwidth: float, gap: float = 0.0) -> int:
        """Add a shared medium (a bus, a port) of `bandwidth` bytes/s and `gap` seconds a
        message."""
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
        numbers = self._names.numbers()
        for end in (source, target):
            if end not in numbers:
                raise InputError(
                    f"link {source}->{target} ends at {end!r}: there is no such device"
                )
        media = list(media)
        for medium in media:
            if not 0 <= medium < len(self._media):
                raise InputError(
                    f"link {source}->{target} crosses medium {medium}: there are "
                    f"{len(self._media)}, add them first"
                )
        code = self._kind(kind)
        self._crossed["link"].extend([len(self._links["source"])] * len(media))
        self._crossed["medium"].extend(media)
        ends = numbers[source], numbers[target]
        row = (*ends, code, assumed, link.bandwidth, link.latency, link.gap)
        # Files have links by the thousand: to append is ten times as fast as an array of one.
        for column, value in zip(self._links.values(), row, strict=True):
            column.append(value)

    def connect(
        self, first: str, other: str, link: Link, *, kind: str = "link", assumed: bool = False
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
        both = np.repeat(cables, 2) if np.size(cables) > 1 else cables
        ways = ends.ravel(), ends[:, ::-1].ravel()
        self.arrows(*ways, link, cables=both, kind=kind, assumed=assumed)

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
        source, target = map(np.ravel, np.broadcast_arrays(sources, targets))
        first, count = len(self._links["source"]), len(source)
        row: dict[str, npt.ArrayLike] = {
            "source": source,
            "target": target,
            "kind": self._kind(kind),
            "assumed": assumed,
            "bandwidth": link.bandwidth * np.ravel(cables),
            "latency": link.latency,
            "gap": link.gap,
        }
        _extend(self._links, row, count)
        if count and np.size(media):
            crossed = np.reshape(media, (count, -1))
            owner = np.repeat(np.arange(first, first + count), crossed.shape[1])
            _extend(self._crossed, {"link": owner, "medium": crossed.ravel()}, crossed.size)

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
        row: dict[str, npt.ArrayLike] = {
            "kind": np.tile(self._recoded(part.device_kinds), count),
            "node": np.repeat(np.arange(count), devices),
        }
        for column in ("in_network", "reduction", "copy"):
            row[column] = np.tile(getattr(part, column), count)
        starts = np.int32(len(self)) + devices * np.arange(count, dtype=np.int32)
        self._add_devices(Numbered(count * devices, *ends) if ends else (), row)
        link_row: dict[str, npt.ArrayLike] = {
            "source": np.add.outer(starts, part.source).ravel(),
            "target": np.add.outer(starts, part.target).ravel(),
            "kind": np.tile(self._recoded(part.link_kinds), count),
            "assumed": np.tile(part.assumed, count),
            "bandwidth": np.tile(part.medium_bandwidth, count),
            "latency": np.tile(part.latency, count),
            "gap": np.tile(part.medium_gap, count),
        }
        _extend(self._links, link_row, count * part.links)
        return starts

    def build(self, placement: Sequence[str] | Ints) -> Topology:
        """The topology, with rank r on the device `placement[r]`, a name or a number.

        The topology takes the builder's columns. Later additions go into copies of them.
        """
        self._built = True
        if not isinstance(placement, np.ndarray):
            numbers = self._names.numbers()
            for rank, name in enumerate(placement):
                if name not in numbers:
                    raise InputError(f"rank {rank} is placed on {name!r}: no such device")
            placement = np.array([numbers[name] for name in placement], dtype=np.int32)
        kinds = tuple(self._kinds)
        devices, links = (
            {name: np.frombuffer(column, column.typecode) for name, column in columns.items()}
            for columns in (self._devices, self._links)
        )
        indptr, media = self._media_of_links(len(links["source"]))
        shared = np.array([*self._media.values()], dtype=np.float64).reshape(-1, 2).T
        return Topology(
            name=self.name,
            device_names=self._names,
            device_kinds=Words(devices["kind"], kinds),
            node=devices["node"],
            reduction=devices["reduction"],
            copy=devices["copy"],
            in_network=devices["in_network"].view(np.bool_),
            placement=placement,
            source=links["source"],
            target=links["target"],
            latency=links["latency"],
            link_kinds=Words(links["kind"], kinds),
            assumed=links["assumed"].view(np.bool_),
            link_indptr=indptr,
            link_media=media,
            shared_names=tuple(self._media),
            medium_bandwidth=_followed(links["bandwidth"], shared[0]),
            medium_gap=_followed(links["gap"], shared[1]),
            paths=self.paths,
            notes=tuple(self.notes),
        )

    def _add_devices(self, names: Sequence[str], row: Mapping[str, npt.ArrayLike]) -> Ints:
        self._part()
        first = len(self._names)
        self._names.add(names)
        _extend(self._devices, row, len(names))
        return np.arange(first, first + len(names), dtype=np.int32)

    def _part(self) -> None:
        """Copy the columns that a topology already has, before rows are added."""
        if self._built:
            self._names = self._names.copy()
            for columns in (self._devices, self._links):
                columns.update({name: column[:] for name, column in columns.items()})
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
        wires = np.arange(links, dtype=np.int32)
        link, medium = (np.array(column, dtype=np.int32) for column in self._crossed.values())
        if not len(link):
            return np.arange(links + 1, dtype=np.int32), wires
        owner = np.concatenate((wires, link))
        order = np.argsort(owner, kind="stable")
        crossed = np.concatenate((wires, medium + np.int32(links)))[order]
        return starts(np.bincount(owner)), crossed


def _columns(**typecodes: str) -> Columns:
    return {name: array(typecode) for name, typecode in typecodes.items()}


def _followed(wires: Floats, shared: Floats) -> Floats:
    """The figures of wires, and then those of shared media. Columns without the latter stay the
    builder's, which saves a copy."""
    return np.concatenate((wires, shared)) if len(shared) else wires


def _extend(columns: Columns, row: Mapping[str, npt.ArrayLike], count: int) -> None:
    for name, column in columns.items():
        values = np.broadcast_to(row[name], count).astype(column.typecode, copy=False)
        column.frombytes(np.ascontiguousarray(values).view(np.uint8).data)
