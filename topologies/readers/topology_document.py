"""Plain values (mappings, lists, text) as a machine, and every mistake in them with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topologies.readers.mistakes import Mistake, Mistakes, Place
from topologies.readers.schema import ENTRIES, Document, HeadPart, LinkPart
from topologies.topology import Topology
from topologies.topology_builder import KINDS, TopologyBuilder


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
    head = mistakes.checked(HeadPart, content)
    values = content if isinstance(content, dict) else {}
    lists = {key: mistakes.entries(kind, values.get(key), key) for key, kind in ENTRIES.items()}
    mistakes.report(place)
    document = Document(head.name, head.paths, **lists)
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
