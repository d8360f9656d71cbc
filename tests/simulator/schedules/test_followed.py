"""What stands for all slots catches what all slots catch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folded import groups
from law_cases import tries
from simulator.collectives import Algorithm, algorithms, find
from simulator.collectives.collective import ALL_TO_ALL
from simulator.schedules import semantics
from simulator.schedules.followed import follow_slots
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Shifts, rotations

FOLDING = [a for a in algorithms().values() if a.shifts(8) and a.fit is None]
COLUMNS = (
    "kind rank peer source target count reduces nbytes seconds lane phase".split()  # noqa: SIM905
)


def without(schedule: Schedule, operation: int) -> Schedule:
    """The schedule without an operation, and so without all for which it stands."""
    kept = np.arange(len(schedule)) != operation
    columns = {name: getattr(schedule, name)[kept] for name in COLUMNS}
    nobody = np.zeros(len(schedule), np.int32)
    return replace(schedule, **columns, indptr=nobody, indices=nobody[:0])


@pytest.mark.parametrize("algorithm", FOLDING, ids=[a.name for a in FOLDING])
@given(data=st.data())
@tries(3, many=100)
def test_what_is_right_is_proven_and_what_is_wrong_is_caught(
    algorithm: Algorithm, data: st.DataObject
) -> None:
    ranks = data.draw(st.integers(2, 16).filter(lambda p: any(groups(algorithm.shifts(p)))))
    group = data.draw(st.sampled_from([*groups(algorithm.shifts(ranks))]))
    schedule = algorithm.schedule(ranks, 4.0 * ranks, group)
    semantics.check(schedule, algorithm.collective)
    moving = np.flatnonzero(schedule.source >= 0)
    operation = data.draw(st.sampled_from(moving.tolist()))
    with pytest.raises(semantics.WrongResult):
        semantics.check(without(schedule, operation), algorithm.collective)


def test_one_slot_of_a_ring_stands_for_all() -> None:
    followed = follow_slots(find("ring").schedule(8, 8.0, rotations(8)))
    assert followed.slots.tolist() == [0]
    assert followed.weight.tolist() == [8]
    assert len(followed.operation) == 2 * 7


def test_slots_that_mix_are_all_followed() -> None:
    schedule = find("pairwise").schedule(4, 4.0, rotations(4))
    followed = follow_slots(schedule)
    assert followed.slots.tolist() == [*range(8)]
    assert len(followed.operation) == len(schedule) * 4


def test_bits_leave_one_slot() -> None:
    followed = follow_slots(find("halving_doubling").schedule(8, 8.0, Shifts((2,) * 3, (1,) * 3)))
    assert followed.slots.tolist() == [0]


def test_an_all_to_all_is_not_proven_on_some_slots() -> None:
    before = np.zeros((2, 2), np.uint64)
    with pytest.raises(ValueError, match="2 of 4 slots"):
        ALL_TO_ALL.postcondition(before, semantics.SlotSelection(np.arange(2, dtype=np.int32), 4))
