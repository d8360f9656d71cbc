"""Ranks, slots, lanes, channels and operations are whole numbers: nothing is cut off in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grouped_cases import each_case
from refusals import refusal
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_schedules import three_rank_child

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


def builder_of_three() -> ScheduleBuilder:
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
    builder = builder_of_three()
    message = refusal(lambda: CALLS[what](builder, value))
    assert message == f"{what.partition(' ')[0]} is {shown}: expected a whole number, like 1"
    assert len(builder) == 1


def test_the_ranks_of_a_child_are_whole_numbers() -> None:
    ranks: Any = [0, 1.5, 2]
    message = refusal(lambda: builder_of_three().inline(three_rank_child(), ranks=ranks))
    assert message == "ranks is 1.5: expected a whole number, like 1"


@each_case("what", CALLS)
def test_a_float_that_is_whole_counts_as_the_number(what: str) -> None:
    for value in (0.0, np.float64(0), np.uint64(0)):
        builder, expected = builder_of_three(), builder_of_three()
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
