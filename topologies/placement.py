"""Which rank runs on which device: the order of a topology's placement, changed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from topologies.errors import InputError
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
        places = _dealt(node, by_node)
    else:
        first = _listed(order, topology.ranks if ranks is None else ranks, topology.ranks)
        places = np.concatenate((by_node[first], np.delete(by_node, first)))
    return replace(topology, placement=topology.placement[places])


def _dealt(node: Ints, by_node: Places) -> Places:
    """Ranks by their number within the node, then by node."""
    number = np.empty(len(node), dtype=np.intp)
    number[by_node] = np.arange(len(node)) - np.searchsorted(node[by_node], node[by_node])
    return np.lexsort((node, number))


def _listed(order: tuple[int, ...], count: int, most: int) -> Places:
    right = all(0 <= place < most for place in order)
    if not right or len(order) != count or len(set(order)) != count:
        raise InputError(
            f"placement {','.join(map(str, order))[:80]!r}: name {count} different places, 0 to "
            f"{most - 1}, for {count} ranks"
        )
    return np.array(order, dtype=np.intp)
