"""Which of several equally short routes is taken: first, link, hash and rail."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations, product
from random import Random
from typing import Any, get_args
from unittest.mock import patch

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from topologies.clusters import cluster
from topologies.jit import compiled
from topologies.link import Link
from topologies.routing import distances, find_routes
from topologies.shapes import SHAPES, leaf_spine, ring
from topologies.topology import REMEMBERED, Paths, Topology
from topologies.topology_builder import TopologyBuilder
from transfers import devices_of

MICROSECOND, TICK = 1e-6, 2.0**-20


# Which of several equally short routes: "first", "link", "hash" and "rail".

POLICIES: tuple[Paths, ...] = get_args(Paths)
Pairs = list[tuple[int, int, int]]


@st.composite
def choices(
    draw: st.DrawFn,
    paths: st.SearchStrategy[Paths] = st.sampled_from(POLICIES),  # noqa: B008
) -> Topology:
    """Layers of devices, so that there are many equal ways; latencies of 0 or 1 us; some devices in
    nodes."""
    layers = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    builder = TopologyBuilder("layers", paths=draw(paths))
    names = [
        [builder.device(f"l{layer}.{k}", node=draw(st.integers(-1, 2))) for k in range(width)]
        for layer, width in enumerate(layers)
    ]
    for above, below in pairwise(names):
        for ends in draw(st.lists(st.sampled_from(list(product(above, below))), unique=True)):
            builder.connect(*ends, Link(1e9, draw(st.sampled_from((0.0, 0.0, MICROSECOND)))))
    flat = [name for layer in names for name in layer]
    return builder.build(draw(st.lists(st.sampled_from(flat), min_size=2, max_size=6)))


def shortest(topology: Topology, source: int, target: int) -> list[list[int]]:
    """All ways of least latency and then fewest hops, as devices, by networkx. A hop weighs less
    than any latency."""
    graph = topology.graph.copy()
    for *_, edge in graph.edges(data=True):
        edge["weight"] = 1000 * round(edge["latency"] / MICROSECOND) + 1
    index = {name: device for device, name in enumerate(topology.device_names)}
    start, end = (topology.device_names[topology.placement[rank]] for rank in (source, target))
    try:
        return [
            [index[name] for name in way]
            for way in nx.all_shortest_paths(graph, start, end, weight="weight")
        ]
    except nx.NetworkXNoPath:
        return []


def connected_pairs(topology: Topology) -> list[tuple[int, int]]:
    return [
        (source, target)
        for source, target in np.argwhere(np.isfinite(distances(topology))).tolist()
    ]


@given(choices(), st.integers(0, 40))
def test_a_route_is_one_of_the_shortest_whatever_the_policy_and_the_channel(
    topology: Topology, channel: int
) -> None:
    for source, target in product(range(topology.ranks), repeat=2):
        ways = shortest(topology, source, target)
        if ways:
            assert devices_of(topology, source, topology.route(source, target, channel)) in ways
        else:
            assert "no route" in refusal(topology.route, source, target, channel)


@given(choices(st.just("link")), st.integers(0, 40))
def test_link_is_the_first_of_them_by_the_order_of_links(topology: Topology, channel: int) -> None:
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    number = {pair: link for link, pair in enumerate(ends)}
    for source, target in connected_pairs(topology):
        ways = [
            [number[hop] for hop in pairwise(way)] for way in shortest(topology, source, target)
        ]
        assert list(topology.route(source, target, channel)) == min(ways)


@pytest.mark.parametrize(
    ("shape", "dims"), [("grid", (3, 2, 3)), ("torus", (4, 3, 2)), ("hypercube", None)]
)
def test_on_a_grid_the_first_dimension_is_first(shape: str, dims: tuple[int, ...] | None) -> None:
    """Dimension-order routing: who has left a dimension does not come back to it."""
    widths = dims or (2, 2, 2, 2)
    ranks = int(np.prod(widths))
    options: dict[str, Any] = {"dims": dims} if dims else {}
    topology = SHAPES[shape](ranks, bandwidth=1e9, latency=1e-6, **options)
    for source, target in permutations(range(ranks), 2):
        places = np.array(
            np.unravel_index(devices_of(topology, source, topology.route(source, target)), widths)
        ).T
        changed = [
            int(np.flatnonzero(place != next_place).item())
            for place, next_place in pairwise(places)
        ]
        assert changed == sorted(changed)


@given(choices(), st.randoms(use_true_random=False))
def test_whoever_asks_together_gets_what_he_would_get_alone(
    topology: Topology, random: Random
) -> None:
    """In any order, again after other questions, and from a topology that has never been asked."""
    asked = [(*pair, random.randrange(20)) for pair in connected_pairs(topology)]
    random.shuffle(asked)
    columns = np.array(asked)
    indptr, links = topology.routes(columns[:, 0], columns[:, 1], columns[:, 2])
    together = [tuple(links[indptr[k] : indptr[k + 1]].tolist()) for k in range(len(asked))]
    again = replace(topology)
    for (source, target, channel), route in zip(asked[::-1], together[::-1], strict=True):
        assert again.route(source, target, channel) == route
        assert topology.route(source, target, channel) == route


def test_no_more_questions_are_remembered_than_can_be_told_apart() -> None:
    topology, rng = (
        leaf_spine(32, bandwidth=1e9, latency=1e-6, ports_per_leaf=4, spines=4),
        Random(1),
    )
    for _ in range(6 * REMEMBERED):
        source, target, channel = rng.randrange(32), rng.randrange(32), rng.randrange(3)
        assert topology.route(source, target, channel) == replace(topology).route(
            source, target, channel
        )
        assert len(topology._routes) <= REMEMBERED


def test_pairs_whose_columns_look_alike_are_different_questions() -> None:
    """One column after the other, these are the same numbers."""
    topology = ring(8, bandwidth=1e9)
    routes = topology.routes(np.array([0, 1]), np.array([2, 3]), np.array([0, 0]))
    assert [len(column) for column in routes] == [3, 4]
    assert topology.route(0, 1) == (0,)
    for kind in (np.int8, np.int32, np.int64):
        again = topology.routes(np.array([0, 1], dtype=kind), np.array([2, 3], dtype=kind))
        assert [column.tolist() for column in again] == [column.tolist() for column in routes]


@pytest.mark.parametrize("rank", [2**32, -(2**32) + 1])
def test_a_rank_beyond_32_bits_has_no_device_either(rank: int) -> None:
    assert f"rank {rank} has no device" in refusal(ring(4, bandwidth=1000000000.0).route, rank, 2)


def spines_of(topology: Topology, pairs: Pairs) -> Counter[str]:
    """How many of the routes go by each spine."""
    columns = np.array(pairs)
    _, links = topology.routes(columns[:, 0], columns[:, 1], columns[:, 2])
    names = [topology.device_names[device] for device in topology.target[links]]
    return Counter(name for name in names if name.startswith("spine"))


def test_a_hash_spreads_pairs_evenly_over_the_spines() -> None:
    """3584 pairs on 8 spines: 448 each, and a standard deviation of 20."""
    topology = leaf_spine(64, bandwidth=1e9, latency=1e-6, ports_per_leaf=8, spines=8)
    pairs = [
        (source, target, 0)
        for source, target in permutations(range(64), 2)
        if source // 8 != target // 8
    ]
    count = spines_of(topology, pairs)
    assert len(count) == 8
    assert max(abs(times - 448) for times in count.values()) < 80


def test_a_hash_is_the_same_on_every_day() -> None:
    """Golden, so that results can be compared over the years: Python's own hash would not do."""
    topology = leaf_spine(16, bandwidth=1e9, latency=1e-6, ports_per_leaf=8, spines=8)
    ways = [next(iter(spines_of(topology, [(0, 8, channel)]))) for channel in range(8)]
    assert ways == [f"spine{spine}" for spine in (3, 0, 3, 5, 5, 4, 5, 7)]


def nics_of(topology: Topology, route: tuple[int, ...]) -> list[str]:
    """The NICs by which a route leaves a node and enters another."""
    names = [topology.device_names[device] for device in topology.target[list(route)]]
    return [name for name in names if ".nic" in name]


RAIL_PAIRS = [
    (sender, receiver) for sender in range(3) for receiver in range(3) if sender != receiver
]


@pytest.mark.parametrize("channel", range(10))
def test_the_receivers_number_chooses_the_nics_at_both_ends(channel: int) -> None:
    """Leonardo's NICs are all as near to every GPU: rail r has NIC r, and the next one after four
    channels."""
    topology = cluster("leonardo", 3, network="leaf_spine")
    for source, target in RAIL_PAIRS:
        for sender, receiver in product(range(4), repeat=2):
            route = topology.route(4 * source + sender, 4 * target + receiver, channel)
            nic = (receiver + channel // 4) % 4
            assert nics_of(topology, route) == [f"node{source}.nic{nic}", f"node{target}.nic{nic}"]


@pytest.mark.parametrize("machine", ["dgx_a100", "hgx_h100"])
def test_of_the_two_nearest_nics_the_receivers_number_takes_the_even_or_the_odd_one(
    machine: str,
) -> None:
    """Two GPUs and two NICs share a PCIe switch; all ports are on one leaf."""
    topology = cluster(machine, 3, network="leaf_spine")
    for source, target in RAIL_PAIRS:
        for sender, receiver in product(range(8), repeat=2):
            route = topology.route(8 * source + sender, 8 * target + receiver)
            out = sender // 2 * 2 + receiver % 2
            assert nics_of(topology, route) == [
                f"node{source}.nic{out}",
                f"node{target}.nic{receiver}",
            ]
            assert len(route) == 6


def test_between_nodes_a_rail_is_spread_over_the_spines_by_hash() -> None:
    """Sender 0 of 32 nodes to receiver 4 of another 32: the same NICs, and no spine more than its
    share."""
    topology = cluster("hgx_h100", 64, network="rails")
    pairs = [(8 * node, 8 * (node + 32) + 4, 0) for node in range(32)]
    count = spines_of(topology, pairs)
    assert sum(count.values()) == 32
    assert len(count) > 16
    assert max(count.values()) <= 5


def test_ranks_on_other_devices_change_no_rail() -> None:
    """Two ranks a GPU have one number. A server may be on a CPU, and GPUs may have no rank."""
    topology = cluster("leonardo", 2)
    cpu = topology.device_names.index("node1.cpu0")
    for devices in (np.repeat(np.arange(8), 2), np.arange(8), np.array([0, 1, 2, 5, 7])):
        placement = np.append(topology.placement[devices], np.int32(cpu))
        machine = replace(topology, placement=placement)
        for source, target in permutations(range(len(devices)), 2):
            ends = int(devices[source]), int(devices[target])
            assert machine.route(source, target) == topology.route(*ends)


def test_latencies_of_seconds_are_told_apart_by_picoseconds() -> None:
    builder = TopologyBuilder("moon")
    names = [builder.device(f"d{k}") for k in range(4)]
    for middle, late in ((1, 2e-12), (2, 1e-12)):
        builder.link(names[0], names[middle], Link(1e9, 1.3))
        builder.link(names[middle], names[3], Link(1e9, 1.3 + late))
    topology = builder.build(names)
    assert devices_of(topology, 0, topology.route(0, 3)) == [0, 2, 3]


@pytest.mark.parametrize(
    "parts", [((0.1, 0.2), (0.15, 0.15)), ((0.3, 0.0), (0.1, 0.2)), ((0.7, 0.1), (0.6, 0.2))]
)
def test_sums_that_differ_in_the_last_bit_are_equal(
    parts: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    """0.1 + 0.2 is not 0.3 in floats; the way by the lower device is taken, wherever the greater
    sum is."""
    for first, second in (parts, parts[::-1]):
        builder = TopologyBuilder("bits")
        names = [builder.device(f"d{k}") for k in range(4)]
        for middle, latencies in ((1, first), (2, second)):
            builder.link(names[0], names[middle], Link(1e9, latencies[0] * MICROSECOND))
            builder.link(names[middle], names[3], Link(1e9, latencies[1] * MICROSECOND))
        topology = builder.build(names)
        assert devices_of(topology, 0, topology.route(0, 3)) == [0, 1, 3]


@given(choices())
def test_routes_are_the_same_compiled_or_not_from_one_end_or_both(topology: Topology) -> None:
    ranks = range(topology.ranks)
    pairs = [
        (source, target, channel)
        for source, target, channel in product(ranks, ranks, range(3))
        if np.isfinite(distances(topology)[source, target])
    ]
    columns = np.array(pairs).T
    results = []
    for few in (0, len(pairs)):
        for chosen in (lambda function, _: function, lambda function, _: compiled(function)):
            with patch("topologies.routing.kernel", chosen), patch("topologies.routing.FEW", few):
                indptr, links = find_routes(topology, *columns)
                results.append((indptr.tolist(), links.tolist()))
    assert results == [results[0]] * 4
