"""A machine with a link that is slower than it should be."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from topologies.errors import InputError, nearest_name
from topologies.topology import Ints, Topology


def slowed(topology: Topology, link: str | int, factor: float) -> Topology:
    """The machine with `factor` times the bandwidth of some links: of a medium by name
    ("gpu3->switch"), or of all links from and to a rank ("3").

    >>> from topologies.shapes import star
    >>> machine = slowed(star(4, bandwidth=8e9), "gpu1->switch", 0.25)
    >>> machine.bandwidth[[0, 2]].tolist()
    [8000000000.0, 2000000000.0]
    """
    if not 0 < factor < inf:
        raise InputError(
            f"a slow link has {factor} times its bandwidth: a factor above 0, like 0.5"
        )
    bandwidth = topology.medium_bandwidth.copy()
    media = _of_rank(topology, link) if isinstance(link, int) else _named(topology, link)
    bandwidth[media] *= factor
    return replace(topology, medium_bandwidth=bandwidth)


def _of_rank(topology: Topology, rank: int) -> Ints:
    if not 0 <= rank < topology.ranks:
        raise InputError(
            f"slow link {rank}: there is no such rank, they run from 0 to {topology.ranks - 1}"
        )
    device = topology.placement[rank]
    return np.flatnonzero((topology.source == device) | (topology.target == device)).astype(
        np.int32
    )


def _named(topology: Topology, name: str) -> Ints:
    names = list(topology.medium_names)
    if name not in names:
        example = names[0] if names else "gpu0->switch"
        hint = nearest_name(name, names, f"name a link like {example!r}, or a rank like 3")
        raise InputError(f"slow link {name[:80]!r}: no such link: {hint}")
    return np.array([names.index(name)], dtype=np.int32)
