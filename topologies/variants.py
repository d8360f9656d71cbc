"""Variants of a machine: its ranks on other devices, or a link that is slower than it should be."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from topologies.columns import places_in_groups
from topologies.errors import InputError, nearest_name
from topologies.topology import Ints, Topology

Order = Literal["node", "round-robin"]
ORDERS: tuple[Order, ...] = get_args(Order)
Placement = Order | tuple[int, ...]
"""An order of ranks, or the places of the first ranks."""
Places = npt.NDArray[np.intp]


def parse_placement(text: str) -> Placement:
    """A placement from text.

    >>> parse_placement("0,8,1,9")
    (0, 8, 1, 9)

    Raises InputError for other text.
    """
    if text in ORDERS:
        return ORDERS[ORDERS.index(text)]
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        raise InputError(
            f"{text[:80]!r} is no placement: write {', '.join(ORDERS)} or a list like 0,8,1,9"
        )
    return tuple(int(part) for part in text.split(","))


def placed(topology: Topology, order: Placement, ranks: int | None = None) -> Topology:
    """The topology with its ranks in another order.

    - "node" fills one node after the other, as Slurm's block distribution does.
    - "round-robin" deals the ranks out to the nodes in turn, as Slurm's cyclic distribution does.
    - (0, 8, 1, 9) are the places of the first `ranks` ranks. Places are counted node by node.

    >>> from topologies.clusters import cluster
    >>> machine = placed(cluster("dgx1", nodes=2), "round-robin")
    >>> [machine.device_names[device] for device in machine.placement[:3]]
    ['node0.gpu0', 'node1.gpu0', 'node0.gpu1']
    """
    node = topology.node[topology.placement]
    by_node = np.argsort(node, kind="stable")
    if order == "node":
        places = by_node
    elif order == "round-robin":
        places = np.lexsort((node, places_in_groups(node)))
    else:
        first = _listed(order, topology.ranks if ranks is None else ranks, topology.ranks)
        places = np.concatenate((by_node[first], np.delete(by_node, first)))
    return replace(topology, placement=topology.placement[places])


def _listed(order: tuple[int, ...], count: int, most: int) -> Places:
    right = all(0 <= place < most for place in order)
    if not right or len(order) != count or len(set(order)) != count:
        raise InputError(
            f"placement {','.join(map(str, order))[:80]!r}: name {count} different places, 0 to "
            f"{most - 1}, for {count} ranks"
        )
    return np.array(order, dtype=np.intp)


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
