"""Maximum flows along the arcs of a graph, in whole units: plain Python that Numba compiles when
there is much to do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topologies._kernels import Bytes, Index, Ints, Longs


class Arcs(NamedTuple):
    """The arcs of a graph, ordered by the node that they leave. Each has an opposite one."""

    first: Ints
    """The arcs that leave node v are those from `first[v]` to `first[v + 1]`."""
    head: Ints
    """The node at which each arc ends."""
    back: Ints
    """The opposite of each arc."""


class Net(NamedTuple):
    """What the search for a flow knows of arcs and nodes."""

    arcs: Arcs
    room: Longs
    """The units that can still flow along each arc."""
    goals: Bytes
    """Whether units end at the node."""
    level: Ints
    """The arcs between the sources and each node, or -1 if no unit can reach it."""
    turn: Ints
    """The next of the arcs of each node that is to be looked at."""
    path: Ints
    """The nodes that wait to be looked at, or the arcs of a way from a source."""


def least_flow(
    arcs: Arcs,
    capacity: Longs,
    ends: tuple[Longs, Longs],
    sinks: Longs,
    limits: tuple[int, int],
    inside: Bytes,
) -> int:
    """The least that can flow from some nodes to others together with one of `sinks`, at most the
    second of `limits`. Each arc has its `capacity`.

    Sinks are asked one after the other, until the flow is no more than the first of `limits`. A
    sink from which units begin is left out. The sink with the least flow moves to the front. The
    nodes on the side of the sources are marked in `inside`, if the flow is below the limit.

    The algorithm of Dinic: units take ways with the fewest arcs, until none is left.
    """
    sources, drains = ends
    nodes, (enough, least) = len(inside), limits
    net = Net(
        arcs,
        np.empty(len(capacity), np.int64),
        np.zeros(nodes, np.int8),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
    )
    for node in drains:
        net.goals[node] = 1
    for place in range(len(sinks)):
        sink, is_source = sinks[place], False
        for source in sources:
            is_source |= source == sink
        if is_source:
            continue
        was_goal, net.goals[sink] = net.goals[sink], 1
        # Loops, here and in `reach`: to compile the copy of an array takes three seconds.
        for arc in range(len(capacity)):
            net.room[arc] = capacity[arc]
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


def reach(net: Net, sources: Longs) -> bool:
    """Find the level of the nodes that units can reach, up to the nearest goal: whether one is
    reached."""
    arcs, level, nodes = net.arcs, net.level, len(net.level)
    for node in range(nodes):
        level[node], net.turn[node] = -1, arcs.first[node]
    count, place, farthest = 0, 0, nodes
    for source in sources:
        if level[source] < 0:  # a source may be there twice
            level[source], net.path[count] = 0, source
            count += 1
    while place < count and level[net.path[place]] < farthest:
        node, place = net.path[place], place + 1
        for arc in range(arcs.first[node], arcs.first[node + 1]):
            head = arcs.head[arc]
            if level[head] < 0 and net.room[arc] > 0:
                level[head], net.path[count] = level[node] + 1, head
                count += 1
                if net.goals[head]:
                    farthest = level[head]
    return farthest < nodes


def push(net: Net, source: Index, most: Index) -> Index:
    """Send at most so many units from a source to goals, each a level further with each arc: the
    units that arrive."""
    arcs, room, level, path = net.arcs, net.room, net.level, net.path
    arrived, depth, node = most - most, 0, source
    while arrived < most:
        if net.goals[node]:
            units = most - arrived
            for k in range(depth):
                units = min(units, room[path[k]])
            arrived += units
            for k in range(depth - 1, -1, -1):
                back = arcs.back[path[k]]
                room[path[k]] -= units
                room[back] += units
                if room[path[k]] == 0:
                    depth, node = k, arcs.head[back]
            continue
        arc, end = net.turn[node], arcs.first[node + 1]
        while arc < end and (level[arcs.head[arc]] != level[node] + 1 or room[arc] == 0):
            arc += 1
        net.turn[node] = arc
        if arc < end:
            path[depth], node, depth = arc, arcs.head[arc], depth + 1
        elif depth == 0:
            break
        else:
            depth -= 1
            node = arcs.head[arcs.back[path[depth]]]
            net.turn[node] += 1
    return arrived
