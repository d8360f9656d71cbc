"""Maximum flows between nodes, in whole units: plain Python that Numba compiles when there is much
to do."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from topologies._kernels import Bytes, Index, Ints, Longs


class Net(NamedTuple):
    """What the search for a flow knows of nodes."""

    room: Annotated[Longs, 2]
    """The units that can still flow from node to node."""
    neighbors: Annotated[Ints, 2]
    """The nodes to or from which units can flow."""
    degree: Ints
    """The number of neighbors of each node."""
    goals: Bytes
    """Whether units end at the node."""
    level: Ints
    """The edges between the sources and each node, or -1 if no unit can reach it."""
    turn: Ints
    """The neighbors of each node that need not be looked at again."""
    path: Ints
    """The nodes that wait to be looked at, or those of a way from a source."""


def least_flow(
    capacity: Annotated[Longs, 2],
    ends: tuple[Longs, Longs],
    sinks: Longs,
    limits: tuple[int, int],
    inside: Bytes,
) -> int:
    """The least that can flow from some nodes to others together with one of `sinks`, at most the
    second of `limits`.

    Sinks are asked one after the other, until the flow is no more than the first of `limits`. A
    sink from which units begin is left out. The sink with the least flow moves to the front. The
    nodes on the side of the sources are marked in `inside`, if the flow is below the limit.

    The algorithm of Dinic: units take ways with the fewest edges, until none is left.
    """
    sources, drains = ends
    nodes, (enough, least) = len(capacity), limits
    net = Net(
        np.empty((nodes, nodes), np.int64),
        np.empty((nodes, nodes), np.int32),
        np.zeros(nodes, np.int32),
        np.zeros(nodes, np.int8),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
    )
    connect(net, capacity)
    for node in drains:
        net.goals[node] = 1
    for place in range(len(sinks)):
        sink, is_source = sinks[place], False
        for source in sources:
            is_source |= source == sink
        if is_source:
            continue
        was_goal, net.goals[sink] = net.goals[sink], 1
        refill(net, capacity)
        flow = least - least
        while flow < least and reach(net, sources):
            for source in sources:
                flow += push(net, source, least - flow)
        net.goals[sink] = was_goal
        if flow < least:
            least = flow
            for node in range(nodes):
                inside[node] = net.level[node] >= 0
            sinks[place], sinks[0] = sinks[0], sink
            if flow <= enough:
                break
    return least


def connect(net: Net, capacity: Longs) -> None:
    """List the neighbors of every node."""
    nodes = len(capacity)
    for node in range(nodes):
        for neighbor in range(node):
            if capacity[node, neighbor] > 0 or capacity[neighbor, node] > 0:
                net.neighbors[node, net.degree[node]] = neighbor
                net.neighbors[neighbor, net.degree[neighbor]] = node
                net.degree[node] += 1
                net.degree[neighbor] += 1


def refill(net: Net, capacity: Longs) -> None:
    """Let all units flow again. A loop: to compile the copy of an array takes three seconds."""
    for node in range(len(capacity)):
        for k in range(net.degree[node]):
            neighbor = net.neighbors[node, k]
            net.room[node, neighbor] = capacity[node, neighbor]


def reach(net: Net, sources: Longs) -> bool:
    """Find the level of the nodes that units can reach, up to the nearest goal: whether one is
    reached."""
    net.level[:] = -1
    net.turn[:] = 0
    count, first, farthest = 0, 0, len(net.level)
    for source in sources:
        net.level[source], net.path[count] = 0, source
        count += 1
    while first < count and net.level[net.path[first]] < farthest:
        node, first = net.path[first], first + 1
        for k in range(net.degree[node]):
            neighbor = net.neighbors[node, k]
            if net.level[neighbor] < 0 and net.room[node, neighbor] > 0:
                net.level[neighbor], net.path[count] = net.level[node] + 1, neighbor
                count += 1
                if net.goals[neighbor]:
                    farthest = net.level[neighbor]
    return farthest < len(net.level)


def push(net: Net, source: Index, most: Index) -> Index:
    """Send at most so many units from a source to goals, each a level further with each edge: the
    units that arrive."""
    room, level, path, arrived, depth = net.room, net.level, net.path, most - most, 0
    path[0] = source
    while arrived < most:
        node = path[depth]
        if net.goals[node]:
            units = most - arrived
            for k in range(depth):
                units = min(units, room[path[k], path[k + 1]])
            arrived += units
            for k in range(depth - 1, -1, -1):
                room[path[k], path[k + 1]] -= units
                room[path[k + 1], path[k]] += units
                if room[path[k], path[k + 1]] == 0:
                    depth = k
            continue
        k = net.turn[node]
        while k < net.degree[node]:
            neighbor = net.neighbors[node, k]
            if level[neighbor] == level[node] + 1 and room[node, neighbor] > 0:
                break
            k += 1
        net.turn[node] = k
        if k < net.degree[node]:
            depth += 1
            path[depth] = neighbor
        elif depth == 0:
            break
        else:
            depth -= 1
            net.turn[path[depth]] += 1
    return arrived
