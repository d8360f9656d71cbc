"""Shifts that an algorithm of a user declares are held against its schedule where it runs."""

from dataclasses import replace

import numpy as np
import pytest

from folded import groups
from law_cases import a_sixth
from refusals import refusal
from simulator.collectives import Algorithm, algorithms
from simulator.collectives.collective import ALL_GATHER
from simulator.collectives.declared_shifts import check_shifts
from simulator.collectives.symmetry import fold
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, rotations
from simulator.schedules.shifts import fold as folded_ranks
from topologies.shapes import star

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
