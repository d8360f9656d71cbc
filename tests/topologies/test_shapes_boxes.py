"""Closed forms and identities of grids, tori and hypercubes."""

from collections.abc import Callable
from math import prod
from typing import Any

import networkx as nx
import numpy as np
import pytest

from grouped_cases import each_case
from shape_forms import RANKS, gpu_edges, grid_wires, same, square, torus_wires
from topologies.errors import InputError
from topologies.routing import distances
from topologies.shapes import (
    grid,
    hypercube,
    line,
    ring,
    torus,
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


@each_case("dims", BOXES)
def test_links_and_diameters_of_boxes(dims: tuple[int, ...]) -> None:
    ranks = prod(dims)
    flat, wrapped = (shape(ranks, bandwidth=1e9, dims=dims) for shape in (grid, torus))
    assert (flat.links, wrapped.links) == (2 * grid_wires(dims), 2 * torus_wires(dims))
    assert nx.diameter(flat.graph) == sum(width - 1 for width in dims)
    assert nx.diameter(wrapped.graph) == sum(width // 2 for width in dims)
    degree = sum(min(2, width - 1) for width in dims)
    assert set(dict(wrapped.graph.out_degree).values()) == {degree}


@each_case("dims", BOXES)
def test_every_rank_of_a_torus_sees_the_same(dims: tuple[int, ...]) -> None:
    far = np.sort(distances(torus(prod(dims), bandwidth=1e9, latency=1.0, dims=dims)))
    assert np.array_equal(far, np.broadcast_to(far[0], far.shape))
    assert far[0, -1] == sum(width // 2 for width in dims)


@each_case("dims", BOXES)
def test_latency_in_a_grid_is_the_distance_in_every_dimension(dims: tuple[int, ...]) -> None:
    at = np.stack(np.unravel_index(np.arange(prod(dims)), dims))
    distance = np.abs(at[:, :, None] - at[:, None, :])
    around = np.minimum(distance, np.array(dims)[:, None, None] - distance)
    for shape, wanted in ((grid, distance), (torus, around)):
        topology = shape(prod(dims), bandwidth=1e9, latency=1.0, dims=dims)
        assert np.array_equal(distances(topology), wanted.sum(axis=0))


def links_across(topology: Topology, inside: set[int]) -> int:
    """The links that lead out of a set of devices."""
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    return sum(source in inside and target not in inside for source, target in ends)


@each_case("dims", [(2,), (4,), (6, 5), (4, 4), (4, 4, 4), (8, 3, 2), (2, 2, 2, 2)])
def test_half_of_a_box_is_cut_off_at_one_layer_of_a_grid_and_at_two_of_a_torus(
    dims: tuple[int, ...],
) -> None:
    ranks = prod(dims)
    layer, half = ranks // dims[0], set(range(ranks // 2))
    assert links_across(grid(ranks, bandwidth=1e9, dims=dims), half) == layer
    assert links_across(torus(ranks, bandwidth=1e9, dims=dims), half) == (
        layer if dims[0] == 2 else 2 * layer
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
    assert links_across(cube, set(range(ranks // 2))) == ranks // 2


def test_four_ranks_in_a_square_are_a_ring_in_another_order() -> None:
    square_of_four, four = torus(4, bandwidth=1e9).graph, ring(4, bandwidth=1e9).graph
    assert set(square_of_four.edges) != set(four.edges)
    assert nx.is_isomorphic(square_of_four, four)
    assert nx.is_isomorphic(hypercube(16, bandwidth=1e9).graph, torus(16, bandwidth=1e9).graph)


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
