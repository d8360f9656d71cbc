"""Plain values (mappings, lists, text) as a machine, and every mistake in them with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

import topologies.link
from topologies.builder import KINDS, TopologyBuilder
from topologies.errors import InputError
from topologies.readers.schema import ENTRIES, Document, Head, Link, shown
from topologies.topology import Topology

Location = tuple[int | str, ...]
"""Where in a document: ("links", 3, "bandwidth")."""
Mistake = tuple[Location, str]
Place = Callable[[Location], str]
"""Says in words where a location is, the file's name first."""

_SAYINGS = {
    "missing": "is missing",
    "too_short": "is empty: at least one is needed",
    "string_type": "{} is not text: put it in quotes",
    "bool_type": "{} is not true or false",
    "int_type": "{} is not a whole number",
    "list_type": "{} is not a list",
    "model_type": "{} is not a mapping of keys to values",
}


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
        for one, other in link.ends():
            figures = topologies.link.Link(link.bandwidth, link.latency, link.gap)
            builder.link(one, other, figures, kind=link.kind, media=crossed, assumed=link.assumed)
    return builder.build(document.placement())


def validated(content: object, place: Place) -> Document:
    """The document that plain values spell. Raises InputError as :func:`read_document` does."""
    mistakes = _Mistakes()
    head = mistakes.checked(TypeAdapter(Head), content, ())
    given = content if isinstance(content, dict) else {}
    lists = {key: mistakes.entries(key, given.get(key)) for key in ENTRIES}
    mistakes.report(place)
    document = Document(head.name, head.paths, **lists)
    mistakes.add(_between(document))
    mistakes.report(place)
    return document


class _Mistakes:
    """The first mistake of a file and the number of all: of a large file there may be millions."""

    def __init__(self) -> None:
        self.first: Mistake = ((), "")
        self.number = 0

    def checked(self, adapter: TypeAdapter[Any], value: object, location: Location) -> Any:
        """What `adapter` makes of a value."""
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            if not self.number:
                wrong = error.errors(include_url=False)[0]
                self.first = (*location, *wrong["loc"]), _said(wrong, location)
            self.number += error.error_count()

    def entries(self, key: str, values: object) -> list[Any]:
        """What the entries of one list are."""
        adapter = TypeAdapter(ENTRIES[key])
        rows = values if isinstance(values, list) else []
        return [self.checked(adapter, value, (key, number)) for number, value in enumerate(rows)]

    def add(self, others: Iterator[Mistake]) -> None:
        """Count other mistakes."""
        for mistake in others:
            self.first = self.first if self.number else mistake
            self.number += 1

    def report(self, place: Place) -> None:
        """Raises InputError if there are any: where and what the first is, and how many more there
        are."""
        if self.number:
            location, message = self.first
            more = (
                f" (and {self.number - 1} more mistake{'s' * (self.number > 2)})"
                if self.number > 1
                else ""
            )
            raise InputError(f"{place(location)}: {message}{more}")


def spelt(location: Location) -> str:
    """A location in words.

    >>> spelt(("links", 3, "bandwidth")), spelt(("a key",))
    ('links[3].bandwidth', "'a key'")
    """
    keys = (f"[{key}]" if isinstance(key, int) else f".{_bare(key)}" for key in location)
    return "".join(keys).removeprefix(".")


def _bare(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_]{1,40}", key) else shown(key)


def _said(wrong: ErrorDetails, location: Location) -> str:
    """What pydantic complains of, in our words."""
    kind, value, message = wrong["type"], shown(wrong["input"]), wrong["msg"]
    if kind in _SAYINGS:
        return _SAYINGS[kind].format(value)
    if kind == "extra_forbidden":
        part = ENTRIES[str(location[0])] if location else Head
        return (
            f"no such key: there are "
            f"{', '.join(field.alias or key for key, field in part.model_fields.items())}"
        )
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    return f"{value}: {message[0].lower()}{message[1:]}"


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


def _mistakes_of(link: Link, devices: set[str], media: set[str]) -> Iterator[Mistake]:
    for key, name in (("from", link.source), ("to", link.target)):
        if name not in devices:
            yield (key,), f"{name!r} is no device"
    if link.source == link.target:
        yield (), f"a link from {link.source!r} to itself: it leads to another device"
    for number, name in enumerate(link.media):
        if name not in media:
            yield ("media", number), f"{name!r} is not among the media"


def _doubled(links: Sequence[Link]) -> Iterator[Mistake]:
    met: set[tuple[str, str]] = set()
    for number, link in enumerate(links):
        for ends in link.ends() if link.source != link.target else ():
            if ends in met:
                yield (
                    ("links", number),
                    f"a second link from {ends[0]!r} to {ends[1]!r}: one a direction is allowed",
                )
            met.add(ends)
