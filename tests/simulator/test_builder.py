"""The builder's dependencies against a slow reference that looks at every pair of operations; and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.builder import ScheduleBuilder
from simulator.collectives.ring import ring_all_reduce
from simulator.schedule import COMPUTE, TRANSFER, Schedule
from topologies._compile import compiled
from topologies.errors import InputError

NAN, INF = float("nan"), float("inf")
LAWS = settings(deadline=None, max_examples=150)

Access = Literal["read", "overwrite", "reduce"]
Cell = tuple[int, int]
Row = tuple[int, int, int, int, int]
"""Rank, peer, source slot, target slot, count."""


# What calls mean, written down as plainly as possible.


@dataclass
class Meaning:
    """Of every operation so far: what it does to which cells, and what it was told to wait for."""

    accesses: list[set[tuple[Cell, Access]]] = field(default_factory=list)
    waits: list[set[int]] = field(default_factory=list)

    def add(self, accesses: Iterable[tuple[Cell, Access]], waits: Iterable[int]) -> None:
        self.accesses.append(set(accesses))
        self.waits.append(set(waits))

    def edges(self) -> list[set[int]]:
        """The earlier operations that conflict with each, and those it was told to wait for."""
        wanted = []
        for later, mine in enumerate(self.accesses):
            before = {i for i in range(later) if conflict(self.accesses[i], mine)}
            wanted.append(before | self.waits[later])
        return wanted


def conflict(one: set[tuple[Cell, Access]], other: set[tuple[Cell, Access]]) -> bool:
    """Two accesses to one cell commute when both read or both reduce, and in no other case."""
    return any(
        mine[0] == theirs[0] and (mine[1] != theirs[1] or mine[1] == "overwrite")
        for mine, theirs in product(one, other)
    )


def ancestors(edges: list[set[int]]) -> list[set[int]]:
    """The transitive closure of edges that lead backwards."""
    known: list[set[int]] = []
    for before in edges:
        known.append(before.union(*(known[i] for i in before)))
    return known


def predecessors(schedule: Schedule) -> list[set[int]]:
    return [set(schedule.predecessors(i).tolist()) for i in range(len(schedule))]


# Calls at random.


@dataclass(frozen=True)
class Call:
    """One call of a builder: `rows` are its operations; `after` picks those to wait for, for all or a row each."""

    kind: Literal["copy", "reduce", "compute", "signal", "inline"]
    rows: tuple[Row, ...] = ()
    after: tuple[int, ...] | tuple[tuple[int, ...], ...] = ()
    child: tuple[Call, ...] = ()
    child_slots: int = 1
    place: tuple[int, ...] = ()
    shift: int = 0


@st.composite
def a_row(draw: st.DrawFn, ranks: int, slots: int) -> Row:
    count = draw(st.integers(1, min(3, slots)))
    rank, peer = draw(st.integers(0, ranks - 1)), draw(st.integers(0, ranks - 1))
    return rank, peer, draw(st.integers(0, slots - count)), draw(st.integers(0, slots - count)), count


@st.composite
def a_call(draw: st.DrawFn, ranks: int, slots: int, depth: int) -> Call:
    kinds = ["copy", "copy", "reduce", "reduce", "compute", "signal"] + ["inline"] * depth
    kind: Any = draw(st.sampled_from(kinds))
    after: Any = draw(st.just(()) | st.lists(st.integers(0, 50), max_size=3).map(tuple))
    if kind == "inline":
        size = draw(st.integers(2, ranks))
        place = tuple(draw(st.permutations(range(ranks)))[:size])
        child_slots = draw(st.integers(1, slots))
        child = tuple(draw(st.lists(a_call(size, child_slots, 0), max_size=4)))
        shift = draw(st.integers(0, slots - child_slots))
        return Call(kind, (), after, child, child_slots, place, shift)
    rows = tuple(draw(st.lists(a_row(ranks, slots), min_size=1, max_size=1 if kind == "compute" else 5)))
    if draw(st.booleans()):
        width = draw(st.integers(1, 2))
        after = tuple(tuple(draw(st.integers(-1, 50)) for _ in range(width)) for _ in rows)
    return Call(kind, rows, after)


@st.composite
def programs(draw: st.DrawFn) -> tuple[int, int, tuple[Call, ...]]:
    """Ranks, slots and calls."""
    ranks, slots = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    return ranks, slots, tuple(draw(st.lists(a_call(ranks, slots, 1), min_size=1, max_size=10)))


def cells(rank: int, first: int, count: int) -> list[Cell]:
    return [(rank, first + k) for k in range(count)]


def is_race(call: Call) -> bool:
    """Whether an operation of the call writes what one reads, or two overwrite the same."""
    if call.kind not in ("copy", "reduce"):
        return False
    reads = [cell for rank, _, source, _, count in call.rows for cell in cells(rank, source, count)]
    writes = [cell for _, peer, _, target, count in call.rows for cell in cells(peer, target, count)]
    return bool(set(reads) & set(writes)) or (call.kind == "copy" and len(set(writes)) < len(writes))


def waits_of(call: Call, earlier: int) -> Iterator[tuple[int, ...]]:
    """What each row is told to wait for, folded into the operations that there are; -1 stays -1."""
    for number in range(max(1, len(call.rows))):
        picked: Any = call.after[number] if call.after and isinstance(call.after[0], tuple) else call.after
        yield tuple(-1 if pick < 0 or not earlier else pick % earlier for pick in picked)


def play(ranks: int, slots: int, calls: tuple[Call, ...]) -> tuple[Schedule, Meaning]:
    """Make the calls, and write down what they mean. A call is refused exactly when it is a race."""
    builder, meaning = ScheduleBuilder(ranks, 1.0, slots=slots), Meaning()
    for call in calls:
        size = len(builder)
        if is_race(call):
            with pytest.raises(InputError, match=r"of (one|a) call"):
                _send(builder, call, ())
            assert len(builder) == size
            continue
        waits = list(waits_of(call, size))
        after: Any = waits if call.after and isinstance(call.after[0], tuple) else waits[0]
        if call.kind == "inline":
            child, inner = play(len(call.place), call.child_slots, call.child)
            added = builder.inline(child, ranks=list(call.place), slot=call.shift, after=after)
            _note_inlined(meaning, inner, call, size, {i for i in waits[0] if i >= 0})
        else:
            added = _send(builder, call, after)
            for row, before in zip(call.rows, waits, strict=True):
                meaning.add(_touched(call.kind, row), {i for i in before if i >= 0})
        assert added.tolist() == list(range(size, len(builder)))
    return builder.build(), meaning


def _send(builder: ScheduleBuilder, call: Call, after: Any) -> Any:
    rank, peer, source, target, count = (np.array(column) for column in zip(*call.rows, strict=True))
    if call.kind == "signal":
        return builder.signal(rank, peer, after=after)
    if call.kind == "compute":
        return builder.compute(rank, 1.0, reads=source, writes=target, count=count, after=after)
    method = builder.copy if call.kind == "copy" else builder.reduce
    return method(rank, peer, slot=source, target=target, count=count, after=after)


def _touched(kind: str, row: Row) -> Iterator[tuple[Cell, Access]]:
    rank, peer, source, target, count = row
    if kind == "signal":
        return
    write: Access = "reduce" if kind == "reduce" else "overwrite"
    for cell in cells(rank, source, count):
        yield cell, "read"
    for cell in cells(rank if kind == "compute" else peer, target, count):
        yield cell, write


def _note_inlined(meaning: Meaning, inner: Meaning, call: Call, first: int, waits: set[int]) -> None:
    for accesses, before in zip(inner.accesses, inner.waits, strict=True):
        mapped = {((call.place[rank], slot + call.shift), access) for (rank, slot), access in accesses}
        meaning.add(mapped, waits | {i + first for i in before})


@LAWS
@given(programs())
def test_dependencies_are_the_closure_of_pairwise_conflicts(program: tuple[int, int, tuple[Call, ...]]) -> None:
    schedule, meaning = play(*program)
    assert len(schedule) == len(meaning.accesses)
    assert ancestors(predecessors(schedule)) == ancestors(meaning.edges())


@LAWS
@given(programs())
def test_predecessors_are_sorted_lower_and_there_once(program: tuple[int, int, tuple[Call, ...]]) -> None:
    schedule, _ = play(*program)
    assert schedule.indptr.dtype == schedule.indices.dtype == np.int32
    assert schedule.indptr[0] == 0
    assert schedule.indptr[-1] == len(schedule.indices)
    for i in range(len(schedule)):
        row = schedule.predecessors(i).tolist()
        assert row == sorted(set(row))
        assert all(0 <= before < i for before in row)


@LAWS
@given(programs())
def test_compiled_and_plain_kernels_derive_the_same(program: tuple[int, int, tuple[Call, ...]]) -> None:
    with patch("simulator.builder.kernel", lambda function, operations: function):
        plain, _ = play(*program)
    with patch("simulator.builder.kernel", lambda function, operations: compiled(function)):
        fast, _ = play(*program)
    assert plain.indptr.dtype == fast.indptr.dtype
    assert plain.indices.dtype == fast.indices.dtype
    assert np.array_equal(plain.indptr, fast.indptr)
    assert np.array_equal(plain.indices, fast.indices)


# The same in stories.


def waits(schedule: Schedule, operation: int) -> list[int]:
    return [int(before) for before in schedule.predecessors(operation)]


def test_reductions_into_a_slot_do_not_wait_for_each_other_and_a_read_waits_for_all() -> None:
    builder = ScheduleBuilder(4, 1.0)
    builder.reduce([1, 2, 3], 0, slot=0)
    builder.copy(0, 1, slot=0)
    schedule = builder.build()
    assert [waits(schedule, i) for i in range(3)] == [[], [], []]
    assert waits(schedule, 3) == [0, 1, 2]


def test_readers_do_not_wait_for_each_other_and_an_overwrite_waits_for_all() -> None:
    builder = ScheduleBuilder(4, 1.0)
    builder.copy(0, [1, 2], slot=0)
    builder.copy(3, 0, slot=0)
    assert waits(builder.build(), 2) == [0, 1]


def test_an_overwrite_waits_for_the_overwrite_before() -> None:
    builder = ScheduleBuilder(3, 1.0)
    builder.copy(1, 0, slot=0)
    builder.copy(2, 0, slot=0)
    assert waits(builder.build(), 1) == [0]


def test_operations_on_different_slots_and_ranks_are_independent() -> None:
    builder = ScheduleBuilder(3, 1.0, slots=3)
    builder.copy([0, 1, 2], [1, 2, 0], slot=[0, 1, 2])
    builder.copy([0, 1, 2], [1, 2, 0], slot=[1, 2, 0])
    schedule = builder.build()
    assert waits(schedule, 0) == waits(schedule, 1) == waits(schedule, 2) == []


def test_a_signal_waits_for_what_it_is_told_and_for_nothing_else() -> None:
    builder = ScheduleBuilder(3, 1.0)
    first = builder.copy(0, 1, slot=0)
    builder.copy(2, 1, slot=0)
    builder.signal(1, 0)
    builder.signal(1, 0, after=first)
    schedule = builder.build()
    assert [waits(schedule, i) for i in range(4)] == [[], [0], [], [0]]


def test_a_computation_may_update_a_slot_in_place() -> None:
    builder = ScheduleBuilder(2, 1.0)
    builder.copy(1, 0, slot=0)
    builder.compute(0, 1.0, reads=0, writes=0)
    builder.copy(0, 1, slot=0)
    schedule = builder.build()
    assert [waits(schedule, i) for i in range(3)] == [[], [0], [0, 1]]


@pytest.mark.parametrize("after", [1, [1], (1,), np.array([1]), np.array(1), np.int32(1), [[1]], [[-1, 1]]])
def test_operations_to_wait_for_may_be_one_or_many_for_all_or_a_row_each(after: Any) -> None:
    builder = ScheduleBuilder(3, 1.0)
    builder.signal([0, 1], 2)
    builder.copy(0, 1, slot=0, after=after)
    assert waits(builder.build(), 2) == [1]


def test_a_row_of_operations_to_wait_for_each() -> None:
    builder = ScheduleBuilder(4, 1.0)
    builder.signal([0, 1, 2], 3)
    builder.signal([0, 1, 2], 3, after=np.array([[0, 1], [-1, -1], [2, 2]]))
    schedule = builder.build()
    assert [waits(schedule, i) for i in (3, 4, 5)] == [[0, 1], [], [2]]


def test_columns_hold_what_was_asked_for() -> None:
    builder = ScheduleBuilder(3, 12.0, slots=4, scratch=2, servers=1, phase="first")
    builder.copy([0, 1], 2, slot=[0, 1], target=[4, 2], count=2)
    builder.phase("second")
    builder.reduce(3, 0, slot=3)
    builder.signal(2, 1, nbytes=5.0)
    builder.phase("first")
    builder.compute([0, 2], np.array([1.5, 2.5]), lane=[1, 2], reads=[-1, 0], writes=[3, -1], count=1)
    schedule = builder.build()
    assert (schedule.ranks, schedule.workers, schedule.buffer, schedule.slots, schedule.lanes) == (4, 3, 4, 6, 3)
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


@pytest.mark.parametrize("slots", [3, 7, 10, 33, 100])
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


def three_rank_child() -> Schedule:
    child = ScheduleBuilder(3, 30.0, slots=2, phase="inner")
    first = child.copy([0, 1], 2, slot=[0, 1])
    child.phase("told")
    child.signal(2, 0, after=first)
    child.compute(1, 4.0, lane=2, reads=0)
    return child.build()


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
    assert [schedule.phases[k] for k in schedule.phase] == ["outer", "inner", "inner", "told", "told"]
    assert schedule.lanes == 3
    assert waits(schedule, 3) == [1, 2]


def test_every_operation_of_a_child_waits_for_what_the_child_is_told_to() -> None:
    parent = ScheduleBuilder(3, 30.0, slots=2)
    before = parent.signal(0, 1)
    added = parent.inline(three_rank_child(), after=before)
    schedule = parent.build()
    assert all(0 in ancestors(predecessors(schedule))[i] for i in added)


def test_two_children_in_a_row_are_ordered_by_the_slots_they_share() -> None:
    parent = ScheduleBuilder(3, 30.0, slots=4)
    child = three_rank_child()
    parent.inline(child, slot=0)
    parent.inline(child, slot=2)
    parent.inline(child, slot=0)
    known = ancestors(predecessors(parent.build()))
    assert not known[4] & {0, 1, 2, 3}
    assert 0 in known[8]


@pytest.mark.parametrize(
    ("ranks", "slot"),
    [([0, 1], 0), ([0, 1, 2, 3], 0), ([0, 1, 5], 0), ([0, 1, -1], 0), (None, 1), (None, 7), (None, -1)],
)
def test_a_child_that_does_not_fit_is_refused(ranks: list[int] | None, slot: int) -> None:
    parent = ScheduleBuilder(5, 30.0, slots=2)
    refused(lambda: parent.inline(three_rank_child(), ranks=ranks, slot=slot))


def test_a_child_of_more_ranks_is_refused() -> None:
    refused(lambda: ScheduleBuilder(2, 30.0, slots=2).inline(three_rank_child()))


def test_a_child_of_nothing_adds_nothing() -> None:
    parent = ScheduleBuilder(3, 30.0)
    assert len(parent.inline(ScheduleBuilder(2, 1.0).build(), ranks=[0, 1])) == 0
    assert len(parent.build()) == 0


# Refusals.


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def builder_of_three() -> ScheduleBuilder:
    return ScheduleBuilder(3, 30.0, slots=3)


@pytest.mark.parametrize(
    ("rank", "peer", "slot", "target"),
    [
        pytest.param([0, 1], [1, 2], 0, 0, id="a chain in one call"),
        pytest.param([0, 1], [1, 0], 0, 0, id="an exchange in place"),
        pytest.param(0, 0, 0, 0, id="a slot onto itself"),
        pytest.param([0, 1, 2], [1, 2, 0], [0, 1, 2], [1, 2, 0], id="a rotation"),
    ],
)
@pytest.mark.parametrize("method", ["copy", "reduce"])
def test_a_call_that_writes_what_it_reads_is_refused(method: str, rank: Any, peer: Any, slot: Any, target: Any) -> None:
    call = getattr(builder_of_three(), method)
    assert "writes what another reads" in refused(lambda: call(rank, peer, slot=slot, target=target))


def test_overlapping_ranges_race_too() -> None:
    assert "writes what another reads" in refused(lambda: builder_of_three().copy(0, 0, slot=0, target=1, count=2))
    assert "overwrite the same" in refused(lambda: builder_of_three().copy([0, 1], 2, slot=[0, 1], count=2))


def test_two_overwrites_of_a_slot_in_one_call_are_refused() -> None:
    assert "overwrite the same slot" in refused(lambda: builder_of_three().copy([0, 1], 2, slot=0))


def test_two_reductions_into_a_slot_in_one_call_are_fine() -> None:
    assert len(builder_of_three().reduce([0, 1], 2, slot=0)) == 2


def test_a_refused_race_does_not_poison_later_calls() -> None:
    builder = builder_of_three()
    refused(lambda: builder.copy([0, 1], [1, 0], slot=0))
    builder.copy(0, 1, slot=0)
    builder.copy(1, 0, slot=0)
    assert waits(builder.build(), 1) == [0]


@pytest.mark.parametrize("method", ["copy", "reduce"])
@pytest.mark.parametrize(
    ("slot", "target", "count"), [(3, 0, 1), (0, 3, 1), (-1, 0, 1), (0, -1, 1), (2, 0, 2), (0, 2, 2), (0, 0, 4)]
)
def test_slots_that_are_not_there_are_refused(method: str, slot: int, target: int, count: int) -> None:
    message = refused(lambda: getattr(builder_of_three(), method)(0, 1, slot=slot, target=target, count=count))
    assert "a rank has 3" in message


@pytest.mark.parametrize("count", [0, -1])
def test_a_transfer_of_no_slots_is_refused(count: int) -> None:
    refused(lambda: builder_of_three().copy(0, 1, slot=0, count=count))


@pytest.mark.parametrize(("rank", "peer"), [(3, 0), (0, 3), (-1, 0), (0, -1), (99, 0), (0, 99), ([0, 7], 1)])
@pytest.mark.parametrize("method", ["copy", "reduce", "signal"])
def test_ranks_that_are_not_there_are_refused(method: str, rank: Any, peer: Any) -> None:
    slot = {} if method == "signal" else {"slot": 0}
    message = refused(lambda: getattr(builder_of_three(), method)(rank, peer, **slot))
    assert "ranks run from 0 to 2" in message


@pytest.mark.parametrize("rank", [3, -1, [0, 5]])
def test_a_computation_on_a_rank_that_is_not_there_is_refused(rank: Any) -> None:
    assert "ranks run from 0 to 2" in refused(lambda: builder_of_three().compute(rank, 1.0))


@pytest.mark.parametrize("accessed", ["reads", "writes"])
@pytest.mark.parametrize(("slot", "count"), [(3, 1), (99, 1), (2, 2), (-2, 1), (0, 4)])
def test_a_computation_on_slots_that_are_not_there_is_refused(accessed: str, slot: int, count: int) -> None:
    """The compiled kernels check no index: this would write to memory that is somebody else's."""
    builder = builder_of_three()
    refused(lambda: builder.compute(2, 1.0, count=count, **{accessed: slot}))


@pytest.mark.parametrize(
    ("rank", "reads", "writes"),
    [
        pytest.param([0, 0], [-1, -1], [1, 1], id="two overwrite the same"),
        pytest.param([0, 0], [0, 1], [1, 2], id="one writes what another reads"),
    ],
)
def test_computations_of_one_call_race_as_transfers_do(rank: Any, reads: Any, writes: Any) -> None:
    refused(lambda: builder_of_three().compute(rank, 1.0, reads=reads, writes=writes))


@pytest.mark.parametrize("seconds", [-1.0, -1e-12, NAN, INF, [1.0, -1.0]])
def test_a_computation_takes_finite_time_of_zero_or_more(seconds: Any) -> None:
    refused(lambda: builder_of_three().compute([0, 1], np.asarray(seconds)))


@pytest.mark.parametrize("lane", [-1, -2])
def test_a_lane_is_zero_or_more(lane: int) -> None:
    """-1 would be the reduction lane of the rank before."""
    refused(lambda: builder_of_three().compute(1, 1.0, lane=lane))


@pytest.mark.parametrize("nbytes", [-1.0, NAN, INF])
def test_a_message_has_zero_bytes_or_more(nbytes: float) -> None:
    refused(lambda: builder_of_three().signal(0, 1, nbytes=nbytes))


@pytest.mark.parametrize("after", [[1], [0, 5], [-2], [[0], [1]], 1])
def test_waiting_for_a_later_operation_or_for_itself_is_refused(after: Any) -> None:
    builder = builder_of_three()
    builder.signal(0, 1)
    assert "earlier ones only" in refused(lambda: builder.copy([0, 1], 2, slot=[0, 1], after=after))


@pytest.mark.parametrize("after", [[[0], [0], [0]], [[[0]], [[0]]]])
def test_operations_to_wait_for_in_another_shape_are_refused(after: Any) -> None:
    builder = builder_of_three()
    builder.signal(0, 1)
    refused(lambda: builder.copy([0, 1], 2, slot=[0, 1], after=after))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda builder: builder.copy(0, 1, slot=0, after=[7]), id="a later operation"),
        pytest.param(lambda builder: builder.signal(0, 1, after=[-2]), id="an operation before the first"),
        pytest.param(lambda builder: builder.compute(0, 1.0, after=[7]), id="a computation after a later one"),
        pytest.param(lambda builder: builder.compute(0, -1.0, lane=5), id="negative time"),
        pytest.param(lambda builder: builder.signal(0, 9), id="an unknown rank"),
        pytest.param(lambda builder: builder.inline(three_rank_child(), ranks=[0, 1, 9]), id="a child too far out"),
    ],
)
def test_a_refused_call_leaves_nothing_behind(call: Callable[[ScheduleBuilder], object]) -> None:
    builder = builder_of_three()
    builder.copy(0, 1, slot=0)
    refused(lambda: call(builder))
    assert len(builder) == 1
    schedule = builder.build()
    assert (len(schedule), schedule.lanes, schedule.phases) == (1, 1, ("transfer",))


@pytest.mark.parametrize("ranks", [0, -2])
def test_a_schedule_has_a_rank_or_more(ranks: int) -> None:
    assert f"ranks must be at least 1, got {ranks}" in refused(lambda: ScheduleBuilder(ranks, 1.0))


@pytest.mark.parametrize("nbytes", [0.0, -1.0, NAN, INF])
def test_a_buffer_has_bytes(nbytes: float) -> None:
    assert f"nbytes is {nbytes}" in refused(lambda: ScheduleBuilder(2, nbytes))


@pytest.mark.parametrize("slots", [[0.5, 0.4], [0.5, 0.6], [1.5, -0.5], [NAN, 1.0], [0.0], [], 0, -1])
def test_shares_that_do_not_add_up_are_refused(slots: Any) -> None:
    refused(lambda: ScheduleBuilder(2, 1.0, slots=slots))


@pytest.mark.parametrize("scratch", [-1, [-0.5], [NAN], [INF]])
def test_scratch_that_cannot_be_is_refused(scratch: Any) -> None:
    refused(lambda: ScheduleBuilder(2, 1.0, scratch=scratch))


def test_servers_are_not_negative() -> None:
    refused(lambda: ScheduleBuilder(3, 1.0, servers=-1))


# What a schedule is made of.


COLUMNS = (
    *("kind", "rank", "peer", "source", "target", "count", "reduces", "nbytes", "seconds", "lane", "phase"),
    *("indptr", "indices"),
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
    one, two = builder.build(), builder.build()
    assert all(np.array_equal(getattr(one, name), getattr(two, name)) for name in COLUMNS)


def held(schedule: Schedule) -> int:
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
    assert held(schedule) <= 64 * len(schedule)


def test_columns_are_contiguous_and_of_one_set_of_dtypes() -> None:
    wanted: dict[str, Any] = {name: np.dtype(np.int32) for name in COLUMNS}
    wanted |= dict.fromkeys(("kind", "reduces"), np.dtype(np.int8)) | dict.fromkeys(
        ("lane", "phase"), np.dtype(np.int16)
    )
    wanted |= dict.fromkeys(("nbytes", "seconds"), np.dtype(np.float64))
    for schedule in (ring_all_reduce(5, 1e6), three_rank_child(), replace(three_rank_child()).scaled(3.0)):
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
    refused(lambda: ScheduleBuilder(2, 8.0, scratch=1).copy([0, 1], [1, 0], slot=1))


@pytest.mark.parametrize("unordered", [-1, 3])
def test_only_scratch_is_unordered(unordered: int) -> None:
    assert f"{unordered} slots are unordered: 0 to 2" in refused(
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
    assert "slots 7 to 7 are not all there" in refused(lambda: parent.inline(child.build(), scratch=7))
