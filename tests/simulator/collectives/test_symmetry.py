"""Shifts by which schedules fold, and those that users declare."""

from dataclasses import replace

import numpy as np
import pytest

from folded import groups
from grouped_cases import each_case
from law_cases import a_sixth
from refusals import refusal
from simulator.collectives import Algorithm, algorithms, find
from simulator.collectives.collective import ALL_GATHER
from simulator.collectives.symmetry import candidates, check_shifts, fold
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, bits, in_pairs, rotations
from simulator.schedules.shifts import fold as folded_ranks
from topologies.clusters import cluster
from topologies.shapes import SHAPES, star
from topologies.topology import Topology
from topologies.variants import placed, slowed

LINK = {"bandwidth": 1e9, "latency": 1e-6}
ROOTED = ("tree", "naive_serial", "parameter_server", "chain_broadcast")


def simulated(name: str, topology: Topology, ranks: int) -> int | None:
    """The ranks that are simulated, or None for all."""
    folded = fold(find(name), topology, ranks)
    return None if folded is None else ranks // folded.routed.schedule.members


@pytest.mark.parametrize("name", [n for n, a in algorithms().items() if a.shifts(64)])
def test_one_rank_stands_for_all_on_a_star(name: str) -> None:
    few = simulated(name, SHAPES["star"](64, **LINK), 64)
    assert few == (2 if name == "neighbor_exchange" else 1)


NODES = SHAPES["nodes"](64, **LINK, per_node=8)


@each_case(
    ("name", "topology", "few"),
    [
        # A root, or a slow rank, leaves no shift.
        *((name, SHAPES["star"](64, **LINK), None) for name in ROOTED),
        ("ring", slowed(SHAPES["star"](64, **LINK), 5, 2.0), None),
        # Ranks of a node stand for those of all nodes, also where they meet at its port.
        *((name, NODES, 8) for name in ("ring", "halving_doubling", "pairwise", "naive")),
        *((name, NODES, 8) for name in ("linear_all_to_all", "neighbor_exchange")),
        # Rings of a node are one ring, shifted; units of 32 nodes are joined by spines.
        ("rings", cluster("hgx_h100", 8), 1),
        ("rings", cluster("hgx_h100", 64), 32),
        ("ring", SHAPES["ring"](64, **LINK), 1),
        ("ring", SHAPES["line"](64, **LINK), None),
        ("halving_doubling", SHAPES["hypercube"](64, **LINK), 1),
    ],
)
def test_so_many_ranks_are_simulated(name: str, topology: Topology, few: int | None) -> None:
    assert simulated(name, topology, topology.ranks) == few


def test_another_placement_is_judged_by_itself() -> None:
    """Dealt out to the nodes in turn, every rank of a ring sends to another node."""
    few = simulated("ring", placed(NODES, "round-robin"), 64)
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


RANKS = 12
FOLDING = [algorithm for algorithm in algorithms().values() if algorithm.shifts(8)]


def mine(wrong: str = "", at: int = 3) -> Algorithm:
    """Every rank computes, and then sends its chunk to all others. Above 8 ranks, something is
    wrong at a rank."""

    def direct(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
        shares, is_wrong = np.ones(ranks), ranks > 8
        if wrong == "sizes" and is_wrong:
            shares[at] = 2.0
        ends = folded_ranks(ranks, shifts, SlotMove(0, 0, 1, ranks))
        builder = ScheduleBuilder(ends, nbytes, slots=shares / shares.sum())
        rank = builder.each()
        seconds = np.where((rank == at) & (wrong == "seconds") & is_wrong, 2.0, 1.0)
        first = builder.compute(rank, seconds)
        after = np.where((rank == at) & (wrong == "after") & is_wrong, first, -1)[:, None]
        for step in range(1, ranks):
            builder.copy(rank, (rank + step) % ranks, slot=rank, after=after)
        return builder.build()

    declared = Algorithm("direct", ALL_GATHER, direct, NO_FORMULA, "", shifts=rotations)
    return replace(declared, origin="mine.py")


def test_right_shifts_fold() -> None:
    for compared in (2**20, 4 * RANKS):
        assert fold(mine(), star(RANKS, bandwidth=1.0), RANKS, compared=compared)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            "sizes",
            "by them rank 3 copies its slot 3 to slot 3 of rank 4 on channel 0, 0.0769231 of V, "
            "without them rank 3 copies its slot 3 to slot 3 of rank 4 on channel 0, 0.153846 of V",
        ),
        (
            "seconds",
            "by them rank 3 computes for 1 s on lane 0, without them rank 3 computes for 2 s on "
            "lane 0",
        ),
        ("after", "by them the operation of rank 3 to rank 4 waits for other operations"),
    ],
)
def test_what_a_shift_does_not_take_onto_itself_is_refused_at_the_ranks_that_run(
    wrong: str, words: str
) -> None:
    algorithm = mine(wrong)
    assert refusal(fold, algorithm, star(RANKS, bandwidth=1.0), RANKS) == (
        f"mine.py: direct has wrong shifts on 12 ranks: {words}"
    )


def test_of_many_operations_those_of_the_first_ranks_are_compared() -> None:
    """Room for those of three ranks: the group of shifts by three is compared."""
    topology = star(RANKS, bandwidth=1.0)
    for at in (1, 2):
        words = refusal(fold, mine("seconds", at), topology, RANKS, compared=3 * RANKS)
        assert words.endswith(f"rank {at} computes for 2 s on lane 0")


@pytest.mark.parametrize("algorithm", a_sixth(FOLDING, 2))
def test_shifts_of_simctl_are_right(algorithm: Algorithm) -> None:
    topology = star(8, bandwidth=1.0)
    for group in groups(algorithm.shifts(8)):
        folded = algorithm.on(topology, 8, 1.0, group).schedule
        for room in (2**20, 3 * len(folded)):
            check_shifts(replace(algorithm, origin="mine.py"), topology, folded, room)
