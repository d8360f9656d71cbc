"""When the parts of a transfer happen, an operation at a time, as the rules of time say it; and
what a route visits."""

import numpy as np

from simulator.schedules.timeline import Timeline
from topologies.topology import Topology


def crossing(timeline: Timeline, operation: int, hop: int) -> tuple[int, float]:
    """Of the media on a hop of a transfer: the one that it holds longest, g + n/β, and for how
    long."""
    topology, nbytes = timeline.routed.topology, float(timeline.schedule.nbytes[operation])
    media = topology.media_of(int(timeline.routed.hops(operation)[hop]))
    seconds = topology.medium_gap[media] + nbytes / topology.medium_bandwidth[media]
    return int(media[np.argmax(seconds)]), float(seconds.max())


def head(timeline: Timeline, operation: int, hop: int) -> float:
    """When a transfer was ready to enter a hop, its first or, store-and-forward, its last byte
    being there."""
    routed, before = timeline.routed, hop - 1
    start = timeline.node_start[routed.node_indptr[operation] + before]
    seconds = crossing(timeline, operation, before)[1] if timeline.store_and_forward else 0.0
    return float(start + seconds + routed.topology.latency[routed.hops(operation)[before]])


def slowest_hop(timeline: Timeline, operation: int) -> tuple[int, float]:
    """Of a transfer: the hop whose bytes arrive last at its end, and when."""
    routed, first = timeline.routed, int(timeline.routed.node_indptr[operation])
    slowest, last = 0, -1.0
    for hop, link in enumerate(routed.hops(operation).tolist()):
        sent = float(timeline.node_start[first + hop]) + crossing(timeline, operation, hop)[1]
        if sent > last:
            slowest, last = hop, sent
        last += float(routed.topology.latency[link])
    return slowest, last


def arrival(timeline: Timeline, operation: int) -> float:
    """When the last byte of a transfer arrives."""
    if timeline.sharing == "fair":
        links = timeline.routed.hops(operation)
        return float(timeline.sent[operation] + timeline.routed.topology.latency[links].sum())
    return slowest_hop(timeline, operation)[1]


def slower_by(timeline: Timeline, operation: int) -> float:
    """How much longer a transfer takes under fair sharing than its bytes alone through its slowest
    medium, which they may cross several times."""
    topology, links = timeline.routed.topology, timeline.routed.hops(operation).tolist()
    media, times = np.unique(
        np.concatenate([topology.media_of(link) for link in links]), return_counts=True
    )
    seconds = times * timeline.schedule.nbytes[operation] / topology.medium_bandwidth[media]
    took = float(timeline.sent[operation] - timeline.start[operation])
    return took - min(took, float(seconds.max()))


def devices_of(topology: Topology, source: int, route: tuple[int, ...]) -> list[int]:
    """The devices that a route visits; fails where it is not contiguous."""
    visited = [int(topology.placement[source])]
    for link in route:
        assert topology.source[link] == visited[-1]
        visited.append(int(topology.target[link]))
    return visited


def starts(timeline: Timeline, operation: int) -> list[float]:
    """When each node of an operation started."""
    first, last = timeline.routed.node_indptr[operation : operation + 2]
    return [float(start) for start in timeline.node_start[first:last]]


def causes(timeline: Timeline, operation: int) -> list[int]:
    """The node for which each node of an operation queued."""
    first, last = timeline.routed.node_indptr[operation : operation + 2]
    return [int(cause) for cause in timeline.node_cause[first:last]]
