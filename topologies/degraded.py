"""A machine with a link that is slower than it should be."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from topologies.errors import InputError, did_you_mean
from topologies.topology import Ints, Topology


def slowed(topology: Topology, what: str, factor: float) -> Topology:
    """The machine in which a medium by name ("gpu3->switch"), or every link from and to a rank
    ("3"), has `factor` times its bandwidth.

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
    bandwidth[
        _of_rank(topology, what) if what.isascii() and what.isdecimal() else _named(topology, what)
    ] *= factor
    return replace(topology, medium_bandwidth=bandwidth)


def _of_rank(topology: Topology, text: str) -> Ints:
    rank = int(text[:9])
    if rank >= topology.ranks:
        raise InputError(
            f"slow link {text[:40]}: there is no such rank, they run from 0 to {topology.ranks - 1}"
        )
    device = topology.placement[rank]
    return np.flatnonzero((topology.source == device) | (topology.target == device)).astype(
        np.int32
    )


def _named(topology: Topology, name: str) -> Ints:
    names = list(topology.medium_names)
    if name not in names:
        hint = did_you_mean(name, names)
        raise InputError(
            f"slow link {name[:80]!r}: there is none of that name: {hint}(or give a rank, like 3)"
        )
    return np.array([names.index(name)], dtype=np.int32)
