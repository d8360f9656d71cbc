"""What the builder refuses, and that a refused call leaves nothing behind; whole numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np

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


def test_computations_of_one_call_race_as_transfers_do() -> None:
    assert "overwrite the same" in race("compute", [0, 0], 1.0, writes=1)
    assert "reads" in race("compute", [0, 0], 1.0, reads=[0, 1], writes=[1, 2])


RANKS = [(3, 0), (0, 3), (-1, 0), (0, -1), (99, 0), (0, 99), ([0, 7], 1)]
SLOTS = [(3, 0, 1), (0, 3, 1), (-1, 0, 1), (0, -1, 1), (2, 0, 2), (0, 2, 2), (0, 0, 4), (0, 0, 0)]
REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    *(
        (method, (0, 1), {"slot": slot, "target": target, "count": count}, "a rank has 3")
        for method in ("copy", "reduce")
        for slot, target, count in SLOTS
    ),
    *(
        (method, ranks, {} if method == "signal" else {"slot": 0}, "ranks run from 0 to 2")
        for method in ("copy", "reduce", "signal")
        for ranks in RANKS
    ),
    *(("compute", (rank, 1.0), {}, "ranks run from 0 to 2") for rank in (3, -1, [0, 5])),
    # The compiled kernels check no index: this would write to memory that is somebody else's.
    *(
        ("compute", (2, 1.0), {accessed: slot, "count": count}, "a rank has 3")
        for accessed in ("reads", "writes")
        for slot, count in ((3, 1), (99, 1), (2, 2), (-2, 1), (0, 4))
    ),
    *(
        ("compute", ([0, 1], np.asarray(seconds)), {}, "0 or more")
        for seconds in (-1.0, -1e-12, NAN, INF, [1.0, -1.0])
    ),
    # -1 would be the reduction lane of the rank before.
    *(
        ("compute", ([0, 1], 1.0), {"lane": lane}, "lanes run from 0 to 1023")
        for lane in (-1, -2, 1024, [0, -1])
    ),
    *(("signal", (0, 1), {"nbytes": nbytes}, "0 or more") for nbytes in (-1.0, NAN, INF)),
    *(
        ("copy", ([0, 1], 2), {"slot": [0, 1], "after": after}, "earlier ones only")
        for after in ([1], [0, 5], [-2], [[0], [1]], 1)
    ),
    *(
        ("copy", ([0, 1], 2), {"slot": [0, 1], "after": after}, "have the shape")
        for after in ([[0], [0], [0]], [[[0]], [[0]]])
    ),
    ("compute", (0, 1.0), {"after": [7]}, "earlier ones only"),
    ("inline", (three_rank_child(),), {"ranks": [0, 1, 9]}, "ranks run from 0 to 2"),
]


@each_case(("method", "operands", "options", "message"), REFUSED)
def test_a_refused_call_says_why_and_leaves_nothing_behind(
    method: str, operands: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    builder = builder_of_three()
    builder.signal(0, 1)
    assert message in refusal(getattr(builder, method), *operands, **options)
    schedule = builder.build()
    assert (len(schedule), schedule.lanes, schedule.phases) == (1, 1, ("transfer",))


@each_case(
    ("sizes", "message"),
    [
        *(({"ranks": ranks}, f"at least 1, got {ranks}") for ranks in (0, -2)),
        *(({"nbytes": nbytes}, f"nbytes is {nbytes}") for nbytes in (0.0, -1.0, NAN, INF)),
        *(
            ({"slots": slots}, "slots ")
            for slots in ([0.5, 0.4], [0.5, 0.6], [1.5, -0.5], [NAN, 1.0], [0.0], [], 0, -1)
        ),
        *(({"scratch": scratch}, "scratch ") for scratch in (-1, [-0.5], [NAN], [INF])),
        ({"servers": -1}, "servers are -1"),
        ({"ranks": 2**17, "slots": 2**14}, "at most 1073741824 slots"),
    ],
)
def test_sizes_that_no_schedule_has_are_refused(sizes: dict[str, Any], message: str) -> None:
    assert message in refusal(lambda: ScheduleBuilder(**{"ranks": 2, "nbytes": 1.0} | sizes))


def test_the_last_lane_and_the_last_channel_are_there() -> None:
    builder = builder_of_three()
    builder.compute(1, 1.0, lane=1023)
    assert builder.copy(0, 1, slot=0, channel=1023).tolist() == [1]


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
