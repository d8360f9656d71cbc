"""Checks of all readers: a file is text of a sane size, and its ranks can reach each other."""

from __future__ import annotations

import re

from topologies.errors import InputError
from topologies.topology import Topology

LIMIT = 16 * 2**20
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_text(text: str, name: str) -> str:
    """The text of the file `name` without a byte order mark.

    Raises InputError when it is blank, holds control characters or has more than 16 Mi characters.
    """
    if len(text) > LIMIT:
        raise InputError(f"{name} is larger than 16 MiB")
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"{name} is empty: it describes nothing")
    if strange := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, strange.start()) + 1
        raise InputError(
            f"{name} line {line}: the character {strange[0]!r} is not text: expected UTF-8"
        )
    return text


def check_connected(topology: Topology, name: str) -> None:
    """Raise InputError if two ranks of the machine in the file `name` have no route: it names
    both."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    devices = len(topology.device_names)
    links = topology.source != topology.target
    graph = csr_array((links, (topology.source, topology.target)), shape=(devices, devices))
    component = connected_components(graph, connection="strong")[1][topology.placement]
    if (component == component[:1]).all():
        return
    placement = topology.placement
    rank = int((component != component[0]).argmax())
    reachable = breadth_first_order(graph, placement[0], return_predecessors=False)
    ends = (rank, 0) if placement[rank] in reachable else (0, rank)
    start, end = (f"rank {end} ({topology.device_names[placement[end]]})" for end in ends)
    raise InputError(f"{name}: no route from {start} to {end}: connect them")
