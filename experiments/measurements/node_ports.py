"""The network ports of a node, as an index of measured runs describes them."""

from __future__ import annotations

import re
from typing import NamedTuple

_GENERATIONS = {
    "EDR": 12.5,
    "HDR100": 12.5,
    "HDR200": 25.0,
    "HDR": 25.0,
    "NDR200": 25.0,
    "NDR": 50.0,
    "XDR": 100.0,
}
"""GB/s of a port of each InfiniBand generation, in one direction."""
_SPEED = re.compile(
    r"\b(?:(EDR|HDR100|HDR200|HDR|NDR200|NDR|XDR)\b|([0-9]{1,4}) ?Gb(?:/s|E)|([0-9.]{1,6}) GB/s "
    r"per link)"
)


class Ports(NamedTuple):
    """The network ports of a node."""

    name: str
    """The InfiniBand generation, or the speed in words."""
    bandwidth: float
    """Bytes/s of one port in one direction."""
    number: int | None = 1
    """Ports of a node; None for one port per GPU."""


def parse_ports(description: str) -> Ports | None:
    """The ports that a description of the network names, or None without a speed.

    >>> parse_ports("4x NDR200 InfiniBand per node")
    Ports(name='NDR200', bandwidth=25000000000.0, number=4)
    >>> parse_ports("Slingshot-11, 200 Gb/s per GPU").number is None
    True
    """
    speed = _SPEED.search(description)
    if speed is None:
        return None
    generation, gigabits, gigabytes = speed.groups()
    if generation:
        name, bandwidth = generation, _GENERATIONS[generation]
    elif gigabits:
        name, bandwidth = f"{gigabits} Gbit/s", int(gigabits) / 8
    else:
        name, bandwidth = "link", float(gigabytes)
    return Ports(name, 1e9 * bandwidth, _number(description))


def _number(description: str) -> int | None:
    if number := re.search(r"\b([0-9]{1,2})(?:x | per node)", description):
        return int(number[1])
    return None if "per GPU" in description else 1
