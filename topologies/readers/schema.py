"""The keys of topology files and their values."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from topologies.errors import InputError, shown
from topologies.link import Link
from topologies.readers.quantities import read_bandwidth, read_cost, read_seconds
from topologies.topology import Paths

VERSION = 1
LONGEST_NAME = 200
LONGEST_NOTE = 2000
_LONGEST_QUANTITY = 60


def quantity(read: Callable[[str], float]) -> BeforeValidator:
    """Reads text with a unit. Bare numbers are read as text too: the message says how to write
    them."""

    def checked(value: object) -> float:
        if isinstance(value, dict | list) or value == inf or len(str(value)) > _LONGEST_QUANTITY:
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


Name = Annotated[str, _printable(LONGEST_NAME)]
Note = Annotated[str, _printable(LONGEST_NOTE)]
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


class HeadPart(Part):
    """A whole file, without checks of the entries of its lists."""

    simctl_topology: Annotated[int, AfterValidator(_known_version)]
    name: Name
    paths: Paths = "first"
    notes: list[Any] = []
    ranks: Annotated[list[Any], Field(min_length=1)] = []
    devices: Annotated[list[Any], Field(min_length=1)]
    media: list[Any] = []
    links: list[Any] = []


ENTRIES: dict[str, type[Part] | Any] = {
    "notes": Note,
    "ranks": Name,
    "devices": DevicePart,
    "media": MediumPart,
    "links": LinkPart,
}
"""The type of the entries of each list."""


class Document(NamedTuple):
    """A whole file with checked entries."""

    name: str
    paths: Paths
    notes: list[str]
    ranks: list[str]
    devices: list[DevicePart]
    media: list[MediumPart]
    links: list[LinkPart]

    def placement(self) -> list[str]:
        """The device of every rank: without `ranks` every GPU has one, or else every device."""
        gpus = [device.name for device in self.devices if device.kind == "gpu"]
        return self.ranks or gpus or [device.name for device in self.devices]
