"""The builder in stories: who waits for whom, how a child is inlined, and what a schedule is made
of."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from grouped_cases import each_case
from refusals import refusal
from simulator.collectives.ring import ring_all_reduce
from simulator.schedules.schedule import COMPUTE, TRANSFER, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_schedules import three_rank_child, waits


@each_case("after", [1, [1], (1,), np.array([1]), np.array(1), np.int32(1), [[1]], [[-1, 1]]])
def test_operations_to_wait_for_may_be_one_or_many_for_all_or_a_row_each(after: Any) -> None:
    builder = ScheduleBuilder(3, 1.0)
    builder.signal([0, 1], 2)
    builder.copy(0, 1, slot=0, after=after)
    assert waits(builder.build(), 2) == [1]


def test_columns_hold_what_was_asked_for() -> None:
    builder = ScheduleBuilder(3, 12.0, slots=4, scratch=2, servers=1, phase="first")
    builder.copy([0, 1], 2, slot=[0, 1], target=[4, 2], count=2)
    builder.phase("second")
    builder.reduce(3, 0, slot=3)
    builder.signal(2, 1, nbytes=5.0)
    builder.phase("first")
    builder.compute(
        [0, 2], np.array([1.5, 2.5]), lane=[1, 2], reads=[-1, 0], writes=[3, -1], count=1
    )
    schedule = builder.build()
    assert (schedule.ranks, schedule.workers, schedule.buffer, schedule.slots, schedule.lanes) == (
        4,
        3,
        4,
        6,
        3,
    )
    assert schedule.nbytes_total == 12.0
    assert schedule.phases == ("first", "second")
    assert schedule.kind.tolist() == [TRANSFER] * 4 + [COMPUTE] * 2
    assert schedule.rank.tolist() == [0, 1, 3, 2, 0, 2]
    assert schedule.peer.tolist() == [2, 2, 0, 1, 0, 2]
    assert schedule.source.tolist() == [0, 1, 3, -1, -1, 0]
    assert schedule.target.tolist() == [4, 2, 3, -1, 3, -1]
    assert schedule.count.tolist()[:3] == [2, 2, 1]
    assert schedule.reduces.tolist() == [0, 0, 1, 0, 0, 0]
    assert schedule.nbytes.tolist() == [6.0, 6.0, 3.0, 5.0, 0.0, 0.0]
    assert schedule.seconds.tolist() == [0.0, 0.0, 0.0, 0.0, 1.5, 2.5]
    assert schedule.lane.tolist() == [0, 0, 0, 0, 1, 2]
    assert schedule.phase.tolist() == [0, 0, 1, 1, 0, 0]


def test_unequal_shares_weigh_what_they_are() -> None:
    builder = ScheduleBuilder(2, 80.0, slots=[0.5, 0.25, 0.125, 0.125], scratch=[1.0, 0.0])
    builder.copy(0, 1, slot=[0, 1, 2], count=[1, 1, 2])
    builder.copy(1, 0, slot=4, count=2)
    assert builder.build().nbytes.tolist() == [40.0, 20.0, 20.0, 80.0]


def test_a_computation_counts_the_slots_that_it_reads_or_writes() -> None:
    builder = ScheduleBuilder(4, 1.0, slots=3)
    builder.compute([0, 1, 2, 3], 1.0, reads=[0, -1, -1, 0], writes=[-1, 0, -1, 0], count=2)
    builder.compute([0, 1, 2, 3], 1.0, reads=[1, -1, -1, 1], writes=[-1, 1, -1, 1], count=1)
    assert builder.build().count.tolist() == [2, 2, 0, 2, 1, 1, 0, 1]


@each_case("slots", [3, 7, 10, 33, 100])
def test_equal_shares_have_equal_bytes_to_the_bit(slots: int) -> None:
    builder = ScheduleBuilder(2, 1e6, slots=slots, scratch=1)
    builder.copy(0, 1, slot=np.arange(slots))
    assert len(set(builder.build().nbytes.tolist())) == 1


def test_no_operation_is_a_schedule_too() -> None:
    builder = ScheduleBuilder(2, 1.0)
    builder.copy([], [], slot=[])
    schedule = builder.build()
    assert (len(schedule), schedule.steps, schedule.volume) == (0, 0, 0.0)
    assert schedule.sent().tolist() == [0.0, 0.0]


# Inlining.


def test_a_child_lands_on_the_ranks_and_slots_it_is_given() -> None:
    parent = ScheduleBuilder(5, 100.0, slots=4, phase="outer")
    parent.copy(1, 4, slot=3)
    added = parent.inline(three_rank_child(), ranks=[4, 0, 2], slot=2)
    schedule = parent.build()
    assert added.tolist() == [1, 2, 3, 4]
    assert schedule.rank.tolist() == [1, 4, 0, 2, 0]
    assert schedule.peer.tolist() == [4, 2, 2, 4, 0]
    assert schedule.source.tolist() == [3, 2, 3, -1, 2]
    assert schedule.target.tolist() == [3, 2, 3, -1, -1]
    assert schedule.nbytes.tolist() == [25.0, 15.0, 15.0, 0.0, 0.0]
    assert [schedule.phases[k] for k in schedule.phase] == [
        "outer",
        "inner",
        "inner",
        "told",
        "told",
    ]
    assert schedule.lanes == 3
    assert waits(schedule, 3) == [1, 2]


@each_case(
    ("ranks", "slot"),
    [
        ([0, 1], 0),
        ([0, 1, 2, 3], 0),
        ([0, 1, 5], 0),
        ([0, 1, -1], 0),
        (None, 1),
        (None, 7),
        (None, -1),
    ],
)
def test_a_child_that_does_not_fit_is_refused(ranks: list[int] | None, slot: int) -> None:
    parent = ScheduleBuilder(5, 30.0, slots=2)
    refusal(lambda: parent.inline(three_rank_child(), ranks=ranks, slot=slot))


def test_a_child_of_more_ranks_is_refused() -> None:
    refusal(lambda: ScheduleBuilder(2, 30.0, slots=2).inline(three_rank_child()))


# What a schedule is made of.


COLUMNS = (
    *("kind", "rank", "peer", "source", "target", "count", "reduces", "nbytes", "seconds", "lane"),
    *("phase", "indptr", "indices"),
)


def test_a_built_schedule_does_not_follow_its_builder() -> None:
    """The builder's columns grow in place: a schedule that shares them would read freed memory."""
    builder = ScheduleBuilder(2, 1.0)
    for number in range(1024):
        builder.signal(number % 2, 1 - number % 2, nbytes=float(number))
    schedule = builder.build()
    kept = {name: getattr(schedule, name).copy() for name in COLUMNS}
    for _ in range(5000):
        builder.signal(1, 0, nbytes=-0.0)
    builder.build()
    for name in COLUMNS:
        assert np.array_equal(getattr(schedule, name), kept[name]), name


def test_building_twice_gives_the_same() -> None:
    builder = ScheduleBuilder(3, 1.0)
    builder.copy(0, 1, slot=0)
    builder.signal(1, 2, after=[0])
    first, second = builder.build(), builder.build()
    assert all(np.array_equal(getattr(first, name), getattr(second, name)) for name in COLUMNS)


def peak_bytes(schedule: Schedule) -> int:
    """Bytes that the columns keep alive: a view keeps all that it looks into."""
    seen: dict[int, int] = {}
    for name in COLUMNS:
        column = getattr(schedule, name)
        while isinstance(column.base, np.ndarray):
            column = column.base
        seen[id(column)] = column.nbytes
    return sum(seen.values())


@pytest.mark.parametrize("ranks", [91, 92, 128])
def test_an_operation_of_a_big_ring_takes_at_most_64_bytes(ranks: int) -> None:
    schedule = ring_all_reduce(ranks, 1e9)
    assert len(schedule) == 2 * (ranks - 1) * ranks
    assert sum(getattr(schedule, name).nbytes for name in COLUMNS) <= 64 * len(schedule)
    assert peak_bytes(schedule) <= 64 * len(schedule)


def test_columns_are_contiguous_and_of_one_set_of_dtypes() -> None:
    wanted: dict[str, Any] = {name: np.dtype(np.int32) for name in COLUMNS}
    wanted |= dict.fromkeys(("kind", "reduces"), np.dtype(np.int8)) | dict.fromkeys(
        ("lane", "phase"), np.dtype(np.int16)
    )
    wanted |= dict.fromkeys(("nbytes", "seconds"), np.dtype(np.float64))
    for schedule in (
        ring_all_reduce(5, 1e6),
        three_rank_child(),
        replace(three_rank_child()).scaled(3.0),
    ):
        assert {name: getattr(schedule, name).dtype for name in COLUMNS} == wanted
        assert all(getattr(schedule, name).flags.c_contiguous for name in COLUMNS)
        assert schedule.shares.dtype == np.float64


def test_unordered_slots_make_nobody_wait() -> None:
    builder = ScheduleBuilder(3, 8.0, scratch=2, unordered=1)
    builder.reduce([1, 2], 0, slot=0, target=2)
    builder.copy(0, [1, 2], slot=2, target=1)
    builder.reduce(1, 0, slot=1, target=2)
    schedule = builder.build()
    assert [schedule.predecessors(i).tolist() for i in range(5)] == [[], [], [], [], [2]]


def test_a_call_may_read_and_write_an_unordered_slot() -> None:
    builder = ScheduleBuilder(2, 8.0, scratch=1, unordered=1)
    assert len(builder.copy([0, 1], [1, 0], slot=1)) == 2
    builder = ScheduleBuilder(2, 8.0, scratch=1)
    builder.copy([0, 1], [1, 0], slot=1)
    refusal(builder.build)


@pytest.mark.parametrize("unordered", [-1, 3])
def test_only_scratch_is_unordered(unordered: int) -> None:
    assert f"{unordered} slots are unordered: 0 to 2" in refusal(
        lambda: ScheduleBuilder(2, 8.0, slots=3, scratch=2, unordered=unordered)
    )


def test_a_child_has_its_scratch_where_it_is_told() -> None:
    child = ScheduleBuilder(2, 4.0, slots=2, scratch=1, phase="exchange")
    child.copy(0, 1, slot=0, target=2)
    child.reduce(1, 1, slot=2, target=1)
    parent = ScheduleBuilder(2, 8.0, slots=4, scratch=3)
    parent.inline(child.build(), slot=1, scratch=6, phase="bucket 1")
    schedule = parent.build()
    assert schedule.source.tolist() == [1, 6]
    assert schedule.target.tolist() == [6, 2]
    assert schedule.phases == ("bucket 1",)
    assert schedule.predecessors(1).tolist() == [0]
    assert "slots 7 to 7 are not all there" in refusal(
        lambda: parent.inline(child.build(), scratch=7)
    )
