"""Closed forms and identities of the plain shapes."""

from collections.abc import Callable
from itertools import permutations
from math import ceil, isqrt, log2, prod, sqrt
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.errors import InputError
from topologies.routing import distances
from topologies.shapes import (
    SHAPES,
    bus,
    dragonfly,
    fat_tree,
    full_mesh,
    full_mesh_one_port,
    grid,
    hypercube,
    leaf_spine,
    line,
    nodes,
    ring,
    star,
    torus,
    tree,
)
from topologies.topology import Topology

RANKS = [*range(2, 10), 16, 33]
CASES = [(shape, p) for shape in SHAPES for p in RANKS if shape != "hypercube" or p in (2, 4, 8, 16)]
BOXES = [(5,), (2,), (2, 2), (3, 3), (2, 5), (4, 3), (4, 4, 4), (2, 3, 4), (3, 2, 2, 3), (2,) * 5, (1, 7), (6, 1, 1)]
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
    "grid": lambda p: 2 * grid_wires(square(p)),
    "torus": lambda p: 2 * torus_wires(square(p)),
    "hypercube": lambda p: p * int(log2(p)),
    "leaf_spine": lambda p: 2 * (p + ceil(p / leaf_size(p)) * leaf_size(p)),
    "nodes": lambda p: 2 * p + (2 * p + 2 * ceil(p / 8) if p > 8 else 0),
    "fat_tree": lambda p: 2 * fat_tree_wires(p),
    "dragonfly": lambda p: 2 * dragonfly_wires(p),
}


def square(p: int) -> tuple[int, int]:
    """The factors nearest to each other, the smaller one first."""
    low = max(width for width in range(1, isqrt(p) + 1) if p % width == 0)
    return low, p // low


def grid_wires(dims: tuple[int, ...]) -> int:
    """In a dimension of w, w - 1 wires for each of the rows."""
    return sum(prod(dims) // width * (width - 1) for width in dims)


def torus_wires(dims: tuple[int, ...]) -> int:
    """As many as there are ranks in every dimension, half as many in one of 2, none in one of 1."""
    return sum(prod(dims) // (2 if width == 2 else 1) for width in dims if width > 1)


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
    """Two of the deepest leaves, on either side of the root where the last level reaches its right half."""
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
"""Between the farthest devices, switches among them; a dragonfly's by hand, for the counts that are asked for."""


def test_every_shape_has_a_closed_form_here() -> None:
    assert SHAPES.keys() == LINKS.keys() == DIAMETERS.keys()


@pytest.mark.parametrize(("shape", "ranks"), CASES)
def test_link_counts(shape: str, ranks: int) -> None:
    topology = full_bandwidth(shape, ranks)
    assert topology.graph.number_of_edges() == len(topology.link_kinds) == LINKS[shape](ranks)


@pytest.mark.parametrize(("shape", "ranks"), CASES)
def test_diameters(shape: str, ranks: int) -> None:
    assert nx.diameter(full_bandwidth(shape, ranks).graph) == DIAMETERS[shape](ranks)


@pytest.mark.parametrize(("shape", "ranks"), CASES)
def test_every_wire_runs_both_ways(shape: str, ranks: int) -> None:
    graph = full_bandwidth(shape, ranks).graph
    assert all(
        graph.has_edge(other, one) or (shape == "nodes" and any(end.startswith(("in", "out")) for end in (one, other)))
        for one, other in graph.edges
    )
    assert nx.is_strongly_connected(graph)


def test_ranks_of_a_node_meet_at_its_switch_and_leave_by_its_port() -> None:
    topology = nodes(8, bandwidth=1e9, latency=1e-6, gap=1e-7, reduction=1e-12, per_node=3)
    names = topology.device_names
    here, there = ([names[topology.target[k]] for k in topology.route(0, rank)] for rank in (2, 7))
    assert (here, there) == (["node0", "gpu2"], ["out0", "network", "in2", "gpu7"])
    assert topology.node[topology.placement].tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    alone = nodes(3, bandwidth=1e9, per_node=1)
    assert set(alone.link_kinds) == {"network"}
    assert len(alone.route(0, 2)) == 2
    assert set(nodes(3, bandwidth=1e9, per_node=4).link_kinds) == {"node"}


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


def lattice_edges(dims: tuple[int, ...], *, periodic: bool) -> set[tuple[str, str]]:
    """The edges of networkx's grid, whose nodes are coordinates, the last dimension first."""
    graph = nx.grid_graph(dim=dims[::-1], periodic=periodic)
    places = [place if isinstance(place, tuple) else (place,) for place in graph]
    number = {place: np.ravel_multi_index(at, dims) for place, at in zip(graph, places, strict=True)}
    return gpu_edges(nx.relabel_nodes(graph, number))


@pytest.mark.parametrize("dims", BOXES)
def test_the_edges_of_boxes_are_networkxs(dims: tuple[int, ...]) -> None:
    assert set(grid(prod(dims), bandwidth=1e9, dims=dims).graph.edges) == lattice_edges(dims, periodic=False)
    assert set(torus(prod(dims), bandwidth=1e9, dims=dims).graph.edges) == lattice_edges(dims, periodic=True)


@pytest.mark.parametrize("dims", BOXES)
def test_links_and_diameters_of_boxes(dims: tuple[int, ...]) -> None:
    ranks = prod(dims)
    flat, wrapped = (shape(ranks, bandwidth=1e9, dims=dims) for shape in (grid, torus))
    assert (flat.links, wrapped.links) == (2 * grid_wires(dims), 2 * torus_wires(dims))
    assert nx.diameter(flat.graph) == sum(width - 1 for width in dims)
    assert nx.diameter(wrapped.graph) == sum(width // 2 for width in dims)
    degree = sum(min(2, width - 1) for width in dims)
    assert set(dict(wrapped.graph.out_degree).values()) == {degree}


@pytest.mark.parametrize("dims", BOXES)
def test_every_rank_of_a_torus_sees_the_same(dims: tuple[int, ...]) -> None:
    far = np.sort(distances(torus(prod(dims), bandwidth=1e9, latency=1.0, dims=dims)))
    assert np.array_equal(far, np.broadcast_to(far[0], far.shape))
    assert far[0, -1] == sum(width // 2 for width in dims)


@pytest.mark.parametrize("dims", BOXES)
def test_latency_in_a_grid_is_the_distance_in_every_dimension(dims: tuple[int, ...]) -> None:
    at = np.stack(np.unravel_index(np.arange(prod(dims)), dims))
    apart = np.abs(at[:, :, None] - at[:, None, :])
    around = np.minimum(apart, np.array(dims)[:, None, None] - apart)
    for shape, wanted in ((grid, apart), (torus, around)):
        topology = shape(prod(dims), bandwidth=1e9, latency=1.0, dims=dims)
        assert np.array_equal(distances(topology), wanted.sum(axis=0))


def links_across(topology: Topology, inside: set[int]) -> int:
    """The links that lead out of a set of devices."""
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    return sum(source in inside and target not in inside for source, target in ends)


@pytest.mark.parametrize("dims", [(2,), (4,), (6, 5), (4, 4), (4, 4, 4), (8, 3, 2), (2, 2, 2, 2)])
def test_half_of_a_box_is_cut_off_at_one_layer_of_a_grid_and_at_two_of_a_torus(dims: tuple[int, ...]) -> None:
    ranks = prod(dims)
    layer, half = ranks // dims[0], set(range(ranks // 2))
    assert links_across(grid(ranks, bandwidth=1e9, dims=dims), half) == layer
    assert links_across(torus(ranks, bandwidth=1e9, dims=dims), half) == (layer if dims[0] == 2 else 2 * layer)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_box_of_one_dimension_is_a_line_or_a_ring(ranks: int) -> None:
    for dims in ((ranks,), (1, ranks), (ranks, 1), (1,) * 70 + (ranks,)):
        for shape, known in ((grid, line), (torus, ring)):
            box = shape(ranks, bandwidth=3e9, latency=1e-6, gap=2e-6, reduction=7e-12, dims=dims)
            assert same(box, known(ranks, bandwidth=3e9, latency=1e-6, gap=2e-6, reduction=7e-12))


@pytest.mark.parametrize("ranks", RANKS)
def test_a_box_is_as_square_as_can_be_unless_said(ranks: int) -> None:
    for shape in (grid, torus):
        assert same(shape(ranks, bandwidth=1e9), shape(ranks, bandwidth=1e9, dims=square(ranks)))
    assert same(grid(12, bandwidth=1e9), grid(12, bandwidth=1e9, dims=[3, 4]))


@pytest.mark.parametrize("dimensions", range(1, 8))
def test_a_hypercube_is_a_grid_and_a_torus_of_two_a_dimension(dimensions: int) -> None:
    ranks, dims = 2**dimensions, (2,) * dimensions
    cube = hypercube(ranks, bandwidth=3e9, latency=1e-6)
    assert same(cube, torus(ranks, bandwidth=3e9, latency=1e-6, dims=dims))
    assert same(cube, grid(ranks, bandwidth=3e9, latency=1e-6, dims=dims))
    assert all((one ^ other).bit_count() == 1 for one, other in zip(cube.source, cube.target, strict=True))
    assert links_across(cube, set(range(ranks // 2))) == ranks // 2


def test_four_ranks_in_a_square_are_a_ring_in_another_order() -> None:
    square_of_four, four = torus(4, bandwidth=1e9).graph, ring(4, bandwidth=1e9).graph
    assert set(square_of_four.edges) != set(four.edges)
    assert nx.is_isomorphic(square_of_four, four)
    assert nx.is_isomorphic(hypercube(16, bandwidth=1e9).graph, torus(16, bandwidth=1e9).graph)


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 9, 12, 2**20 + 1])
def test_a_hypercube_of_other_than_a_power_of_two_is_refused(ranks: int) -> None:
    with pytest.raises(InputError, match=f"^hypercube takes a power of two, got {ranks}$"):
        hypercube(ranks, bandwidth=1e9)


@pytest.mark.parametrize("shape", [grid, torus])
@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ((5, 3), "dims must multiply to 16 ranks, got 5 x 3$"),
        ((), "dims must multiply to 16 ranks, got none$"),
        ((4, 4, 0), "a dimension must be at least 1, got 0$"),
        ((-4, -4), "a dimension must be at least 1, got -4$"),
        ((4, 4.0), r"a dimension must be a whole number, got 4\.0$"),
        ("16", "a dimension must be a whole number, got '1'$"),
        ((2**63, 2**63), f"a dimension must be at most {2**24}, got {2**63}$"),
    ],
)
def test_dimensions_that_do_not_hold_the_ranks_are_refused(
    shape: Callable[..., Topology], dims: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        shape(16, bandwidth=1e9, dims=dims)


@pytest.mark.parametrize("ranks", RANKS)
def test_ranks_that_fit_on_one_leaf_are_a_star_below_a_spine(ranks: int) -> None:
    below = leaf_spine(ranks, bandwidth=3e9, latency=1e-6, gap=2e-6, ports_per_leaf=ranks, spines=1)
    hub = star(ranks, bandwidth=3e9, latency=1e-6, gap=2e-6)
    assert nx.is_isomorphic(below.graph.subgraph(set(below.graph) - {"spine0"}), hub.graph)
    assert np.array_equal(distances(below), distances(hub))


@pytest.mark.parametrize(
    ("shape", "sizes", "switches", "bandwidths"),
    [
        (leaf_spine, {"ports_per_leaf": 4, "spines": 2}, 4 + 2, {1e9, 2e9}),
        (leaf_spine, {"ports_per_leaf": 4, "spines": 2, "oversubscription": 4.0}, 4 + 2, {1e9, 0.5e9}),
        (leaf_spine, {"ports_per_leaf": 100}, 1, {1e9}),
        (leaf_spine, {}, 6 + 3, {1e9}),
        (fat_tree, {"k": 4}, 8 + 8 + 4, {1e9}),
        (fat_tree, {"k": 6}, 6 + 6 + 9, {1e9}),
        (fat_tree, {}, 8 + 8 + 4, {1e9}),
        (dragonfly, {"hosts": 1, "routers": 4, "global_links": 1}, 16, {1e9}),
        (dragonfly, {"hosts": 2, "routers": 2, "global_links": 2}, 8, {1e9}),
        (dragonfly, {}, 8, {1e9}),
        (dragonfly, {"cables": None}, 8, {1e9, 2e9}),
    ],
)
def test_sizes_reach_the_network(
    shape: Callable[..., Topology], sizes: dict[str, Any], switches: int, bandwidths: set[float]
) -> None:
    topology = shape(16, bandwidth=1e9, latency=1e-6, **sizes)
    assert (topology.ranks, topology.paths) == (16, "hash")
    assert topology.device_kinds.are("switch").sum() == switches
    assert set(topology.medium_bandwidth.tolist()) == bandwidths


@st.composite
def any_shape(draw: st.DrawFn) -> Topology:
    """Any shape of up to 24 ranks whose every link has α = 1."""
    shape = draw(st.sampled_from(tuple(SHAPES)))
    if shape in ("grid", "torus"):
        dims = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda widths: 2 <= prod(widths) <= 24))
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
    assert np.add.reduceat(topology.latency[links], indptr[:-1]).tolist() == distances(topology)[tuple(pairs)].tolist()


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "bus"])
def test_parameters_reach_every_link_and_every_rank(shape: str) -> None:
    topology = full_bandwidth(shape, 8)
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
    assert [name for name, kind in kinds.items() if kind == "gpu"] == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert set(kinds.values()) <= {"gpu", "switch"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", [2.0, 4.5, "8", None])
def test_a_number_of_ranks_that_is_not_whole_is_refused(shape: str, ranks: Any) -> None:
    with pytest.raises(InputError, match=f"ranks must be a whole number, got {ranks!r}$"):
        SHAPES[shape](ranks, bandwidth=1e9)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_number_of_ranks_that_no_memory_holds_is_refused(shape: str) -> None:
    with pytest.raises(InputError, match=f"ranks must be at most {2**24}, got {2**70}$"):
        SHAPES[shape](2**70, bandwidth=1e9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", [1, 0, -3])
def test_fewer_than_two_ranks_are_refused(shape: str, ranks: int) -> None:
    with pytest.raises(InputError, match=f"ranks must be at least 2, got {ranks}$"):
        SHAPES[shape](ranks, bandwidth=1e9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bad", [-1.0, float("nan"), -float("inf")])
@pytest.mark.parametrize("parameter", ["bandwidth", "latency", "gap", "reduction"])
def test_impossible_parameters_are_refused(shape: str, parameter: str, bad: float) -> None:
    with pytest.raises(InputError, match=f"{parameter}( of .*)? is {bad}"):
        SHAPES[shape](4, **{"bandwidth": 1e9, parameter: bad})


@pytest.mark.parametrize("shape", SHAPES)
def test_no_bandwidth_is_refused(shape: str) -> None:
    with pytest.raises(InputError, match=r"is 0\.0B/s"):
        SHAPES[shape](4, bandwidth=0.0)


@pytest.mark.parametrize("ports", ["two", "", "Peer", 1])
def test_unknown_ports_are_refused(ports: Any) -> None:
    with pytest.raises(InputError, match="it is 'peer' or 'one'"):
        full_mesh(3, bandwidth=1e9, ports=ports)


@pytest.mark.parametrize("branching", [0, -1])
def test_a_tree_branches_at_least_once(branching: int) -> None:
    with pytest.raises(InputError, match=f"branching is {branching}"):
        tree(3, bandwidth=1e9, branching=branching)
