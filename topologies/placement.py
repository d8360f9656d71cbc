"""Which rank runs on which device: the order of a topology's placement, changed."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from topologies.errors import InputError
from topologies.topology import Ints, Topology

ORDERS = ("node", "round-robin")
Places = npt.NDArray[np.intp]


def placed(topology: Topology, order: str, ranks: int | None = None) -> Topology:
    """The topology with its ranks in another order.

    "node" fills one node after the other, "round-robin" deals the ranks out to the nodes in turn,
    as Slurm's block and cyclic distributions do; "0,8,1,9" lists the places that the first `ranks`
    ranks get, counted by node.

    >>> from topologies.clusters import cluster
    >>> machine = placed(cluster("dgx1", nodes=2), "round-robin")
    >>> [machine.device_names[device] for device in machine.placement[:3]]
    ['node0.gpu0', 'node1.gpu0', 'node0.gpu1']
    """
    node = topology.node[topology.placement]
    by_node = np.argsort(node, kind="stable")
    if order == "node":
        chosen = by_node
    elif order == "round-robin":
        chosen = _dealt(node, by_node)
    else:
        places = _listed(order, topology.ranks if ranks is None else ranks, topology.ranks)
        chosen = np.concatenate((by_node[places], np.delete(by_node, places)))
    return replace(topology, placement=topology.placement[chosen])


def _dealt(node: Ints, by_node: Places) -> Places:
    """Ranks by their number within the node, then by node."""
    number = np.empty(len(node), dtype=np.intp)
    number[by_node] = np.arange(len(node)) - np.searchsorted(node[by_node], node[by_node])
    return np.lexsort((node, number))


def _listed(text: str, count: int, most: int) -> Places:
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        raise InputError(
            f"{text[:80]!r} is no placement: write {', '.join(ORDERS)} or a list like 0,8,1,9"
        )
    places = np.array([int(part) for part in text.split(",")], dtype=np.intp)
    if len(places) != count or len(set(places.tolist())) != count or places.max() >= most:
        raise InputError(
            f"placement {text[:80]!r}: name {count} different places, 0 to {most - 1}, for "
            f"{count} ranks"
        )
    return places
