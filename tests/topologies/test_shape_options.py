"""Boxes and parameters of shapes: closed forms, identities, and what is refused."""

from collections.abc import Callable
from math import prod
from typing import Any

import networkx as nx
import numpy as np
import pytest

from grouped_cases import each_case
from refusals import refusal
from shape_forms import RANKS, full_bandwidth, gpu_edges, same, square
from topologies.errors import InputError
from topologies.shapes import (
    SHAPES,
    dragonfly,
    fat_tree,
    full_mesh,
    grid,
    hypercube,
    leaf_spine,
    line,
    ring,
    torus,
    tree,
)
from topologies.topology import Topology

BOXES = [
    (5,),
    (2,),
    (2, 2),
    (3, 3),
    (2, 5),
    (4, 3),
    (4, 4, 4),
    (2, 3, 4),
    (3, 2, 2, 3),
    (2,) * 5,
    (1, 7),
    (6, 1, 1),
]


def lattice_edges(dims: tuple[int, ...], *, periodic: bool) -> set[tuple[str, str]]:
    """The edges of networkx's grid, whose nodes are coordinates, the last dimension first."""
    graph = nx.grid_graph(dim=dims[::-1], periodic=periodic)
    places = [place if isinstance(place, tuple) else (place,) for place in graph]
    number = {
        place: np.ravel_multi_index(at, dims) for place, at in zip(graph, places, strict=True)
    }
    return gpu_edges(nx.relabel_nodes(graph, number))


@pytest.mark.parametrize("dims", BOXES)
def test_the_edges_of_boxes_are_networkxs(dims: tuple[int, ...]) -> None:
    assert set(grid(prod(dims), bandwidth=1e9, dims=dims).graph.edges) == lattice_edges(
        dims, periodic=False
    )
    assert set(torus(prod(dims), bandwidth=1e9, dims=dims).graph.edges) == lattice_edges(
        dims, periodic=True
    )


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
    assert all(
        (source ^ target).bit_count() == 1
        for source, target in zip(cube.source, cube.target, strict=True)
    )


@each_case("ranks", [3, 5, 6, 7, 9, 12, 2**20 + 1])
def test_a_hypercube_of_other_than_a_power_of_two_is_refused(ranks: int) -> None:
    with pytest.raises(InputError, match=f"^hypercube takes a power of two, got {ranks}$"):
        hypercube(ranks, bandwidth=1e9)


@each_case("shape", [grid, torus])
@each_case(
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


@each_case(
    ("shape", "sizes", "switches", "bandwidths"),
    [
        (leaf_spine, {"ports_per_leaf": 4, "spines": 2}, 4 + 2, {1e9, 2e9}),
        (
            leaf_spine,
            {"ports_per_leaf": 4, "spines": 2, "oversubscription": 4.0},
            4 + 2,
            {1e9, 0.5e9},
        ),
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


@each_case("shape", [shape for shape in SHAPES if shape != "bus"])
def test_parameters_reach_every_link_and_every_rank(shape: str) -> None:
    topology = full_bandwidth(shape, 8)
    assert np.all(topology.medium_bandwidth == 3e9)
    assert np.all(topology.medium_gap == 2e-6)
    assert np.all(topology.latency == 5e-6)
    assert np.all(topology.reduction[topology.placement] == 7e-12)
    assert np.all(topology.copy == 0)


@each_case("shape", SHAPES)
def test_parameters_are_zero_unless_said(shape: str) -> None:
    topology = SHAPES[shape](4, bandwidth=1e9)
    for column in (topology.latency, topology.medium_gap, topology.reduction, topology.copy):
        assert not column.any()


@each_case("shape", SHAPES)
def test_a_shape_is_named_after_itself(shape: str) -> None:
    assert SHAPES[shape](4, bandwidth=1e9).name == shape


@each_case("shape", SHAPES)
def test_only_hubs_are_switches(shape: str) -> None:
    graph = SHAPES[shape](4, bandwidth=1e9).graph
    kinds = {name: graph.nodes[name]["kind"] for name in graph}
    assert [name for name, kind in kinds.items() if kind == "gpu"] == [
        "gpu0",
        "gpu1",
        "gpu2",
        "gpu3",
    ]
    assert set(kinds.values()) <= {"gpu", "switch"}


@each_case("shape", SHAPES)
@each_case("ranks", [2.0, 4.5, "8", None])
def test_a_number_of_ranks_that_is_not_whole_is_refused(shape: str, ranks: Any) -> None:
    with pytest.raises(InputError, match=f"ranks must be a whole number, got {ranks!r}$"):
        SHAPES[shape](ranks, bandwidth=1e9)


@each_case("shape", SHAPES)
def test_a_number_of_ranks_that_no_memory_holds_is_refused(shape: str) -> None:
    with pytest.raises(InputError, match=f"ranks must be at most {2**24}, got {2**70}$"):
        SHAPES[shape](2**70, bandwidth=1e9)


@each_case("shape", SHAPES)
@each_case("ranks", [1, 0, -3])
def test_fewer_than_two_ranks_are_refused(shape: str, ranks: int) -> None:
    with pytest.raises(InputError, match=f"ranks must be at least 2, got {ranks}$"):
        SHAPES[shape](ranks, bandwidth=1e9)


@each_case("shape", SHAPES)
@each_case("bad", [-1.0, float("nan"), -float("inf")])
@each_case("parameter", ["bandwidth", "latency", "gap", "reduction"])
def test_impossible_parameters_are_refused(shape: str, parameter: str, bad: float) -> None:
    with pytest.raises(InputError, match=f"{parameter}( of .*)? is {bad}"):
        SHAPES[shape](4, **{"bandwidth": 1e9, parameter: bad})


@each_case("ports", ["two", "", "Peer", 1])
def test_unknown_ports_are_refused(ports: Any) -> None:
    assert "it is 'peer' or 'one'" in refusal(full_mesh, 3, bandwidth=1e9, ports=ports)


@pytest.mark.parametrize("branching", [0, -1])
def test_a_tree_branches_at_least_once(branching: int) -> None:
    with pytest.raises(InputError, match=f"branching is {branching}"):
        tree(3, bandwidth=1e9, branching=branching)
