"""Two binary trees over the nodes, each for half of V. An inner node of one tree is a leaf of the
other.

After Sanders, Speck, Träff, Two-tree algorithms, Parallel Computing 35, 2009. NCCL calls it Tree.
Inside a node the ranks form a chain, whose first rank is in both trees.
"""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, Fitted, declare
from simulator.cost_models import trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.columns import distinct_rows, places_in_groups
from topologies.errors import InputError
from topologies.topology import Longs, Topology

PIECES = 32
"""Pieces of each half of V."""


def fit(topology: Topology, ranks: int, nbytes: float, *, segments: int = PIECES) -> Fitted:
    """The trees over the nodes of a machine, in the order of their first ranks.

    There is a channel for each NIC of a node, but at most one for each of its ranks. A device that
    is in no node counts as a node.
    """
    node = _nodes(topology, ranks)
    sizes = np.bincount(node)
    nics = np.count_nonzero(
        topology.device_kinds.are("nic") & (topology.node == topology.node[topology.placement[0]])
    )
    channels = max(1, min(int(sizes.min()), int(nics)))
    cost = trees.double_tree(segments, int(_ranked(node, channels)[1].max()), channels)
    words = (
        f"{channels} channels, two trees of {len(sizes)} nodes each, chains of {sizes.max()} ranks"
    )
    return Fitted(_all_reduce(node, nbytes, channels, segments), topology, cost, (words,))


@declare(
    "double_tree",
    ALL_REDUCE,
    trees.double_tree,
    fit=fit,
    operations=lambda ranks: 4.0 * PIECES * (ranks - 1),
)
def double_tree_all_reduce(
    ranks: int, nbytes: float, per_node: int = 1, channels: int = 1, *, segments: int = PIECES
) -> Schedule:
    """Two binary trees over the nodes, each for half of V, in pieces. Each tree reduces its half to
    its root and broadcasts it from there, in `segments` that do not wait for each other.

    Nodes have `per_node` consecutive ranks each; the last may have fewer. Each of the `channels`
    has an equal share of V and two trees for it. Channel c begins its chains with the c-th rank of
    each node. Raises InputError if one of these numbers is below 1.

    >>> double_tree_all_reduce(4, 4096.0).sent().tolist()
    [4096.0, 8192.0, 8192.0, 4096.0]
    """
    for name, value in (("per_node", per_node), ("channels", channels), ("segments", segments)):
        if value < 1:
            raise InputError(f"{name} is {value}: 1 or more")
    return _all_reduce(np.arange(ranks) // per_node, nbytes, channels, segments)


def _all_reduce(node: Longs, nbytes: float, channels: int, segments: int) -> Schedule:
    """Over ranks of which `node` says the number of the node, shape (ranks,).

    The pieces are written one after the other. Of two pieces that are ready at the same time, the
    earlier goes first, up or down.
    """
    piece = ScheduleBuilder(len(node), nbytes / segments, slots=2 * channels, phase="reduce")
    parent, depth = _ranked(node, channels)
    joins = [np.nonzero(depth == level) for level in range(1, int(depth.max()) + 1)]
    for tree, child in reversed(joins):
        piece.reduce(child, parent[tree, child], slot=tree, channel=tree // 2)
    piece.phase("broadcast")
    for tree, child in joins:
        piece.copy(parent[tree, child], child, slot=tree, channel=tree // 2)
    written, whole = piece.build(), ScheduleBuilder(len(node), nbytes, slots=len(parent) * segments)
    for number in range(segments):
        whole.inline(written, slot=len(parent) * number)
    return whole.build()


def _ranked(node: Longs, channels: int) -> tuple[Longs, Longs]:
    """Parent (-1: none) and depth of every rank in the two trees of every channel, shape (2 *
    channels, ranks)."""
    order, size = np.argsort(node, kind="stable"), np.bincount(node)
    first = np.cumsum(size) - size
    place = places_in_groups(node)
    before = order[first[node] + (place - 1) % size[node]]
    above = np.tile(two_trees(len(size)), (channels, 1))
    channel = np.arange(2 * channels)[:, None] // 2
    head = order[first + channel % size]
    joined = np.where(above < 0, -1, np.take_along_axis(head, np.maximum(above, 0), axis=1))
    behind = (place - channel) % size[node]
    return np.where(behind > 0, before, joined[:, node]), depths(above)[:, node] + behind


def two_trees(nodes: int) -> Longs:
    """The parent (-1: none) of every node in the two trees, shape (2, nodes).

    In the first tree the odd nodes are leaves, and node 0 is the root. For an even number of nodes
    the second tree is the first in reverse order, and so the even nodes are leaves. For an odd
    number it is the first moved by one. Then node 0 alone has children in both trees.

    >>> two_trees(6).tolist()
    [[-1, 2, 4, 2, 0, 4], [1, 5, 3, 1, 3, -1]]
    """
    node = np.arange(nodes)
    lowest = node & -node
    up = (node ^ lowest) | (lowest << 1)
    first = np.where(up < nodes, up, node ^ lowest)
    first[0] = -1
    if nodes % 2:
        return np.stack((first, np.roll(np.where(first < 0, -1, (first + 1) % nodes), 1)))
    return np.stack((first, np.where(first < 0, -1, nodes - 1 - first)[::-1]))


def depths(above: Longs) -> Longs:
    """Steps to the root of every node in both trees, shape (2, nodes)."""
    depth, ancestor = np.zeros_like(above), above
    while (ancestor >= 0).any():
        depth += ancestor >= 0
        ancestor = np.where(
            ancestor < 0, -1, np.take_along_axis(above, np.maximum(ancestor, 0), axis=1)
        )
    return depth


def _nodes(topology: Topology, ranks: int) -> Longs:
    device = topology.placement[:ranks].astype(np.int64)
    number = topology.node[device]
    label = np.where(number < 0, len(topology.node) + device, number)
    return distinct_rows(label, met=True)[1]
