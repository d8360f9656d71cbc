"""Closed forms, identities and routes of the plain shapes."""

from collections.abc import Callable
from itertools import permutations
from math import ceil, log2, prod, sqrt

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from shape_forms import RANKS, full_bandwidth, gpu_edges, grid_wires, same, square, torus_wires
from topologies.routing import distances
from topologies.shapes import (
    SHAPES,
    bus,
    full_mesh,
    full_mesh_one_port,
    leaf_spine,
    line,
    nodes,
    ring,
    star,
    tree,
)
from topologies.topology import Topology

CASES = [
    (shape, p) for shape in SHAPES for p in RANKS if shape != "hypercube" or p in (2, 4, 8, 16)
]


LINKS: dict[str, Callable[[int], int]] = {
    "line": lambda p: 2 * (p - 1),
    "ring": lambda p: 2 * p if p > 2 else 2,
    "tree": lambda p: 2 * (p - 1),
    "star": lambda p: 2 * p,
    "full_mesh": lambda p: p * (p - 1),
    "full_mesh_one_port": lambda p: p * (p - 1),
    "bus": lambda p: 2 * p,
    "grid": lambda p: 2 * grid_wires(square(p)),
    "torus": lambda p: 2 * torus_wires(square(p)),
    "hypercube": lambda p: p * int(log2(p)),
    "leaf_spine": lambda p: 2 * (p + ceil(p / leaf_size(p)) * leaf_size(p)),
    "nodes": lambda p: 2 * p + (2 * p + 2 * ceil(p / 8) if p > 8 else 0),
    "fat_tree": lambda p: 2 * fat_tree_wires(p),
    "dragonfly": lambda p: 2 * dragonfly_wires(p),
}


def leaf_size(p: int) -> int:
    """m ports down and m up: 2m leaves of m ports."""
    return ceil(sqrt(p / 2))


def fat_tree_wires(p: int) -> int:
    """k/2 up from every edge switch and from every aggregation switch."""
    half = next(half for half in range(1, p + 1) if 2 * half**3 >= p)
    edges, pods = ceil(p / half), ceil(p / half**2)
    return p + edges * half + pods * half**2


def dragonfly_wires(p: int) -> int:
    """A full mesh of routers in every group, and of groups."""
    hosts = 1 if p <= 6 else 2
    routers, groups = 2 * hosts, ceil(p / (2 * hosts**2))
    return p + groups * routers * (routers - 1) // 2 + groups * (groups - 1) // 2


def heap_diameter(p: int) -> int:
    """Two of the deepest leaves, on either side of the root where the last level reaches its right
    half."""
    height = p.bit_length() - 1
    return 2 * height if p >= 3 * 2 ** (height - 1) else 2 * height - 1


DIAMETERS: dict[str, Callable[[int], int]] = {
    "line": lambda p: p - 1,
    "ring": lambda p: p // 2,
    "tree": heap_diameter,
    "nodes": lambda p: 2 if p <= 8 else 6,
    "star": lambda p: 2,
    "full_mesh": lambda p: 1,
    "full_mesh_one_port": lambda p: 1,
    "bus": lambda p: 2,
    "grid": lambda p: sum(square(p)) - 2,
    "torus": lambda p: sum(width // 2 for width in square(p)),
    "hypercube": lambda p: int(log2(p)),
    "leaf_spine": lambda p: 4,
    "fat_tree": lambda p: 4 if p in (3, 4) else 6,
    "dragonfly": lambda p: {2: 3, 3: 4, 7: 3, 8: 3, 9: 4}.get(p, 5),
}
"""Between the farthest devices, switches among them; a dragonfly's by hand, for the counts that are
asked for."""


def test_every_shape_has_a_closed_form_here() -> None:
    assert SHAPES.keys() == LINKS.keys() == DIAMETERS.keys()


def test_link_counts() -> None:
    for shape, ranks in CASES:
        topology = full_bandwidth(shape, ranks)
        edges = topology.graph.number_of_edges()
        assert edges == len(topology.link_kinds) == LINKS[shape](ranks), (shape, ranks)


def test_diameters() -> None:
    for shape, ranks in CASES:
        diameter = nx.diameter(full_bandwidth(shape, ranks).graph)
        assert diameter == DIAMETERS[shape](ranks), (shape, ranks)


@each_case(("shape", "ranks"), CASES)
def test_every_wire_runs_both_ways(shape: str, ranks: int) -> None:
    graph = full_bandwidth(shape, ranks).graph
    assert all(
        graph.has_edge(target, source)
        or (shape == "nodes" and any(end.startswith(("in", "out")) for end in (source, target)))
        for source, target in graph.edges
    )
    assert nx.is_strongly_connected(graph)


def test_ranks_of_a_node_meet_at_its_switch_and_leave_by_its_port() -> None:
    topology = nodes(8, bandwidth=1e9, latency=1e-6, gap=1e-7, reduction=1e-12, per_node=3)
    names = topology.device_names
    inside, outside = (
        [names[topology.target[k]] for k in topology.route(0, rank)] for rank in (2, 7)
    )
    assert (inside, outside) == (["node0", "gpu2"], ["out0", "network", "in2", "gpu7"])
    assert topology.node[topology.placement].tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    alone = nodes(3, bandwidth=1e9, per_node=1)
    assert set(alone.link_kinds) == {"network"}
    assert len(alone.route(0, 2)) == 2
    assert set(nodes(3, bandwidth=1e9, per_node=4).link_kinds) == {"node"}


def test_switches_in_nodes_multicast_if_asked_to() -> None:
    plain, multicast = (nodes(8, bandwidth=1e9, per_node=4, multicast=yes) for yes in (False, True))
    assert not plain.in_network.any()
    names = [multicast.device_names[k] for k in np.flatnonzero(multicast.in_network).tolist()]
    assert names == ["node0", "node1"]


@pytest.mark.parametrize("ranks", RANKS)
def test_the_edges_are_networkxs(ranks: int) -> None:
    assert set(line(ranks, bandwidth=1e9).graph.edges) == gpu_edges(nx.path_graph(ranks))
    assert set(ring(ranks, bandwidth=1e9).graph.edges) == gpu_edges(nx.cycle_graph(ranks))
    assert set(full_mesh(ranks, bandwidth=1e9).graph.edges) == gpu_edges(nx.complete_graph(ranks))
    for branching in (1, 2, 3, ranks):
        wanted = gpu_edges(nx.full_rary_tree(branching, ranks))
        assert set(tree(ranks, bandwidth=1e9, branching=branching).graph.edges) == wanted


@pytest.mark.parametrize("gap", [0.0, 2e-6])
def test_two_ranks_are_a_line_whatever_the_shape(gap: float) -> None:
    pair = line(2, bandwidth=3e9, latency=1e-6, gap=gap)
    for shape in (ring, tree, full_mesh):
        assert same(shape(2, bandwidth=3e9, latency=1e-6, gap=gap), pair)


@each_case("ranks", RANKS)
def test_a_tree_that_does_not_branch_is_a_line(ranks: int) -> None:
    assert same(
        tree(ranks, bandwidth=1e9, latency=1e-6, branching=1),
        line(ranks, bandwidth=1e9, latency=1e-6),
    )


@pytest.mark.parametrize("ranks", RANKS)
def test_a_tree_that_branches_once_is_a_hub_at_rank_0(ranks: int) -> None:
    hub = tree(ranks, bandwidth=1e9, branching=ranks - 1)
    assert set(hub.graph.edges) == gpu_edges(nx.star_graph(ranks - 1))
    assert same(tree(ranks, bandwidth=1e9, branching=10 * ranks), hub)


@each_case("ranks", RANKS)
def test_one_port_is_the_same_mesh_behind_two_ports_a_rank(ranks: int) -> None:
    mesh, ported = (
        full_mesh(ranks, bandwidth=2e9, gap=1e-6, ports=ports) for ports in ("peer", "one")
    )
    assert same(ported, full_mesh_one_port(ranks, bandwidth=2e9, gap=1e-6))
    assert np.array_equal(mesh.source, ported.source)
    assert np.array_equal(mesh.target, ported.target)
    assert len(ported.medium_names) == len(mesh.medium_names) + 2 * ranks
    names = ported.medium_names
    for link in range(len(ported.link_kinds)):
        source, target = (
            ported.device_names[ported.source[link]],
            ported.device_names[ported.target[link]],
        )
        assert [names[m] for m in ported.media_of(link)] == [
            f"{source}->{target}",
            f"{source} out",
            f"{target} in",
        ]
    assert np.all(ported.medium_bandwidth == 2e9)
    assert np.all(ported.medium_gap == 1e-6)


@each_case("ranks", RANKS)
def test_every_route_over_a_bus_crosses_it_once_and_costs_one_latency(ranks: int) -> None:
    topology = bus(ranks, bandwidth=2e9, latency=5e-6, gap=1e-6)
    wire = topology.medium_names.index("bus")
    assert (topology.medium_bandwidth[wire], topology.medium_gap[wire]) == (2e9, 1e-6)
    for pair in permutations(range(min(ranks, 6)), 2):
        route = topology.route(*pair)
        assert sum(wire in topology.media_of(link) for link in route) == 1
        assert topology.latency[list(route)].sum() == 5e-6
        port_media = [m for link in route for m in topology.media_of(link) if m != wire]
        assert np.all(np.isinf(topology.medium_bandwidth[port_media]))
        assert np.all(topology.medium_gap[port_media] == 0)


@pytest.mark.parametrize("ranks", RANKS)
def test_ranks_that_fit_on_one_leaf_are_a_star_below_a_spine(ranks: int) -> None:
    below = leaf_spine(ranks, bandwidth=3e9, latency=1e-6, gap=2e-6, ports_per_leaf=ranks, spines=1)
    hub = star(ranks, bandwidth=3e9, latency=1e-6, gap=2e-6)
    assert nx.is_isomorphic(below.graph.subgraph(set(below.graph) - {"spine0"}), hub.graph)
    assert np.array_equal(distances(below), distances(hub))


@st.composite
def any_shape(draw: st.DrawFn) -> Topology:
    """Any shape of up to 24 ranks whose every link has α = 1."""
    shape = draw(st.sampled_from(tuple(SHAPES)))
    if shape in ("grid", "torus"):
        dims = draw(
            st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(
                lambda widths: 2 <= prod(widths) <= 24
            )
        )
        return SHAPES[shape](prod(dims), bandwidth=1e9, latency=1.0, dims=dims)
    ranks = 2 ** draw(st.integers(1, 4)) if shape == "hypercube" else draw(st.integers(2, 24))
    return SHAPES[shape](ranks, bandwidth=1e9, latency=1.0)


@given(any_shape(), st.integers(0, 3))
def test_there_is_a_route_between_any_two_ranks_and_none_is_longer_than_the_diameter(
    topology: Topology, channel: int
) -> None:
    pairs = np.array(list(permutations(range(topology.ranks), 2))).T
    indptr, links = topology.routes(pairs[0], pairs[1], np.full(len(pairs[0]), channel))
    assert 1 <= np.diff(indptr).min() <= np.diff(indptr).max() <= nx.diameter(topology.graph)
    assert np.array_equal(topology.source[links[indptr[:-1]]], topology.placement[pairs[0]])
    assert np.array_equal(topology.target[links[indptr[1:] - 1]], topology.placement[pairs[1]])
    inner = np.setdiff1d(np.arange(len(links)), indptr[1:] - 1)
    assert np.array_equal(topology.target[links[inner]], topology.source[links[inner + 1]])
    assert (
        np.add.reduceat(topology.latency[links], indptr[:-1]).tolist()
        == distances(topology)[tuple(pairs)].tolist()
    )
