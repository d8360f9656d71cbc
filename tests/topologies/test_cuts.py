"""Halves, groups and distances: closed forms of the shapes, and every half of small machines."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from math import inf, log2

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from simulator.analysis.bounds import HALVED_LINKS, left_out, limits
from simulator.collectives.collective import ALL_REDUCE, ALL_TO_ALL, BROADCAST
from topologies import shapes
from topologies.capacity import max_flow
from topologies.cuts import bisection, components, diameter, groupings, partitions, tree_cuts
from topologies.link import Link
from topologies.routing import distances
from topologies.shapes import bus, line, nodes, ring, star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Shape = Callable[..., Topology]


@each_case("ranks", [2, 4, 8, 16, 64])
@each_case(
    ("shape", "expected"),
    [
        (shapes.line, lambda p: 1),
        (shapes.ring, lambda p: 1 if p == 2 else 2),
        (shapes.tree, lambda p: 1),
        (shapes.star, lambda p: p / 2),
        (shapes.full_mesh, lambda p: p * p / 4),
        (shapes.full_mesh_one_port, lambda p: p / 2),
        (shapes.hypercube, lambda p: p / 2),
        (shapes.bus, lambda p: 1),
    ],
)
def test_the_bisection_of_shapes(
    shape: Shape, ranks: int, expected: Callable[[int], float]
) -> None:
    half = bisection(shape(ranks, bandwidth=3.0))
    assert half.bandwidth == pytest.approx(3 * expected(ranks))
    assert half.exact or ranks > 8


@pytest.mark.parametrize(("ranks", "exact"), [(10, True), (11, False)])
def test_with_shared_media_all_halves_of_ten_devices_are_asked_for_their_flow(
    ranks: int, exact: bool
) -> None:
    assert bisection(shapes.bus(ranks, bandwidth=1.0)) == (1.0, exact)


@pytest.mark.parametrize(
    ("dims", "grid", "torus"),
    [
        ((4, 4), 4, 8),
        ((2, 8), 2, 4),
        ((8, 8), 8, 16),
        ((4, 8), 4, 8),
        ((8, 4), 4, 8),
        ((4, 4, 4), 16, 32),
    ],
)
def test_the_bisection_of_boxes(dims: tuple[int, ...], grid: float, torus: float) -> None:
    ranks = int(np.prod(dims))
    assert bisection(shapes.grid(ranks, bandwidth=1.0, dims=dims)).bandwidth == grid
    assert bisection(shapes.torus(ranks, bandwidth=1.0, dims=dims)).bandwidth == torus


def test_of_an_odd_number_one_side_has_one_more() -> None:
    assert bisection(shapes.star(5, bandwidth=1.0)) == (2, True)
    assert bisection(shapes.full_mesh(5, bandwidth=1.0)) == (6, True)
    assert bisection(shapes.full_mesh(7, bandwidth=1.0)) == (12, True)


def dealt_out(ranks: int) -> Topology:
    """Even ranks on one switch, node 0, odd ranks on the other, node 1; a wire of 1 B/s between
    them."""
    builder = TopologyBuilder("dealt out")
    gpus = [builder.device(f"gpu{k}", node=k % 2) for k in range(ranks)]
    hubs = [builder.device(f"hub{k}", "switch") for k in range(2)]
    for k, gpu in enumerate(gpus):
        builder.connect(gpu, hubs[k % 2], Link(5.0))
    builder.connect(hubs[0], hubs[1], Link(1.0))
    return builder.build(gpus)


def test_the_best_halves_need_not_be_in_order() -> None:
    assert bisection(dealt_out(1200)) == (1, False), "by node"
    assert bisection(replace(dealt_out(24), node=np.full(26, -1, dtype=np.int32))) == (1, False), (
        "by the Laplacian"
    )


def test_the_slowest_half_is_looked_at() -> None:
    builder = TopologyBuilder("slow and fast")
    gpus = [builder.device(f"gpu{k}") for k in range(24)]
    hub = builder.device("hub", "switch")
    for k, gpu in enumerate(gpus):
        builder.connect(gpu, hub, Link(1.0 + 2 * (k % 2)))
    assert bisection(builder.build(gpus)) == (12, False)


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Up to six devices, with links of few speeds and shared media, and ranks on some."""
    builder, devices = TopologyBuilder("random"), draw(st.integers(2, 6))
    names = [builder.device(f"d{k}") for k in range(devices)]
    speeds = st.sampled_from((1.0, 2.0, 5.0, inf))
    media = [builder.medium("m", 1.5)] if draw(st.booleans()) else []
    pairs = st.tuples(st.integers(0, devices - 1), st.integers(0, devices - 1)).filter(
        lambda ends: ends[0] != ends[1]
    )
    for source, target in draw(st.lists(pairs, unique=True, max_size=14)):
        builder.link(
            names[source],
            names[target],
            Link(draw(speeds)),
            media=draw(st.sampled_from([media, []])) if media else [],
        )
    return builder.build(draw(st.lists(st.sampled_from(names), min_size=2, max_size=6)))


@given(machines())
def test_a_bisection_is_the_least_flow_of_all_halves(topology: Topology) -> None:
    ranks, placed = set(range(topology.ranks)), topology.placement
    flows = []
    for half in combinations(ranks, topology.ranks // 2):
        first_half, second_half = placed[list(half)], placed[list(ranks - set(half))]
        flows += [
            max_flow(topology, *ends).bandwidth
            for ends in ((first_half, second_half), (second_half, first_half))
        ]
    cut = bisection(topology)
    assert cut.exact
    assert cut.bandwidth == pytest.approx(min(flows), rel=1e-9)


# Distances.


@each_case("ranks", [2, 4, 8, 64])
@each_case(
    ("shape", "hops"),
    [
        (shapes.line, lambda p: p - 1),
        (shapes.ring, lambda p: p // 2),
        (shapes.star, lambda p: 2),
        (shapes.full_mesh, lambda p: 1),
        (shapes.hypercube, log2),
    ],
)
def test_the_diameter_of_shapes(shape: Shape, ranks: int, hops: Callable[[int], int]) -> None:
    assert diameter(shape(ranks, bandwidth=1.0, latency=0.5)) == (hops(ranks), hops(ranks) / 2)


def test_hops_and_latency_are_the_least_each() -> None:
    # One slow link, or two quick ones.
    builder = TopologyBuilder("detour")
    for name in "abc":
        builder.device(name)
    builder.connect("a", "c", Link(1.0, 9.0))
    builder.connect("a", "b", Link(1.0, 1.0))
    builder.connect("b", "c", Link(1.0, 1.0))
    assert diameter(builder.build("ac")) == (1, 2.0)


def test_many_ranks_are_measured_in_turn() -> None:
    assert diameter(shapes.ring(600, bandwidth=1.0, latency=1.0)) == (300, 300)


def test_no_route_has_no_length() -> None:
    builder = TopologyBuilder("apart")
    builder.device("a")
    builder.device("b")
    assert "apart has ranks without a route between them" in refusal(diameter, builder.build("ab"))


# Groups.


def test_every_device_by_itself_comes_first() -> None:
    for shape in shapes.SHAPES.values():
        topology = shape(8, bandwidth=1.0)
        assert partitions(topology)[0].tolist() == list(range(len(topology.device_names)))


def three_nodes() -> Topology:
    """Nodes of two GPUs on a switch, joined by one more: devices top, then hub, gpu, gpu of each
    node."""
    builder = TopologyBuilder("nodes")
    top = builder.device("top", "switch")
    for node in range(3):
        hub = builder.device(f"hub{node}", "switch", node=node // 2)
        builder.connect(hub, top, Link(1.0 if node else 2.0))
        for gpu in range(2):
            builder.connect(builder.device(f"gpu{node}{gpu}", node=node // 2), hub, Link(4.0))
    return builder.build([f"gpu{node}{gpu}" for node in range(3) for gpu in range(2)])


def test_groups_are_nodes_what_fast_links_join_and_who_shares_a_switch() -> None:
    alone, *groups = (tuple(group.tolist()) for group in partitions(three_nodes()))
    assert alone == tuple(range(10))
    assert set(groups) == {
        (0, 1, 1, 1, 1, 1, 1, 2, 2, 2),  # nodes: 0 and 1 are one, the top switch is in none
        (0, 0, 0, 0, 1, 1, 1, 2, 2, 2),  # without the links of 1 B/s
        # without those of 2 B/s as well, or within one link of a rank
        (0, 1, 1, 1, 2, 2, 2, 3, 3, 3),
    }


def test_ranks_gather_around_the_switches_that_they_share() -> None:
    fabric = shapes.leaf_spine(8, bandwidth=1.0, ports_per_leaf=4, spines=2, oversubscription=2.0)
    assert len(np.unique(fabric.bandwidth)) == 1
    assert any(group[:8].tolist() == [0] * 4 + [1] * 4 for group in partitions(fabric))


def test_groups_are_told_apart_once() -> None:
    assert len(partitions(shapes.ring(8, bandwidth=1.0))) == 1
    groups = [group.tobytes() for group in partitions(three_nodes())]
    assert len(groups) == len(set(groups))


@given(machines())
def test_groups_that_hold_together_are_those_of_networkx(topology: Topology) -> None:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(topology.device_names)))
    fast = topology.bandwidth > 1.5
    graph.add_edges_from(
        zip(topology.source[fast].tolist(), topology.target[fast].tolist(), strict=True)
    )
    component_of = components(topology, fast)
    together = {
        frozenset(np.flatnonzero(component_of == group).tolist())
        for group in range(int(component_of.max()) + 1)
    }
    assert together == set(map(frozenset, nx.connected_components(graph)))


def test_each_wire_of_a_tree_cuts_off_what_lies_beyond() -> None:
    beyond = tree_cuts(shapes.tree(7, bandwidth=1.0))
    assert sorted(np.flatnonzero(row).tolist() for row in beyond) == [
        [1, 3, 4],
        [2, 5, 6],
        [3],
        [4],
        [5],
        [6],
    ]
    assert len(tree_cuts(shapes.star(5, bandwidth=1.0))) == 5


def test_what_is_no_tree_has_no_such_wires() -> None:
    assert len(tree_cuts(shapes.ring(3, bandwidth=1.0))) == 0
    builder = TopologyBuilder("a ring and one apart")
    gpus = [builder.device(f"gpu{k}") for k in range(4)]
    for start, end in combinations(gpus[:3], 2):
        builder.connect(start, end, Link(1.0))
    assert len(tree_cuts(builder.build(gpus))) == 0


def test_a_wire_may_lead_one_way_only() -> None:
    builder = TopologyBuilder("one way")
    builder.device("a")
    builder.device("b")
    builder.link("a", "b", Link(1.0))
    assert tree_cuts(builder.build("ab")).tolist() == [[False, True]]


def test_each_device_is_alone_in_the_first_grouping() -> None:
    topology = star(4, bandwidth=3.0)
    alone = groupings(topology)[0]
    assert alone.ports(topology, "source").tolist() == [3.0, 3.0, 3.0, 3.0, 12.0]
    assert alone.together(topology, "target", np.array([1, 1, 0, 0, 0], dtype=np.bool_)) == 6.0
    assert groupings(topology)[0] is alone


def test_links_that_share_a_medium_count_once() -> None:
    topology = bus(4, bandwidth=3.0)
    alone = groupings(topology)[0]
    assert alone.together(topology, "source", np.array([1, 1, 0, 0, 0], dtype=np.bool_)) == 3.0


def test_what_is_left_out_of_a_large_machine_has_a_name() -> None:
    small, large = star(100, bandwidth=1e9), star(HALVED_LINKS, bandwidth=1e9)
    assert left_out(BROADCAST, small, 100) == ()
    assert left_out(ALL_REDUCE, large, HALVED_LINKS) == (
        "latency of every pair",
        "every cut",
        "cut in half",
    )
    assert left_out(ALL_TO_ALL, large, HALVED_LINKS) == (
        "latency of every pair",
        "cut in half",
        "best routing",
        "all links",
    )


def test_nothing_is_left_out_where_a_schedule_meets_the_bounds() -> None:
    machines = star(2048, bandwidth=1e9), line(2048, bandwidth=1e9)
    assert [left_out(ALL_REDUCE, machine, 2048) for machine in machines] == [
        ("latency of every pair",),
        ("latency of every pair", "every cut"),
    ]
    assert left_out(ALL_TO_ALL, star(64, bandwidth=1e9), 64) == ()
    assert left_out(ALL_TO_ALL, line(64, bandwidth=1e9), 64) == ()
    assert left_out(ALL_TO_ALL, ring(64, bandwidth=1e9), 64) == ("best routing",)


def test_a_large_star_has_the_bounds_of_a_small_one() -> None:
    ranks = 200_000
    bounds = {limit.name: limit for limit in limits(ALL_REDUCE, star(ranks, bandwidth=1.0), ranks)}
    assert set(bounds) == {"latency", "injection port", "ejection port", "all ports"}
    assert bounds["injection port"].per_byte == 1.0
    assert bounds["all ports"].per_byte == pytest.approx(2 * (ranks - 1) / ranks)


@pytest.mark.parametrize(
    "build",
    [lambda: nodes(300, bandwidth=1.0, latency=0.1), lambda: ring(250, bandwidth=1.0, latency=0.1)],
)
def test_distances_of_one_rank_are_those_of_all(build: Callable[[], Topology]) -> None:
    topology = build()
    together = distances(topology, np.array([7, 0], dtype=np.int32))
    assert distances(topology, np.array([7], dtype=np.int32)).tolist() == together[:1].tolist()
