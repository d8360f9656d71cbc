"""Two binary trees over the nodes, a chain in each node."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE
from simulator.collectives.double_tree import PIECES, double_tree_all_reduce, fit, two_trees
from simulator.cost_models import log2_ceil
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.clusters import cluster
from topologies.shapes import star


def children(nodes: int) -> np.ndarray:
    """How many nodes are below each, shape (2, nodes)."""
    return np.array([np.bincount(above[above >= 0], minlength=nodes) for above in two_trees(nodes)])


def way_up(above: np.ndarray, node: int) -> int:
    return 0 if above[node] < 0 else 1 + way_up(above, above[node])


def test_the_trees_of_five_and_six_nodes_by_hand() -> None:
    # 0 - 4 - 2 - (1, 3), and 1 - 0 - 3 - (2, 4); 0 - 4 - (2 - (1, 3), 5), and its mirror image.
    assert two_trees(5).tolist() == [[-1, 2, 4, 2, 0], [1, -1, 3, 0, 3]]
    assert two_trees(6).tolist() == [[-1, 2, 4, 2, 0, 4], [1, 5, 3, 1, 3, -1]]
    assert two_trees(1).tolist() == [[-1], [-1]]


@each_case("nodes", range(2, 34))
def test_trees_are_binary_as_deep_as_they_must_be_and_share_no_inner_node(nodes: int) -> None:
    for above in two_trees(nodes):
        assert max(way_up(above, node) for node in range(nodes)) == log2_ceil(nodes)
        assert np.count_nonzero(above < 0) == 1
    below = children(nodes)
    shared = np.flatnonzero((below > 0).all(axis=0))
    assert below.max() <= 2
    assert shared.tolist() == ([0] if nodes % 2 else [])
    assert np.all(below[:, shared] == 1)


@each_case("ranks", [2, 3, 4, 5, 8, 9, 16, 33])
def test_a_port_carries_twice_v_each_way_and_all_together_what_they_must(ranks: int) -> None:
    schedule = double_tree_all_reduce(ranks, 1.0)
    received = np.bincount(schedule.peer, schedule.nbytes, ranks)
    busiest = min(ranks, 4) / 2
    assert schedule.volume == 2 * (ranks - 1)
    assert (schedule.sent().max(), received.max()) == (busiest, busiest)


@given(
    ranks=st.integers(1, 20),
    per_node=st.integers(1, 9),
    channels=st.integers(1, 5),
    pieces=st.integers(1, 4),
)
def test_nodes_of_any_size_compute_an_all_reduce(
    ranks: int, per_node: int, channels: int, pieces: int
) -> None:
    schedule = double_tree_all_reduce(
        ranks, 1024.0, per_node=per_node, channels=channels, segments=pieces
    )
    semantics.check(schedule, ALL_REDUCE)
    assert schedule.volume == pytest.approx(2 * (ranks - 1) * 1024.0)
    nodes = -(-ranks // per_node)
    assert schedule.steps == 2 * (min(ranks, per_node) - 1 + log2_ceil(nodes))


def test_nodes_come_from_the_machine() -> None:
    fitted = fit(cluster("hgx_h100", 3), 20, 1e6)
    assert fitted.chosen == ("4 channels, two trees of 3 nodes each, chains of 8 ranks",)
    assert fitted.schedule.steps == fitted.cost.steps(20) == 2 * (7 + 2)
    plain = double_tree_all_reduce(20, 1e6, per_node=8, channels=4, segments=PIECES)
    for column in ("rank", "peer", "source", "nbytes", "lane", "indptr", "indices"):
        assert np.array_equal(getattr(fitted.schedule, column), getattr(plain, column)), column


def test_pieces_are_an_option() -> None:
    topology = cluster("hgx_h100", 2)
    fitted = find("double_tree:segments=4").on(topology, 16, 1e6)
    assert 8 * len(fitted.schedule) == len(find("double_tree").on(topology, 16, 1e6).schedule)
    assert "m = 4 pieces" in fitted.cost.assumes


def test_each_channel_leaves_a_node_by_another_rank() -> None:
    schedule = double_tree_all_reduce(12, 1.0, per_node=4, channels=4)
    across = schedule.rank // 4 != schedule.peer // 4
    assert np.array_equal(schedule.rank[across] % 4, schedule.lane[across])
    assert np.array_equal(schedule.peer[across] % 4, schedule.lane[across])
    assert schedule.steps == 2 * (3 + 2)


def test_all_nics_of_a_node_take_part() -> None:
    """Two nodes of eight NICs of 48 GB/s, V up and down through them all."""
    fitted = fit(cluster("hgx_h100", 2), 16, 2.0**34)
    ideal = 2.0**34 / (8 * 48e9)
    assert ideal <= simulate(fitted.schedule, fitted.topology).makespan < 2.5 * ideal


def test_ranks_dealt_out_over_nodes_form_chains_inside_them() -> None:
    topology = cluster("hgx_h100", 2)
    dealt = replace(topology, placement=topology.placement.reshape(2, 8).T.ravel())
    schedule = fit(dealt, 16, 1e6).schedule
    semantics.check(schedule, ALL_REDUCE)
    across = schedule.rank % 2 != schedule.peer % 2
    assert np.array_equal(schedule.rank[across] // 2, schedule.lane[across])


def test_devices_of_no_node_are_nodes_of_their_own() -> None:
    fitted = fit(star(5, bandwidth=1.0), 5, 1.0)
    assert fitted.chosen == ("1 channels, two trees of 5 nodes each, chains of 1 ranks",)
    assert fitted.schedule.steps == 6


@each_case("name", ["per_node", "channels", "segments"])
def test_a_tree_of_nothing_is_refused(name: str) -> None:
    assert f"{name} is 0: 1 or more" in refusal(double_tree_all_reduce, 4, 1.0, **{name: 0})
