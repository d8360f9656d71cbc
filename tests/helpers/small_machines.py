"""Machines small enough to follow with a finger."""

from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


def route_of(*links: Link, reduction: float = 0.0, ranks: int = 2) -> Topology:
    """A device before, between and after the links; the ranks are on the first and the last, or on
    all of them."""
    builder = TopologyBuilder("route")
    stops = [builder.device(f"stop{index}", reduction=reduction) for index in range(len(links) + 1)]
    for link, source, target in zip(links, stops, stops[1:], strict=False):
        builder.link(source, target, link)
    return builder.build([stops[0], stops[-1]] if ranks == 2 else stops)


def merge() -> Topology:
    """Rank 0 at 1 B/s and rank 1 without limit into a switch, and from there 4 B/s to rank 2."""
    builder = TopologyBuilder("merge")
    for name in ("a", "b", "switch", "c"):
        builder.device(name)
    builder.link("a", "switch", Link(1.0))
    builder.link("b", "switch", Link(float("inf")))
    builder.link("switch", "c", Link(4.0))
    return builder.build(["a", "b", "c"])
