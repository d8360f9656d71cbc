"""Closed forms of networks: sizes, distances, cuts, and who shares what."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from joined_ports import EQUIPMENT, Join, across, below, built, switches
from refusals import refusal
from topologies.errors import InputError
from topologies.fabrics import Equipment, join_dragonfly, join_fat_tree, join_leaf_spine, join_rails
from topologies.link import Link
from topologies.routing import distances
from topologies.shapes import full_mesh
from topologies.topology_builder import TopologyBuilder

JOINS: list[Join] = [join_leaf_spine, join_rails, join_fat_tree, join_dragonfly]


# All of them.


@each_case("join", JOINS)
@each_case("in_network", [False, True])
def test_switches_are_of_no_node_and_reduce_if_asked(join: Join, in_network: bool) -> None:
    topology = built(join, 5, 4, replace(EQUIPMENT, in_network=in_network))
    ports = topology.device_kinds.are("nic")
    assert ports.sum() == 20
    assert np.array_equal(topology.device_kinds.are("switch"), ~ports)
    assert set(topology.node[~ports].tolist()) == {-1}
    assert set(topology.in_network[~ports].tolist()) == {in_network}
    assert not topology.in_network[ports].any()


@each_case("join", JOINS)
def test_figures_reach_every_link(join: Join) -> None:
    topology = built(join, 9, 4, Equipment(Link(3e9, 1e-6, 2e-6), 5e-7, "ethernet", assumed=True))
    to_port = (topology.source < 36) | (topology.target < 36)
    assert set(topology.latency[to_port].tolist()) == {1e-6}
    assert set(topology.latency[~to_port].tolist()) == {5e-7}
    assert set(topology.medium_gap.tolist()) == {2e-6}
    assert set(topology.medium_bandwidth.tolist()) == {3e9}
    assert set(topology.link_kinds) == {"ethernet"}
    assert topology.assumed.all()


@each_case("join", JOINS)
def test_every_port_has_one_link_and_every_link_runs_both_ways(join: Join) -> None:
    graph = built(join, 7, 3).graph
    assert all(graph.has_edge(target, source) for source, target in graph.edges)
    assert all(degree == 1 for name, degree in graph.out_degree if "nic" in name)
    assert nx.is_strongly_connected(graph)


@each_case("join", JOINS)
def test_ports_by_number_alone_are_of_nodes_with_one_each(join: Join) -> None:
    builder = TopologyBuilder(join.__name__)
    ports = builder.devices([f"node{node}.nic0" for node in range(6)], "nic")
    join(builder, ports, EQUIPMENT)
    alone, table = builder.build(ports), built(join, 6)
    assert alone.device_names == table.device_names
    assert np.array_equal(alone.source, table.source)
    assert np.array_equal(alone.target, table.target)


@given(st.sampled_from(JOINS), st.integers(1, 12), st.integers(1, 4), st.integers(0, 5))
def test_there_is_a_route_between_any_two_ports_and_none_is_longer_than_the_diameter(
    join: Join, nodes: int, nics: int, channel: int
) -> None:
    topology = built(join, nodes, nics)
    source, target = np.divmod(np.arange(topology.ranks**2), topology.ranks)
    indptr, links = topology.routes(source, target, np.full(len(source), channel))
    hops = np.diff(indptr)
    most = {join_leaf_spine: 4, join_rails: 4, join_fat_tree: 6, join_dragonfly: 5}[join]
    assert np.array_equal(hops == 0, source == target)
    assert hops.max() <= most
    latency = np.bincount(
        np.repeat(np.arange(len(source)), hops), topology.latency[links], len(source)
    )
    assert np.array_equal(latency, distances(topology).ravel())
    assert np.array_equal(latency, np.where(hops == 0, 0.0, 2.0 + 0.25 * (hops - 2)))


@each_case("join", JOINS)
@each_case("ports", [[], np.zeros((0, 8))])
def test_no_ports_are_refused(join: Join, ports: npt.ArrayLike) -> None:
    assert refusal(join, TopologyBuilder("empty"), ports, EQUIPMENT).endswith(
        "there are no ports to join: a network has at least one"
    )


@each_case("join", JOINS)
@each_case("figure", ["bandwidth", "latency", "gap"])
@each_case("bad", [-1.0, float("nan")])
def test_impossible_figures_are_refused(join: Join, figure: str, bad: float) -> None:
    link = replace(EQUIPMENT.link, **{figure: bad})
    with pytest.raises(InputError, match=f"{figure} of .* is {bad}"):
        built(join, 4, 2, replace(EQUIPMENT, link=link))


SIZES: dict[Join, dict[str, Any]] = {
    join_leaf_spine: {"ports_per_leaf": 1, "spines": 1},
    join_rails: {"nodes_per_leaf": 1, "spines": 0},
    join_fat_tree: {"k": 2},
    join_dragonfly: {"hosts": 1, "routers": 1, "global_links": 1, "cables": 1},
}
BAD_SIZES: list[tuple[Join, str, Any]] = [
    (join, size, low) for join, sizes in SIZES.items() for size, low in sizes.items()
]


@each_case(("join", "size", "low"), BAD_SIZES)
def test_sizes_that_are_too_small_are_refused(join: Join, size: str, low: int) -> None:
    for value in (low - 1, -5):
        bad: dict[str, Any] = {size: value}
        assert refusal(built, join, 4, 2, **bad) == f"{size} must be at least {low}, got {value}"


@each_case(("join", "size", "low"), BAD_SIZES)
@each_case("value", [2.0, 2.5, "4", float("nan")])
def test_sizes_that_are_not_whole_are_refused(join: Join, size: str, low: int, value: Any) -> None:
    bad: dict[str, Any] = {size: value}
    assert refusal(built, join, 4, 2, **bad) == f"{size} must be a whole number, got {value!r}"


@each_case(("join", "size", "low"), BAD_SIZES)
def test_sizes_that_no_memory_holds_are_refused(join: Join, size: str, low: int) -> None:
    bad: dict[str, Any] = {size: 10**400}
    assert refusal(built, join, 4, 2, **bad) == f"{size} must be at most {2**24}, got {10**400}"


@each_case(
    ("join", "sizes"),
    [
        (join_leaf_spine, {"ports_per_leaf": 1, "spines": 2**23}),
        (join_rails, {"nodes_per_leaf": 1, "spines": 2**23}),
        (join_fat_tree, {"k": 2**20}),
        (join_dragonfly, {"routers": 2**20}),
    ],
)
def test_networks_that_no_memory_holds_are_refused(join: Join, sizes: dict[str, Any]) -> None:
    with pytest.raises(
        InputError,
        match=rf"^a network of \d+ links between switches is too large: {2**24} at most$",
    ):
        built(join, 4, 2, **sizes)


# Leaves and spines.


@each_case(("ports", "size", "spines"), [(8, 2, 3), (9, 4, 2), (64, 8, 8), (5, 5, 1), (3, 10, 2)])
def test_every_leaf_is_joined_to_every_spine(ports: int, size: int, spines: int) -> None:
    topology = built(join_leaf_spine, ports, ports_per_leaf=size, spines=spines)
    leaves = -(-ports // size)
    assert switches(topology, "leaf") == [f"leaf{number}" for number in range(leaves)]
    assert switches(topology, "spine") == [f"spine{number}" for number in range(spines)]
    assert topology.links == 2 * (ports + leaves * spines)
    assert {f"spine{number}" for number in range(spines)} <= set(topology.graph["leaf0"])
    assert [
        topology.graph.has_edge(f"node{port}.nic0", f"leaf{port // size}") for port in range(ports)
    ] == [True] * ports


@each_case("oversubscription", [0.5, 1.0, 2.0, 3.0])
@each_case("spines", [1, 2, 6, 12])
def test_uplinks_of_a_leaf_carry_what_its_ports_do_over_the_oversubscription(
    spines: int, oversubscription: float
) -> None:
    topology = built(
        join_leaf_spine, 24, ports_per_leaf=6, spines=spines, oversubscription=oversubscription
    )
    up = {out["bandwidth"] for _, spine, out in topology.graph.edges(data=True) if "spine" in spine}
    assert up == {4e9 * 6 / oversubscription / spines}
    half = below(topology, ["leaf0", "leaf1"])
    assert len(half) == 2 + 12
    assert across(topology, half) == pytest.approx(12 * 4e9 / oversubscription, rel=1e-12)


@each_case(("ports", "size", "leaves"), [(2, 1, 2), (8, 2, 4), (9, 3, 3), (32, 4, 8), (33, 5, 7)])
def test_by_default_the_switches_are_the_smallest_that_do(
    ports: int, size: int, leaves: int
) -> None:
    topology = built(join_leaf_spine, ports)
    assert (len(switches(topology, "leaf")), len(switches(topology, "spine"))) == (leaves, size)
    assert set(topology.medium_bandwidth.tolist()) == {4e9}


@each_case("ratio", [0.5, 1.0, 1.5, 2.0, 4.0, 1e9])
def test_by_default_no_uplink_is_faster_than_a_port(ratio: float) -> None:
    topology = built(join_leaf_spine, 30, ports_per_leaf=6, oversubscription=ratio)
    assert len(switches(topology, "spine")) == max(1, np.ceil(6 / ratio))
    assert topology.medium_bandwidth.max() == 4e9


@pytest.mark.parametrize("nics", [1, 3, 8])
def test_by_default_no_node_is_on_two_leaves(nics: int) -> None:
    graph = built(join_leaf_spine, 20, nics).graph
    for node in range(20):
        assert len({leaf for nic in range(nics) for leaf in graph[f"node{node}.nic{nic}"]}) == 1


@each_case("join", [join_leaf_spine, join_rails])
@each_case("bad", [0.0, 0, -1.0, float("nan"), float("inf")])
def test_an_impossible_oversubscription_is_refused(join: Join, bad: float) -> None:
    with pytest.raises(InputError, match=f"^oversubscription must be above 0, got {bad}$"):
        built(join, 4, 2, oversubscription=bad)


# Rails.


@each_case(("nodes", "size", "spines"), [(4, 2, 3), (5, 2, 1), (32, 32, 4), (3, 8, 0)])
def test_every_rail_has_a_leaf_a_group(nodes: int, size: int, spines: int) -> None:
    topology = built(join_rails, nodes, 4, nodes_per_leaf=size, spines=spines)
    groups = -(-nodes // size)
    assert switches(topology, "leaf") == [
        f"rail{rail}.leaf{group}" for group in range(groups) for rail in range(4)
    ]
    assert topology.links == 2 * (4 * nodes + 4 * groups * spines)
    for node in range(nodes):
        for nic in range(4):
            assert list(topology.graph[f"node{node}.nic{nic}"]) == [f"rail{nic}.leaf{node // size}"]


@each_case(("nodes", "unit"), [(2, 2), (32, 32), (33, 32), (64, 32)])
def test_by_default_a_group_is_a_scalable_unit_and_its_uplinks_are_as_fast_as_ports(
    nodes: int, unit: int
) -> None:
    topology = built(join_rails, nodes, 2)
    assert len(switches(topology, "leaf")) == 2 * -(-nodes // unit)
    assert len(switches(topology, "spine")) == unit
    assert set(topology.medium_bandwidth.tolist()) == {4e9}


def test_rails_of_one_port_a_node_are_leaves_and_spines() -> None:
    rails = built(join_rails, 12, nodes_per_leaf=4, spines=3, oversubscription=2.0)
    leaves = built(join_leaf_spine, 12, ports_per_leaf=4, spines=3, oversubscription=2.0)
    assert np.array_equal(rails.source, leaves.source)
    assert np.array_equal(rails.target, leaves.target)
    assert np.array_equal(rails.medium_bandwidth, leaves.medium_bandwidth)


def test_without_spines_other_rails_are_reached_through_the_nodes() -> None:
    """Over NVLink, 0.125 s away, to the GPU on the right rail, then over that."""
    builder = TopologyBuilder("rail-only", paths="hash")
    first = builder.copies(full_mesh(4, bandwidth=1e12, latency=0.125), 3)
    gpus = np.add.outer(first, np.arange(4, dtype=np.int32))
    join_rails(builder, gpus, EQUIPMENT, spines=0)
    far = distances(builder.build(gpus.ravel()))[0].reshape(3, 4)
    assert far.tolist() == [
        [0, 0.125, 0.125, 0.125],
        [2, 2.125, 2.125, 2.125],
        [2, 2.125, 2.125, 2.125],
    ]


def test_without_spines_bare_ports_of_different_rails_are_apart() -> None:
    topology = built(join_rails, 3, 2, spines=0)
    assert len(topology.route(0, 2)) == 2
    assert "no route from rank 0 to rank 1" in refusal(topology.route, 0, 1)


def test_several_groups_need_spines() -> None:
    assert refusal(built, join_rails, 9, 2, nodes_per_leaf=8, spines=0).endswith(
        "without spines a rail is one leaf: nodes_per_leaf is at least 9, got 8"
    )


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_full_fat_tree_is_al_fares(k: int) -> None:
    ports, half = k**3 // 4, k // 2
    topology = built(join_fat_tree, ports, k=k)
    assert [len(switches(topology, word)) for word in ("edge", "aggregation", "core")] == [
        k * half,
        k * half,
        half**2,
    ]
    assert len(topology.device_names) == ports + 5 * k**2 // 4
    assert topology.links == 2 * 3 * ports
    degrees = dict(topology.graph.out_degree)
    assert {
        degrees[name]
        for word in ("edge", "aggregation", "core")
        for name in switches(topology, word)
    } == {k}
    assert nx.diameter(topology.graph) == 6
    hops = 1 + (distances(topology)[0] - 2) / 0.25
    assert Counter(hops[1:].tolist()) == +Counter(
        {1.0: half - 1, 3.0: half**2 - half, 5.0: ports - half**2}
    )


def test_an_aggregation_switch_has_cores_of_its_own() -> None:
    graph = built(join_fat_tree, 54, k=6).graph
    for pod in range(6):
        assert [core for core in graph[f"pod{pod}.aggregation1"] if "core" in core] == [
            "core3",
            "core4",
            "core5",
        ]
        assert [edge for edge in graph[f"pod{pod}.aggregation1"] if "core" not in edge] == [
            f"pod{pod}.edge{number}" for number in range(3)
        ]


@pytest.mark.parametrize(("k", "ports"), [(2, 2), (4, 16), (4, 11), (6, 54)])
def test_any_half_of_the_ports_sends_to_the_other_at_full_bandwidth(k: int, ports: int) -> None:
    topology = built(join_fat_tree, ports, k=k)
    for seed in range(4):
        graph = nx.DiGraph(
            (source, target, {"capacity": 1}) for source, target in topology.graph.edges
        )
        shuffled = Random(seed).sample(range(ports), ports)
        for sender, receiver in zip(shuffled[: ports // 2], shuffled[ports // 2 :], strict=False):
            graph.add_edge("all senders", f"node{sender}.nic0", capacity=1)
            graph.add_edge(f"node{receiver}.nic0", "all receivers", capacity=1)
        assert nx.maximum_flow_value(graph, "all senders", "all receivers") == ports // 2


@each_case(("ports", "k"), [(1, 2), (2, 2), (3, 4), (16, 4), (17, 6), (54, 6), (55, 8), (1024, 16)])
def test_by_default_a_fat_tree_is_the_smallest_that_fits(ports: int, k: int) -> None:
    default, asked = built(join_fat_tree, ports), built(join_fat_tree, ports, k=k)
    assert default.device_names == asked.device_names
    assert np.array_equal(default.source, asked.source)
    assert len(switches(default, "core")) == k**2 // 4


@each_case(("k", "least"), [(5, 4), (3, 4), (2, 4), (7, 4)])
def test_an_odd_or_small_k_is_refused(k: int, least: int) -> None:
    assert refusal(built, join_fat_tree, 12, k=k).endswith(
        f"a fat tree of 12 ports takes an even k of at least {least}, got {k}"
    )
