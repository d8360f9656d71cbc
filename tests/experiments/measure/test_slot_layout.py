"""How many elements the slots of a schedule divide."""

import pytest

from experiments.measure.slot_layout import granularity
from refusals import refusal
from simulator.collectives import find


def test_equal_slots_divide_as_many_elements() -> None:
    assert granularity(find("ring").build(6, 6.0)) == 6
    assert granularity(find("permutation").build(6, 6.0)) == 1


@pytest.mark.parametrize("name", ["incast", "posted_all_to_allv"])
def test_slots_that_differ_by_rank_are_refused(name: str) -> None:
    assert refusal(granularity, find(name).build(6, 6.0)).startswith(
        "the ranks of this algorithm hold data of different sizes"
    )
