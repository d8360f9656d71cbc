"""Parameters of shapes: they reach every link, every size has its network, and impossible ones are
refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from grouped_cases import each_case
from shape_forms import full_bandwidth
from topologies.errors import InputError
from topologies.shapes import (
    SHAPES,
    dragonfly,
    fat_tree,
    full_mesh,
    leaf_spine,
    tree,
)
from topologies.topology import Topology


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


@each_case("shape", SHAPES)
def test_no_bandwidth_is_refused(shape: str) -> None:
    with pytest.raises(InputError, match=r"is 0\.0B/s"):
        SHAPES[shape](4, bandwidth=0.0)


@each_case("ports", ["two", "", "Peer", 1])
def test_unknown_ports_are_refused(ports: Any) -> None:
    with pytest.raises(InputError, match="it is 'peer' or 'one'"):
        full_mesh(3, bandwidth=1e9, ports=ports)


@pytest.mark.parametrize("branching", [0, -1])
def test_a_tree_branches_at_least_once(branching: int) -> None:
    with pytest.raises(InputError, match=f"branching is {branching}"):
        tree(3, bandwidth=1e9, branching=branching)
