"""Whether a machine fits into memory, before it is built."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

from topologies.errors import InputError
from topologies.resources import Need, check
from topologies.topology import Topology

FEW = 1024
"""Ranks or nodes of a machine that fits into any memory."""
SMALL = 32, 64
"""Ranks or nodes of machines that tell how many links a larger one has."""
LINK = Need(3e-7, 160.0)
"""To build a link, and to hold it."""


def check_machine(subject: str, make: Callable[[int], Topology], number: int) -> None:
    """Raise InputError if a machine of so many ranks or nodes, `make(number)`, is too large: its
    links are those of small machines, extended as a power."""
    if number <= FEW:
        return
    try:
        few, many = (make(small).links for small in SMALL)
    except InputError:
        return  # small machines do not have these options
    links = many * (number / SMALL[1]) ** (log2(many / few) / log2(SMALL[1] / SMALL[0]))
    check(subject, Need(links * LINK.seconds, links * LINK.nbytes), "take fewer")
