"""How much work a sweep is, before it starts."""

import pytest

from experiments.simulations import workload
from experiments.simulations.case import Case
from experiments.simulations.rules import Rules
from refusals import refusal
from simulator.collectives import find
from topologies.catalogue import find as find_machine


def test_work_counts_every_algorithm_at_every_number_of_ranks() -> None:
    work = workload.work([find("ring"), find("tree")], [16, 32], 3)
    assert work == pytest.approx([3 * (count + 1000) for count in (480, 1984, 30, 62)], rel=0.05)


def test_what_takes_days_is_refused() -> None:
    workload.check(workload.MOST, "63 points")
    message = refusal(workload.check, 2 * workload.MOST, "99999 points")
    assert message.startswith(
        "99999 points with about 8.6 billion operations, more than 4.3 billion: take"
    )


def test_a_schedule_that_cannot_be_is_refused_before_it_is_built() -> None:
    workload.check_schedule(find("tree"), 131_072)
    workload.check_schedule(find("ring"), 16_384)
    whole = Rules(symmetry="off")
    message = refusal(Case, find("ring"), 100_000, find_machine("dgx1").whole(), whole)
    assert message == (
        "ring of 100000 ranks has about 20 billion operations, more than 1.1 billion: "
        "take fewer ranks, or an algorithm with fewer transfers"
    )
