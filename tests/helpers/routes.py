"""What a route visits, when a message was there, and behind which other message."""

from simulator.schedules.timeline import Timeline
from topologies.topology import Topology


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
