"""Chunks of V and their parts, the ranks of a node of a machine, and their order in a schedule."""

from __future__ import annotations

import numpy as np

from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold
from topologies.errors import InputError
from topologies.topology import Numbers, Topology


def chunked(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None,
    parts: int = 1,
    *,
    inboxes: bool = False,
    scratch: int = 0,
    phase: str = "transfer",
) -> ScheduleBuilder:
    """A builder for chunks of so many parts; chunk c of rank r is chunk c + k of rank r + k.

    With `inboxes` there is scratch for a chunk of each rank; without, so many slots of `scratch`.
    """
    slots = ranks * parts
    moves = [SlotMove(axis=0, first=0, inner=parts, end=slots)]
    if inboxes:
        moves, scratch = [*moves, SlotMove(axis=0, first=slots, inner=parts, end=2 * slots)], slots
    folded = fold(ranks, shifts, *moves)
    return ScheduleBuilder(folded, nbytes, slots=slots, scratch=scratch, phase=phase)


def parts_of(channels: int, segments: int, ways: int) -> tuple[Numbers, Numbers, Numbers]:
    """The number, the channel and the way round a ring of each part of a chunk, shape (parts, 1).

    Each channel has an equal share, in `segments`. With two ways there are as many channels again,
    whose way is -1.
    """
    if ways > 2:
        raise InputError(f"ways is {ways}: a ring has 1 or 2")
    part = np.arange(channels * segments * ways)[:, None]
    channel = part // segments
    return part, channel, np.where(channel < channels, 1, -1)


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


def by_place(builder: ScheduleBuilder, per_node: int) -> Numbers:
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
