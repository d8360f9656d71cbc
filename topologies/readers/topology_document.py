"""Topology files: their keys and values, the machine that they describe, and a machine as such.

Mappings, lists and text with units become a machine, or a mistake with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from topologies.errors import InputError, Place, shown, spelling
from topologies.link import Link
from topologies.readers.mistakes import Mistake, Mistakes
from topologies.readers.quantities import (
    bandwidth_text,
    cost_text,
    read_bandwidth,
    read_cost,
    read_seconds,
    seconds_text,
)
from topologies.topology import Paths, Topology
from topologies.topology_builder import KINDS, TopologyBuilder

VERSION = 1
Content = dict[str, Any]

_USUAL_DEVICE: Content = {
    "node": -1,
    "merges": cost_text(0.0),
    "copies": cost_text(0.0),
    "in_network": False,
}
_USUAL_LINK: Content = {"kind": "link", "latency": "0s", "gap": "0s", "media": [], "assumed": False}


def quantity(read: Callable[[str], float]) -> BeforeValidator:
    """Reads text with a unit. Bare numbers are read as text too: the message says how to write
    them."""

    def checked(value: object) -> float:
        if isinstance(value, dict | list) or value == inf or len(str(value)) > 60:
            raise InputError(f"{shown(value)} is no quantity")
        return read(value if isinstance(value, str) else shown(value))

    return BeforeValidator(checked)


def _printable(longest: int) -> AfterValidator:
    def check(text: str) -> str:
        if not text.isprintable() or text != text.strip() or not 0 < len(text) <= longest:
            rule = f"write 1 to {longest} printable characters without blanks at the ends"
            raise InputError(f"{shown(text)} has {len(text)} characters: {rule}")
        return text

    return AfterValidator(check)


def _known_version(version: int) -> int:
    if version != VERSION:
        raise InputError(
            f"version {shown(version)} is not known: this program reads version {VERSION}"
        )
    return version


Name = Annotated[str, _printable(200)]
Note = Annotated[str, _printable(2000)]
Bandwidth = Annotated[float, quantity(read_bandwidth)]
Seconds = Annotated[float, quantity(read_seconds)]
Cost = Annotated[float, quantity(read_cost)]


class Part(BaseModel):
    """A mapping. A key that is not a field is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DevicePart(Part):
    """A device."""

    name: Name
    kind: Name = "gpu"
    node: Annotated[int, Field(ge=0, lt=2**31)] = -1
    merges: Cost = 0.0
    """Seconds a byte; a bandwidth in the file."""
    copies: Cost = 0.0
    """Seconds a byte; a bandwidth in the file."""
    in_network: bool = False
    """Whether a switch reduces and multicasts."""


class MediumPart(Part):
    """A medium that links share."""

    name: Name
    bandwidth: Bandwidth
    gap: Seconds = 0.0


class LinkPart(Part):
    """A directed link, or `both` directions of one."""

    source: Name = Field(alias="from")
    target: Name = Field(alias="to")
    kind: Name = "link"
    bandwidth: Bandwidth
    latency: Seconds = 0.0
    gap: Seconds = 0.0
    media: list[Name] = []
    assumed: bool = False
    both: bool = False

    @property
    def link(self) -> Link:
        """What a message costs on it."""
        return Link(self.bandwidth, self.latency, self.gap)

    def ends(self) -> list[tuple[str, str]]:
        """The source and target of each direction."""
        return [(self.source, self.target), (self.target, self.source)][: 1 + self.both]


class Document(Part):
    """A whole file; the entries of its lists are checked one by one."""

    simctl_topology: Annotated[int, AfterValidator(_known_version)]
    name: Name
    paths: Paths = "first"
    notes: list[Any] = []
    ranks: Annotated[list[Any], Field(min_length=1)] = []
    devices: Annotated[list[Any], Field(min_length=1)]
    media: list[Any] = []
    links: list[Any] = []

    def placement(self) -> list[str]:
        """The device of every rank: without `ranks` every GPU has one, or else every device."""
        gpus = [device.name for device in self.devices if device.kind == "gpu"]
        return self.ranks or gpus or [device.name for device in self.devices]


def read_document(content: object, place: Place) -> Topology:
    """The machine that plain values describe. Raises InputError with the first mistake and how many
    more there are."""
    document = validated(content, place)
    builder = TopologyBuilder(document.name, paths=document.paths)
    builder.notes += document.notes
    for device in document.devices:
        builder.device(
            device.name,
            device.kind,
            reduction=device.merges,
            copy=device.copies,
            node=device.node,
            in_network=device.in_network,
        )
    media = {
        medium.name: builder.medium(medium.name, medium.bandwidth, medium.gap)
        for medium in document.media
    }
    for link in document.links:
        crossed = [media[name] for name in link.media]
        for source, target in link.ends():
            builder.link(
                source, target, link.link, kind=link.kind, media=crossed, assumed=link.assumed
            )
    return builder.build(document.placement())


def validated(content: object, place: Place) -> Document:
    """The document that plain values spell. Raises InputError as :func:`read_document` does."""
    mistakes = Mistakes()
    document: Document = mistakes.checked(Document, content)
    values = content if isinstance(content, dict) else {}
    parts = {"devices": DevicePart, "media": MediumPart, "links": LinkPart}
    kinds = {"notes": Note, "ranks": Name, **parts}
    lists = {key: mistakes.entries(kind, values.get(key), key) for key, kind in kinds.items()}
    mistakes.report(place)
    document = document.model_copy(update=lists)
    mistakes.add(_between(document))
    mistakes.report(place)
    return document


def _between(document: Document) -> Iterator[Mistake]:
    """What is wrong between parts that are right by themselves."""
    devices = {device.name for device in document.devices}
    for number, name in enumerate(document.ranks):
        if name not in devices:
            yield ("ranks", number), f"{name!r} is no device"
    yield from _repeated("devices", [device.name for device in document.devices])
    yield from _repeated("media", [medium.name for medium in document.media])
    media = {medium.name for medium in document.media}
    for number, link in enumerate(document.links):
        for keys, message in _mistakes_of(link, devices, media):
            yield ("links", number, *keys), message
    yield from _doubled(document.links)
    kinds = {device.kind for device in document.devices} | {link.kind for link in document.links}
    if len(kinds) > KINDS:
        yield (
            (),
            f"there are {len(kinds)} kinds of devices and links: at most {KINDS} are told apart",
        )


def _repeated(key: str, names: Sequence[str]) -> Iterator[Mistake]:
    met: set[str] = set()
    for number, name in enumerate(names):
        if name in met:
            yield (key, number, "name"), f"{name!r} is there twice: names are unique"
        met.add(name)


def _mistakes_of(link: LinkPart, devices: set[str], media: set[str]) -> Iterator[Mistake]:
    for key, name in (("from", link.source), ("to", link.target)):
        if name not in devices:
            yield (key,), f"{name!r} is no device"
    if link.source == link.target:
        yield (), f"a link from {link.source!r} to itself: it leads to another device"
    for number, name in enumerate(link.media):
        if name not in media:
            yield ("media", number), f"{name!r} is not among the media"


def _doubled(links: Sequence[LinkPart]) -> Iterator[Mistake]:
    met: set[tuple[str, str]] = set()
    for number, link in enumerate(links):
        for ends in link.ends() if link.source != link.target else ():
            if ends in met:
                yield (
                    ("links", number),
                    f"a second link from {ends[0]!r} to {ends[1]!r}: one a direction is allowed",
                )
            met.add(ends)


def describe(topology: Topology) -> Content:
    """All columns of a machine, to the bit; what is as usual is left out.

    Raises InputError when no file can hold it: a name is not printable, a figure is out of range,
    it has no ranks.
    """
    if not topology.ranks:
        raise InputError(f"{shown(topology.name)} has no ranks: a file needs at least one")
    names, links = topology.device_names, topology.links
    bandwidth = list(map(bandwidth_text, topology.medium_bandwidth.tolist()))
    gap = list(map(seconds_text, topology.medium_gap.tolist()))
    media = [*[""] * links, *topology.shared_names]
    crossed = [media[medium] for medium in topology.link_media.tolist()]
    bounds = pairwise(topology.link_indptr.tolist())
    devices = {
        "name": names,
        "kind": topology.device_kinds,
        "node": topology.node.tolist(),
        "merges": map(cost_text, topology.reduction.tolist()),
        "copies": map(cost_text, topology.copy.tolist()),
        "in_network": topology.in_network.tolist(),
    }
    arrows = {
        "from": [names[device] for device in topology.source.tolist()],
        "to": [names[device] for device in topology.target.tolist()],
        "kind": topology.link_kinds,
        "bandwidth": bandwidth[:links],
        "latency": map(seconds_text, topology.latency.tolist()),
        "gap": gap[:links],
        "media": [crossed[first + 1 : end] for first, end in bounds],
        "assumed": topology.assumed.tolist(),
    }
    shared = {"name": topology.shared_names, "bandwidth": bandwidth[links:], "gap": gap[links:]}
    lists = {
        "notes": list(topology.notes),
        "ranks": [names[device] for device in topology.placement.tolist()],
        "devices": _rows(devices, _USUAL_DEVICE),
        "media": _rows(shared, _USUAL_LINK),
        "links": _paired(_rows(arrows, _USUAL_LINK)),
    }
    paths = {} if topology.paths == "first" else {"paths": topology.paths}
    content: Content = {"simctl_topology": VERSION, "name": topology.name, **paths}
    content |= {key: values for key, values in lists.items() if values}
    validated(content, lambda location: f"{shown(topology.name)}, {spelling(location)}")
    return content


def _rows(columns: Mapping[str, Iterable[object]], usual: Content) -> list[Content]:
    rows = (zip(columns, row, strict=True) for row in zip(*columns.values(), strict=True))
    return [
        {key: value for key, value in row if key not in usual or usual[key] != value}
        for row in rows
    ]


def _paired(links: list[Content]) -> list[Content]:
    """The links with each two neighbours that are one another's way back, and else alike, as
    one."""
    rows: list[Content] = []
    for link in links:
        if rows and rows[-1] == link | {"from": link["to"], "to": link["from"]}:
            rows[-1] = rows[-1] | {"both": True}
        else:
            rows.append(link)
    return rows
