"""What the builder refuses, and that a refused call leaves nothing behind; whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from grouped_cases import each_case
from refusals import refusal
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_schedules import three_rank_child

NAN, INF = float("nan"), float("inf")


def builder_of_three() -> ScheduleBuilder:
    return ScheduleBuilder(3, 30.0, slots=3)


def race(method: str, *ranks: Any, **operands: Any) -> str:
    """The refusal of a schedule of one call."""
    builder = builder_of_three()
    getattr(builder, method)(*ranks, **operands)
    return refusal(builder.build)


@each_case("method", ["copy", "reduce"])
@each_case(
    ("rank", "peer", "slot", "target"),
    [
        ([0, 1], [1, 2], 0, 0),  # a chain in one call
        ([0, 1], [1, 0], 0, 0),  # an exchange in place
        (0, 0, 0, 0),  # a slot onto itself
        ([0, 1, 2], [1, 2, 0], [0, 1, 2], [1, 2, 0]),  # a rotation
    ],
)
def test_a_call_that_writes_what_it_reads_is_refused(
    method: str, rank: Any, peer: Any, slot: Any, target: Any
) -> None:
    assert "writes what another reads" in race(method, rank, peer, slot=slot, target=target)


def test_overlapping_ranges_race_too() -> None:
    assert "writes what another reads" in race("copy", 0, 0, slot=0, target=1, count=2)
    assert "overwrite the same" in race("copy", [0, 1], 2, slot=[0, 1], count=2)


def test_two_may_add_to_a_slot_in_one_call_and_not_overwrite_it() -> None:
    assert "overwrite the same slot, 0" in race("copy", [0, 1], 2, slot=0)
    builder = builder_of_three()
    builder.reduce([0, 1], 2, slot=0)
    assert len(builder.build()) == 2


@each_case("method", ["copy", "reduce"])
@each_case(
    ("slot", "target", "count"),
    [(3, 0, 1), (0, 3, 1), (-1, 0, 1), (0, -1, 1), (2, 0, 2), (0, 2, 2), (0, 0, 4)],
)
def test_slots_that_are_not_there_are_refused(
    method: str, slot: int, target: int, count: int
) -> None:
    message = refusal(
        lambda: getattr(builder_of_three(), method)(0, 1, slot=slot, target=target, count=count)
    )
    assert "a rank has 3" in message


@pytest.mark.parametrize("count", [0, -1])
def test_a_transfer_of_no_slots_is_refused(count: int) -> None:
    refusal(lambda: builder_of_three().copy(0, 1, slot=0, count=count))


@each_case(("rank", "peer"), [(3, 0), (0, 3), (-1, 0), (0, -1), (99, 0), (0, 99), ([0, 7], 1)])
@each_case("method", ["copy", "reduce", "signal"])
def test_ranks_that_are_not_there_are_refused(method: str, rank: Any, peer: Any) -> None:
    slot = {} if method == "signal" else {"slot": 0}
    message = refusal(lambda: getattr(builder_of_three(), method)(rank, peer, **slot))
    assert "ranks run from 0 to 2" in message


@pytest.mark.parametrize("rank", [3, -1, [0, 5]])
def test_a_computation_on_a_rank_that_is_not_there_is_refused(rank: Any) -> None:
    assert "ranks run from 0 to 2" in refusal(lambda: builder_of_three().compute(rank, 1.0))


@each_case("accessed", ["reads", "writes"])
@each_case(("slot", "count"), [(3, 1), (99, 1), (2, 2), (-2, 1), (0, 4)])
def test_a_computation_on_slots_that_are_not_there_is_refused(
    accessed: str, slot: int, count: int
) -> None:
    """The compiled kernels check no index: this would write to memory that is somebody else's."""
    builder = builder_of_three()
    refusal(lambda: builder.compute(2, 1.0, count=count, **{accessed: slot}))


def test_computations_of_one_call_race_as_transfers_do() -> None:
    assert "overwrite the same" in race("compute", [0, 0], 1.0, writes=1)
    assert "reads" in race("compute", [0, 0], 1.0, reads=[0, 1], writes=[1, 2])


@each_case("seconds", [-1.0, -1e-12, NAN, INF, [1.0, -1.0]])
def test_a_computation_takes_finite_time_of_zero_or_more(seconds: Any) -> None:
    refusal(lambda: builder_of_three().compute([0, 1], np.asarray(seconds)))


@pytest.mark.parametrize("lane", [-1, -2, 1024])
def test_a_lane_is_zero_or_more(lane: int) -> None:
    """-1 would be the reduction lane of the rank before."""
    refusal(lambda: builder_of_three().compute(1, 1.0, lane=lane))
    refusal(lambda: builder_of_three().compute([0, 1], 1.0, lane=[0, lane]))


def test_the_last_lane_and_the_last_channel_are_there() -> None:
    builder = builder_of_three()
    builder.compute(1, 1.0, lane=1023)
    assert builder.copy(0, 1, slot=0, channel=1023).tolist() == [1]


def test_more_slots_than_can_be_numbered_are_refused() -> None:
    assert "at most 1073741824 slots" in refusal(lambda: ScheduleBuilder(2**17, 1.0, slots=2**14))


@pytest.mark.parametrize("nbytes", [-1.0, NAN, INF])
def test_a_message_has_zero_bytes_or_more(nbytes: float) -> None:
    refusal(lambda: builder_of_three().signal(0, 1, nbytes=nbytes))


@each_case("after", [[1], [0, 5], [-2], [[0], [1]], 1])
def test_waiting_for_a_later_operation_or_for_itself_is_refused(after: Any) -> None:
    builder = builder_of_three()
    builder.signal(0, 1)
    assert "earlier ones only" in refusal(lambda: builder.copy([0, 1], 2, slot=[0, 1], after=after))


@pytest.mark.parametrize("after", [[[0], [0], [0]], [[[0]], [[0]]]])
def test_operations_to_wait_for_in_another_shape_are_refused(after: Any) -> None:
    builder = builder_of_three()
    builder.signal(0, 1)
    refusal(lambda: builder.copy([0, 1], 2, slot=[0, 1], after=after))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda builder: builder.copy(0, 1, slot=0, after=[7]), id="a later operation"),
        pytest.param(
            lambda builder: builder.signal(0, 1, after=[-2]), id="an operation before the first"
        ),
        pytest.param(
            lambda builder: builder.compute(0, 1.0, after=[7]), id="a computation after a later one"
        ),
        pytest.param(lambda builder: builder.compute(0, -1.0, lane=5), id="negative time"),
        pytest.param(lambda builder: builder.signal(0, 9), id="an unknown rank"),
        pytest.param(
            lambda builder: builder.inline(three_rank_child(), ranks=[0, 1, 9]),
            id="a child too far out",
        ),
    ],
)
def test_a_refused_call_leaves_nothing_behind(call: Callable[[ScheduleBuilder], object]) -> None:
    builder = builder_of_three()
    builder.copy(0, 1, slot=0)
    refusal(lambda: call(builder))
    assert len(builder) == 1
    schedule = builder.build()
    assert (len(schedule), schedule.lanes, schedule.phases) == (1, 1, ("transfer",))


@pytest.mark.parametrize("ranks", [0, -2])
def test_a_schedule_has_a_rank_or_more(ranks: int) -> None:
    assert f"ranks must be at least 1, got {ranks}" in refusal(lambda: ScheduleBuilder(ranks, 1.0))


@each_case("nbytes", [0.0, -1.0, NAN, INF])
def test_a_buffer_has_bytes(nbytes: float) -> None:
    assert f"nbytes is {nbytes}" in refusal(lambda: ScheduleBuilder(2, nbytes))


@each_case("slots", [[0.5, 0.4], [0.5, 0.6], [1.5, -0.5], [NAN, 1.0], [0.0], [], 0, -1])
def test_shares_that_do_not_add_up_are_refused(slots: Any) -> None:
    refusal(lambda: ScheduleBuilder(2, 1.0, slots=slots))


@each_case("scratch", [-1, [-0.5], [NAN], [INF]])
def test_scratch_that_cannot_be_is_refused(scratch: Any) -> None:
    refusal(lambda: ScheduleBuilder(2, 1.0, scratch=scratch))


def test_servers_are_not_negative() -> None:
    refusal(lambda: ScheduleBuilder(3, 1.0, servers=-1))


NAN, INF = float("nan"), float("inf")
CALLS: dict[str, Callable[[ScheduleBuilder, Any], object]] = {
    "rank of a signal": lambda builder, value: builder.signal(value, 2),
    "peer of a signal": lambda builder, value: builder.signal(0, value),
    "after of a signal": lambda builder, value: builder.signal(0, 1, after=value),
    "rank of a copy": lambda builder, value: builder.copy(value, 2, slot=0),
    "peer of a reduction": lambda builder, value: builder.reduce(0, value, slot=0),
    "slot of a copy": lambda builder, value: builder.copy(0, 1, slot=value),
    "target of a copy": lambda builder, value: builder.copy(0, 1, slot=0, target=value),
    "count of a copy": lambda builder, value: builder.copy(0, 1, slot=0, count=value),
    "channel of a copy": lambda builder, value: builder.copy(0, 1, slot=0, channel=value),
    "after of a copy": lambda builder, value: builder.copy(0, 1, slot=0, after=value),
    "rank of a computation": lambda builder, value: builder.compute(value, 1.0),
    "lane of a computation": lambda builder, value: builder.compute(0, 1.0, lane=value),
    "reads of a computation": lambda builder, value: builder.compute(0, 1.0, reads=value),
    "writes of a computation": lambda builder, value: builder.compute(0, 1.0, writes=value),
    "count of a computation": lambda builder, value: builder.compute(0, 1.0, reads=0, count=value),
    "after of a computation": lambda builder, value: builder.compute(0, 1.0, after=value),
    "slot of a child": lambda builder, value: builder.inline(three_rank_child(), slot=value),
    "scratch of a child": lambda builder, value: builder.inline(three_rank_child(), scratch=value),
}


def builder_with_scratch() -> ScheduleBuilder:
    builder = ScheduleBuilder(3, 30.0, slots=3, scratch=3)
    builder.signal(0, 1)
    return builder


@each_case(
    ("value", "shown"),
    [
        (0.5, "0.5"),
        (1.5, "1.5"),
        (NAN, "nan"),
        (INF, "inf"),
        (1e300, "1e+300"),
        ([0, 0.9], "0.9"),
        (np.array([0.25]), "0.25"),
        ("one", "'one'"),
        ([[0], [1, 2]], "[[0], [1, 2]]"),
        (2**70, "1180591620717411303424"),
        (2**63, "9223372036854775808"),
    ],
)
@each_case("what", CALLS)
def test_a_number_that_is_not_whole_is_refused_by_its_name(
    what: str, value: Any, shown: str
) -> None:
    builder = builder_with_scratch()
    message = refusal(lambda: CALLS[what](builder, value))
    assert message == f"{what.partition(' ')[0]} is {shown}: expected a whole number, like 1"
    assert len(builder) == 1


def test_the_ranks_of_a_child_are_whole_numbers() -> None:
    ranks: Any = [0, 1.5, 2]
    message = refusal(lambda: builder_with_scratch().inline(three_rank_child(), ranks=ranks))
    assert message == "ranks is 1.5: expected a whole number, like 1"


@each_case("what", CALLS)
def test_a_float_that_is_whole_counts_as_the_number(what: str) -> None:
    for value in (0.0, np.float64(0), np.uint64(0)):
        builder, expected = builder_with_scratch(), builder_with_scratch()
        number = 1 if what.startswith("count") or what == "peer of a reduction" else 0
        CALLS[what](builder, type(value)(number))
        CALLS[what](expected, number)
        built, wanted = builder.build(), expected.build()
        for column in ("rank", "peer", "source", "target", "count", "lane", "indices"):
            assert getattr(built, column).tolist() == getattr(wanted, column).tolist()


def test_narrow_integers_do_not_overflow() -> None:
    builder = ScheduleBuilder(120, 1.0, slots=4)
    builder.copy(
        np.array([100], dtype=np.int8),
        np.array([101], dtype=np.int8),
        slot=np.array([3], dtype=np.int8),
    )
    assert builder.build().predecessors(0).tolist() == []
    assert builder.build().source.tolist() == [3]


@each_case("what", ["ranks", "slots", "scratch", "unordered", "servers", "switches"])
@each_case("value", [1.5, NAN, INF, "two"])
def test_the_sizes_of_a_schedule_are_whole_numbers(what: str, value: Any) -> None:
    sizes: dict[str, Any] = {"ranks": 3, "scratch": 2} | {what: value}
    message = refusal(lambda: ScheduleBuilder(nbytes=30.0, **sizes))
    assert message == f"{what} is {value!r}: expected a whole number, like 1"


def test_sizes_may_be_numbers_of_numpy() -> None:
    ranks: Any = np.int64(3)
    slots: Any = np.int32(2)
    scratch: Any = np.int64(1)
    builder = ScheduleBuilder(ranks, 30.0, slots=slots, scratch=scratch)
    builder.copy(0, 1, slot=0, target=2)
    assert builder.build().nbytes.tolist() == [15.0]
