"""Machines small enough to follow with a finger, or drawn at random: trees of devices and switches
with a few shared media."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from topologies.link import Link
from topologies.topology import Floats, Topology
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


Draw = Callable[[Random], float]


class Parameters(NamedTuple):
    """How each parameter of a random machine is drawn; whether the last rank may share a device
    with another."""

    reduction: Draw
    copy: Draw
    shared_bandwidth: Draw
    shared_gap: Draw
    bandwidth: Draw
    latency: Draw
    gap: Draw
    together: bool = True


DYADIC_MACHINE = Parameters(
    reduction=lambda random: random.choice((0.0, 0.25)),
    copy=lambda random: random.choice((0.0, 0.5)),
    shared_bandwidth=lambda random: random.choice((1.0, 2.0)),
    shared_gap=lambda random: random.choice((0.0, 0.5)),
    bandwidth=lambda random: 2.0 ** random.randint(0, 2),
    latency=lambda random: random.randint(0, 2) / 2,
    gap=lambda random: random.choice((0.0, 0.5)),
)
"""Ties are exact."""

IRREGULAR_MACHINE = Parameters(
    reduction=lambda random: random.choice((0.0, random.random())),
    copy=lambda random: random.choice((0.0, 0.3)),
    shared_bandwidth=lambda random: 1 + random.random(),
    shared_gap=lambda random: random.choice((0.0, 0.4)),
    bandwidth=lambda random: random.choice((1.0, 2.0, 1 + random.random(), float("inf"))),
    latency=lambda random: random.choice((0.0, 1.0, random.random())),
    gap=lambda random: random.choice((0.0, 0.5)),
)
"""Few ties."""


exact_wires = st.lists(
    st.builds(
        Link,
        bandwidth=st.integers(-3, 3).map(lambda power: 2.0**power),
        latency=st.integers(0, 2**20).map(lambda ticks: ticks * 2.0**-20),
        gap=st.integers(0, 2**10).map(lambda ticks: ticks * 2.0**-20),
    ),
    min_size=1,
    max_size=5,
)
"""The wires of a route, whose times add up without rounding."""


def random_machine(random: Random, ranks: int, drawn: Parameters) -> Topology:
    """A tree with up to two devices more than ranks, links both ways, some of them over one or two
    of two media."""
    builder = TopologyBuilder("random")
    names = [
        builder.device(f"d{k}", reduction=drawn.reduction(random), copy=drawn.copy(random))
        for k in range(ranks + random.randint(0, 2))
    ]
    shared = [
        builder.medium(f"m{k}", drawn.shared_bandwidth(random), drawn.shared_gap(random))
        for k in range(2)
    ]
    for k in range(1, len(names)):
        parent = names[random.randrange(k)]
        for ends in ((parent, names[k]), (names[k], parent)):
            builder.link(
                *ends,
                Link(drawn.bandwidth(random), drawn.latency(random), drawn.gap(random)),
                media=random.sample(shared, random.choice((0, 0, 1, 2))),
            )
    return builder.build(
        [*names[: ranks - 1], random.choice(names) if drawn.together else names[ranks - 1]]
    )


def irregular(
    topology: Topology, rng: np.random.Generator, low: float = 0.5, high: float = 1.5
) -> Topology:
    """The same machine with every parameter but copying times a number of its own from `low` to
    `high`."""

    def around(values: Floats) -> Floats:
        return np.asarray(values * rng.uniform(low, high, len(values)))

    return replace(
        topology,
        latency=around(topology.latency),
        medium_gap=around(topology.medium_gap),
        medium_bandwidth=around(topology.medium_bandwidth),
        reduction=around(topology.reduction),
    )


def twice_as_slow(topology: Topology) -> Topology:
    """The same machine where everything takes twice as long."""
    return replace(
        topology,
        latency=topology.latency * 2,
        medium_gap=topology.medium_gap * 2,
        medium_bandwidth=topology.medium_bandwidth / 2,
        reduction=topology.reduction * 2,
        copy=topology.copy * 2,
    )
