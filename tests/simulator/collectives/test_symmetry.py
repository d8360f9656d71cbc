"""Which ranks may stand for all on which machine."""

import pytest

from grouped_cases import each_case
from simulator.collectives import algorithms, find
from simulator.collectives.symmetry import candidates, fold
from simulator.schedules.shifts import Shifts, bits, in_pairs, rotations
from topologies.clusters import cluster
from topologies.degraded import slowed
from topologies.placement import placed
from topologies.shapes import SHAPES
from topologies.topology import Topology

LINK = {"bandwidth": 1e9, "latency": 1e-6}


def simulated(name: str, topology: Topology, ranks: int) -> int | None:
    """The ranks that are simulated, or None for all."""
    folded = fold(find(name), topology, ranks)
    return None if folded is None else ranks // folded.routed.schedule.members


@pytest.mark.parametrize("name", [n for n, a in algorithms().items() if a.shifts(64)])
def test_one_rank_stands_for_all_on_a_star(name: str) -> None:
    few = simulated(name, SHAPES["star"](64, **LINK), 64)
    assert few == (2 if name == "neighbor_exchange" else 1)


@each_case("name", ["tree", "naive_serial", "parameter_server", "chain_broadcast"])
def test_a_root_leaves_no_shift(name: str) -> None:
    assert simulated(name, SHAPES["star"](64, **LINK), 64) is None


def test_ranks_of_a_node_stand_for_those_of_all_nodes() -> None:
    assert simulated("ring", SHAPES["nodes"](64, **LINK, per_node=8), 64) == 8
    assert simulated("halving_doubling", SHAPES["nodes"](64, **LINK, per_node=8), 64) == 8


@pytest.mark.parametrize("name", ["pairwise", "linear_all_to_all", "naive", "neighbor_exchange"])
def test_ranks_that_meet_at_the_port_of_a_node_stand_for_others(name: str) -> None:
    assert simulated(name, SHAPES["nodes"](64, **LINK, per_node=8), 64) == 8


def test_ranks_stand_for_those_of_other_rings() -> None:
    """Rings of a node are one ring, shifted; units of 32 nodes are joined by spines."""
    assert simulated("rings", cluster("hgx_h100", 8), 64) == 1
    assert simulated("rings", cluster("hgx_h100", 64), 512) == 32


def test_a_ring_on_a_ring() -> None:
    assert simulated("ring", SHAPES["ring"](64, **LINK), 64) == 1
    assert simulated("ring", SHAPES["line"](64, **LINK), 64) is None


def test_flips_on_a_hypercube() -> None:
    assert simulated("halving_doubling", SHAPES["hypercube"](64, **LINK), 64) == 1


def test_a_slow_rank_leaves_no_shift() -> None:
    topology = slowed(SHAPES["star"](64, **LINK), 5, 2.0)
    assert simulated("ring", topology, 64) is None


def test_another_placement_is_judged_by_itself() -> None:
    """Dealt out to the nodes in turn, every rank of a ring sends to another node."""
    topology = placed(SHAPES["nodes"](64, **LINK, per_node=8), "round-robin")
    few = simulated("ring", topology, 64)
    assert few is None or few < 64


def test_hashed_paths_refuse_what_meets_on_them() -> None:
    """A plain ring leaves a node by one rail and enters the next by another, over a spine that a
    hash chooses."""
    assert simulated("ring", cluster("hgx_h100", 4), 32) is None


def test_undefined_numbers_of_ranks_do_not_fold() -> None:
    assert fold(find("halving_doubling"), SHAPES["star"](6, **LINK), 6) is None


@each_case(
    ("shifts", "node", "strides"),
    [
        (rotations(8), 1, [(1,), (2,), (4,)]),
        (rotations(16), 4, [(1,), (4,), (8,)]),
        (rotations(12), 8, [(1,)]),
        (rotations(7), 1, [(1,)]),
        (bits(8), 2, [(1, 1, 1), (1, 1, 2), (1, 2, 1), (1, 2, 2), (2, 2, 1)]),
        (Shifts((4, 2), (1, 1)), 2, [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)]),
        (in_pairs(8), 4, [(1, 2), (2, 2)]),
        (in_pairs(2), 1, []),
        (None, 1, []),
    ],
)
def test_candidates(shifts: Shifts | None, node: int, strides: list[tuple[int, ...]]) -> None:
    assert [group.strides for group in candidates(shifts, node)] == strides
