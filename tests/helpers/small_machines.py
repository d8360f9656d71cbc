"""Machines small enough to follow with a finger."""

from typing import NamedTuple

from topologies.builder import TopologyBuilder
from topologies.topology import Topology


class Wire(NamedTuple):
    """One link of a route: B/s, s, s a message."""

    bandwidth: float
    latency: float = 0.0
    gap: float = 0.0


def route_of(*wires: Wire, reduction: float = 0.0, ranks: int = 2) -> Topology:
    """A device before, between and after the wires; the ranks are on the first and the last, or on
    all of them."""
    builder = TopologyBuilder("route")
    stops = [builder.device(f"stop{index}", reduction=reduction) for index in range(len(wires) + 1)]
    for wire, one, other in zip(wires, stops, stops[1:], strict=False):
        builder.link(one, other, bandwidth=wire.bandwidth, latency=wire.latency, gap=wire.gap)
    return builder.build([stops[0], stops[-1]] if ranks == 2 else stops)


def merge() -> Topology:
    """Rank 0 at 1 B/s and rank 1 without limit into a switch, and from there 4 B/s to rank 2."""
    builder = TopologyBuilder("merge")
    for name in ("a", "b", "switch", "c"):
        builder.device(name)
    builder.link("a", "switch", bandwidth=1.0)
    builder.link("b", "switch", bandwidth=float("inf"))
    builder.link("switch", "c", bandwidth=4.0)
    return builder.build(["a", "b", "c"])
