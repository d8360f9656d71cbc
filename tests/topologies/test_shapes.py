"""Closed forms and identities of the plain shapes."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import networkx as nx
import numpy as np
import pytest

from topologies.errors import InputError
from topologies.shapes import SHAPES, bus, full_mesh, full_mesh_one_port, line, ring, star, tree
from topologies.topology import Topology

RANKS = [*range(2, 10), 16, 33]
COLUMNS = (
    *("placement", "source", "target", "latency", "link_indptr", "link_media", "medium_bandwidth", "medium_gap"),
    *("reduction", "copy"),
)


def same(one: Topology, other: Topology) -> bool:
    """The same machine, whatever its name."""
    names = (one.device_names, one.device_kinds, one.medium_names) == (
        other.device_names,
        other.device_kinds,
        other.medium_names,
    )
    return names and all(np.array_equal(getattr(one, column), getattr(other, column)) for column in COLUMNS)


def gpu_edges(graph: Any) -> set[tuple[str, str]]:
    """The edges of a networkx graph of numbers, in both directions, as names of GPUs."""
    return {(f"gpu{one}", f"gpu{other}") for one, other in graph.to_directed().edges if one != other}


def full_bandwidth(shape: str, ranks: int) -> Topology:
    return SHAPES[shape](ranks, bandwidth=3e9, latency=5e-6, gap=2e-6, reduction=7e-12)


LINKS: dict[str, Callable[[int], int]] = {
    "line": lambda p: 2 * (p - 1),
    "ring": lambda p: 2 * p if p > 2 else 2,
    "tree": lambda p: 2 * (p - 1),
    "star": lambda p: 2 * p,
    "full_mesh": lambda p: p * (p - 1),
    "full_mesh_one_port": lambda p: p * (p - 1),
    "bus": lambda p: 2 * p,
}


def heap_diameter(p: int) -> int:
    """Two of the deepest leaves, on either side of the root where the last level reaches its right half."""
    height = p.bit_length() - 1
    return 2 * height if p >= 3 * 2 ** (height - 1) else 2 * height - 1


DIAMETERS: dict[str, Callable[[int], int]] = {
    "line": lambda p: p - 1,
    "ring": lambda p: p // 2,
    "tree": heap_diameter,
    "star": lambda p: 2,
    "full_mesh": lambda p: 1,
    "full_mesh_one_port": lambda p: 1,
    "bus": lambda p: 2,
}


def test_every_shape_has_a_closed_form_here() -> None:
    assert SHAPES.keys() == LINKS.keys() == DIAMETERS.keys()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", RANKS)
def test_link_counts(shape: str, ranks: int) -> None:
    topology = full_bandwidth(shape, ranks)
    assert topology.graph.number_of_edges() == len(topology.link_kinds) == LINKS[shape](ranks)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", RANKS)
def test_diameters(shape: str, ranks: int) -> None:
    assert nx.diameter(full_bandwidth(shape, ranks).graph) == DIAMETERS[shape](ranks)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", RANKS)
def test_every_wire_runs_both_ways(shape: str, ranks: int) -> None:
    graph = full_bandwidth(shape, ranks).graph
    assert all(graph.has_edge(other, one) for one, other in graph.edges)
    assert nx.is_strongly_connected(graph)


@pytest.mark.parametrize("ranks", RANKS)
def test_the_edges_are_networkxs(ranks: int) -> None:
    assert set(line(ranks, bandwidth=1e9).graph.edges) == gpu_edges(nx.path_graph(ranks))
    assert set(ring(ranks, bandwidth=1e9).graph.edges) == gpu_edges(nx.cycle_graph(ranks))
    assert set(full_mesh(ranks, bandwidth=1e9).graph.edges) == gpu_edges(nx.complete_graph(ranks))
    for branching in (1, 2, 3, ranks):
        wanted = gpu_edges(nx.full_rary_tree(branching, ranks))
        assert set(tree(ranks, bandwidth=1e9, branching=branching).graph.edges) == wanted


@pytest.mark.parametrize("ranks", RANKS)
def test_degrees(ranks: int) -> None:
    assert set(dict(ring(ranks, bandwidth=1e9).graph.out_degree).values()) == {min(2, ranks - 1)}
    assert sorted(dict(line(ranks, bandwidth=1e9).graph.out_degree).values()) == [1, 1] + [2] * (ranks - 2)
    assert set(dict(full_mesh(ranks, bandwidth=1e9).graph.in_degree).values()) == {ranks - 1}
    for hub in (star(ranks, bandwidth=1e9), bus(ranks, bandwidth=1e9)):
        assert sorted(dict(hub.graph.in_degree).values()) == [1] * ranks + [ranks]
    assert max(dict(tree(ranks, bandwidth=1e9).graph.out_degree).values()) <= 3


@pytest.mark.parametrize("gap", [0.0, 2e-6])
def test_two_ranks_are_a_line_whatever_the_shape(gap: float) -> None:
    pair = line(2, bandwidth=3e9, latency=1e-6, gap=gap)
    for shape in (ring, tree, full_mesh):
        assert same(shape(2, bandwidth=3e9, latency=1e-6, gap=gap), pair)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_tree_that_does_not_branch_is_a_line(ranks: int) -> None:
    assert same(tree(ranks, bandwidth=1e9, latency=1e-6, branching=1), line(ranks, bandwidth=1e9, latency=1e-6))


@pytest.mark.parametrize("ranks", RANKS)
def test_a_tree_that_branches_once_is_a_hub_at_rank_0(ranks: int) -> None:
    hub = tree(ranks, bandwidth=1e9, branching=ranks - 1)
    assert set(hub.graph.edges) == gpu_edges(nx.star_graph(ranks - 1))
    assert same(tree(ranks, bandwidth=1e9, branching=10 * ranks), hub)


def test_three_in_a_ring_are_a_full_mesh() -> None:
    assert set(ring(3, bandwidth=1e9).graph.edges) == set(full_mesh(3, bandwidth=1e9).graph.edges)


@pytest.mark.parametrize("ranks", RANKS)
def test_one_port_is_the_same_mesh_behind_two_ports_a_rank(ranks: int) -> None:
    mesh, ported = (full_mesh(ranks, bandwidth=2e9, gap=1e-6, ports=ports) for ports in ("peer", "one"))
    assert same(ported, full_mesh_one_port(ranks, bandwidth=2e9, gap=1e-6))
    assert np.array_equal(mesh.source, ported.source)
    assert np.array_equal(mesh.target, ported.target)
    assert len(ported.medium_names) == len(mesh.medium_names) + 2 * ranks
    names = ported.medium_names
    for link in range(len(ported.link_kinds)):
        one, other = ported.device_names[ported.source[link]], ported.device_names[ported.target[link]]
        assert [names[m] for m in ported.media_of(link)] == [f"{one}->{other}", f"{one} out", f"{other} in"]
    assert np.all(ported.medium_bandwidth == 2e9)
    assert np.all(ported.medium_gap == 1e-6)


@pytest.mark.parametrize("ranks", RANKS)
def test_every_route_over_a_bus_crosses_it_once_and_costs_one_latency(ranks: int) -> None:
    topology = bus(ranks, bandwidth=2e9, latency=5e-6, gap=1e-6)
    wire = topology.medium_names.index("bus")
    assert (topology.medium_bandwidth[wire], topology.medium_gap[wire]) == (2e9, 1e-6)
    for pair in permutations(range(min(ranks, 6)), 2):
        route = topology.route(*pair)
        assert sum(wire in topology.media_of(link) for link in route) == 1
        assert topology.latency[list(route)].sum() == 5e-6
        others = [m for link in route for m in topology.media_of(link) if m != wire]
        assert np.all(np.isinf(topology.medium_bandwidth[others]))
        assert np.all(topology.medium_gap[others] == 0)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "bus"])
def test_parameters_reach_every_link_and_every_rank(shape: str) -> None:
    topology = full_bandwidth(shape, 5)
    assert np.all(topology.medium_bandwidth == 3e9)
    assert np.all(topology.medium_gap == 2e-6)
    assert np.all(topology.latency == 5e-6)
    assert np.all(topology.reduction[topology.placement] == 7e-12)
    assert np.all(topology.copy == 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_parameters_are_zero_unless_said(shape: str) -> None:
    topology = SHAPES[shape](4, bandwidth=1e9)
    for column in (topology.latency, topology.medium_gap, topology.reduction, topology.copy):
        assert not column.any()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_named_after_itself(shape: str) -> None:
    assert SHAPES[shape](4, bandwidth=1e9).name == shape


@pytest.mark.parametrize("shape", SHAPES)
def test_only_hubs_are_switches(shape: str) -> None:
    graph = SHAPES[shape](4, bandwidth=1e9).graph
    kinds = {name: graph.nodes[name]["kind"] for name in graph}
    assert {name for name, kind in kinds.items() if kind != "gpu"} <= {"switch", "bus"}
    assert set(kinds.values()) <= {"gpu", "switch"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", [1, 0, -3])
def test_fewer_than_two_ranks_are_refused(shape: str, ranks: int) -> None:
    with pytest.raises(InputError, match=f"ranks must be at least 2, got {ranks}$"):
        SHAPES[shape](ranks, bandwidth=1e9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bad", [-1.0, float("nan"), -float("inf")])
@pytest.mark.parametrize("parameter", ["bandwidth", "latency", "gap", "reduction"])
def test_impossible_parameters_are_refused(shape: str, parameter: str, bad: float) -> None:
    with pytest.raises(InputError, match=f"{parameter} of .* is {bad}"):
        SHAPES[shape](3, **{"bandwidth": 1e9, parameter: bad})


@pytest.mark.parametrize("shape", SHAPES)
def test_no_bandwidth_is_refused(shape: str) -> None:
    with pytest.raises(InputError, match=r"is 0\.0B/s"):
        SHAPES[shape](3, bandwidth=0.0)


@pytest.mark.parametrize("ports", ["two", "", "Peer", 1])
def test_unknown_ports_are_refused(ports: Any) -> None:
    with pytest.raises(InputError, match="it is 'peer' or 'one'"):
        full_mesh(3, bandwidth=1e9, ports=ports)


@pytest.mark.parametrize("branching", [0, -1])
def test_a_tree_branches_at_least_once(branching: int) -> None:
    with pytest.raises(InputError, match=f"branching is {branching}"):
        tree(3, bandwidth=1e9, branching=branching)
