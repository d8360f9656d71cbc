"""The ranks of a node of a machine, and their order in a schedule."""

import numpy as np

from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.whole_numbers import Column
from topologies.topology import Topology


def ranks_of_a_node(topology: Topology, ranks: int) -> int:
    """How many ranks the first node has; 1 where ranks are in none."""
    node = topology.node[topology.placement[:ranks]]
    return 1 if node[0] < 0 else max(1, int(np.argmax(np.append(node != node[0], True))))


def ranks_of_each_node(topology: Topology, ranks: int) -> int:
    """How many ranks in a row each node has; 1 if not all nodes have as many.

    >>> from topologies.shapes import nodes
    >>> [ranks_of_each_node(nodes(8, per_node=4, bandwidth=1e9), ranks) for ranks in (8, 6)]
    [4, 1]
    """
    size = ranks_of_a_node(topology, ranks)
    if ranks % size:
        return 1
    blocks = topology.node[topology.placement[:ranks]].reshape(-1, size)
    nodes = blocks[:, 0]
    alike = (blocks == nodes[:, None]).all() and len(np.unique(nodes)) == len(nodes)
    return size if alike else 1


def by_place(builder: ScheduleBuilder, per_node: int) -> Column:
    """The ranks to write operations for, a row for each place in a node of `per_node` ranks.

    Operations that arrive at the same time are served in the order of their numbers. In the order
    of ranks, of two that send to a node, the one on the lower node is first: for most nodes that is
    the node before, but not for the last. With a row a step (`steps`) places come first, and shifts
    of nodes keep the order. Raises NotSymmetric for other shifts.
    """
    ranks = builder.each()
    if builder.shifts is not None and per_node > 1:
        rank = np.arange(builder.ranks)
        if ((builder.shifts.folded(rank) - rank) % per_node).any():
            raise NotSymmetric("ranks are shifted to other places of a node")
    return ranks.reshape(-1, per_node).T
