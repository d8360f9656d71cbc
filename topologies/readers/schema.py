"""The keys of our own files and what each may hold."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from topologies.errors import InputError
from topologies.readers.mistakes import shown
from topologies.readers.quantities import read_bandwidth, read_cost, read_seconds
from topologies.topology import Paths

VERSION = 1
LONGEST_NAME = 200
LONGEST_NOTE = 2000
_LONGEST_QUANTITY = 60


def _quantity(read: Callable[[str], float]) -> BeforeValidator:
    """Reads text with a unit. Bare numbers go the same way, for its message says how they are
    written."""

    def value(given: object) -> float:
        if isinstance(given, dict | list) or given == inf or len(str(given)) > _LONGEST_QUANTITY:
            raise InputError(f"{shown(given)} is no quantity")
        return read(given if isinstance(given, str) else shown(given))

    return BeforeValidator(value)


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
Bandwidth = Annotated[float, _quantity(read_bandwidth)]
Seconds = Annotated[float, _quantity(read_seconds)]
Cost = Annotated[float, _quantity(read_cost)]


class Part(BaseModel):
    """A mapping that has no other keys than these."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Device(Part):
    """A device; `merges` and `copies` are bandwidths in the file and seconds a byte here."""

    name: Name
    kind: Name = "gpu"
    node: Annotated[int, Field(ge=0, lt=2**31)] = -1
    merges: Cost = 0.0
    copies: Cost = 0.0
    in_network: bool = False


class Medium(Part):
    """A medium that links share."""

    name: Name
    bandwidth: Bandwidth
    gap: Seconds = 0.0


class Link(Part):
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

    def ends(self) -> list[tuple[str, str]]:
        """From and to of the link, and with `both` those of the way back."""
        return [(self.source, self.target), (self.target, self.source)][: 1 + self.both]


class Head(Part):
    """A whole file, what its lists hold apart."""

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
    "devices": Device,
    "media": Medium,
    "links": Link,
}
"""What the lists hold."""


class Document(NamedTuple):
    """A whole file. Without `ranks` there is one on every GPU, or if there is none on every
    device."""

    name: str
    paths: Paths
    notes: list[str]
    ranks: list[str]
    devices: list[Device]
    media: list[Medium]
    links: list[Link]

    def placement(self) -> list[str]:
        """The device of every rank."""
        gpus = [device.name for device in self.devices if device.kind == "gpu"]
        return self.ranks or gpus or [device.name for device in self.devices]
