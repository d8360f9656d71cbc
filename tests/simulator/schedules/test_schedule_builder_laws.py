"""The builder's dependencies against a slow reference that looks at every pair of operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_schedules import ancestors, predecessors
from topologies.errors import InputError
from topologies.jit import compiled

NAN, INF = float("nan"), float("inf")

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


def conflict(accesses: set[tuple[Cell, Access]], later_accesses: set[tuple[Cell, Access]]) -> bool:
    """Two accesses to one cell commute when both read or both reduce, and in no other case."""
    return any(
        mine[0] == theirs[0] and (mine[1] != theirs[1] or mine[1] == "overwrite")
        for mine, theirs in product(accesses, later_accesses)
    )


# Calls at random.


@dataclass(frozen=True)
class Call:
    """One call of a builder: `rows` are its operations; `after` picks those to wait for, for all or
    a row each."""

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
    return (
        rank,
        peer,
        draw(st.integers(0, slots - count)),
        draw(st.integers(0, slots - count)),
        count,
    )


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
    rows = tuple(
        draw(st.lists(a_row(ranks, slots), min_size=1, max_size=1 if kind == "compute" else 5))
    )
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
    writes = [
        cell for _, peer, _, target, count in call.rows for cell in cells(peer, target, count)
    ]
    return bool(set(reads) & set(writes)) or (
        call.kind == "copy" and len(set(writes)) < len(writes)
    )


def waits_of(call: Call, earlier: int) -> Iterator[tuple[int, ...]]:
    """What each row is told to wait for, folded into the operations that there are; -1 stays -1."""
    for number in range(max(1, len(call.rows))):
        picked: Any = (
            call.after[number] if call.after and isinstance(call.after[0], tuple) else call.after
        )
        yield tuple(-1 if pick < 0 or not earlier else pick % earlier for pick in picked)


def play(ranks: int, slots: int, calls: tuple[Call, ...]) -> tuple[Schedule, Meaning]:
    """Make the calls, and write down what they mean. A schedule is refused exactly when a call is a
    race: then it goes on without that call."""
    builder, meaning = ScheduleBuilder(ranks, 1.0, slots=slots), Meaning()
    for call in calls:
        size = len(builder)
        if is_race(call):
            alone = ScheduleBuilder(ranks, 1.0, slots=slots)
            _send(alone, call, ())
            with pytest.raises(InputError, match=r"of (one|a) step"):
                alone.build()
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
    rank, peer, source, target, count = (
        np.array(column) for column in zip(*call.rows, strict=True)
    )
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


def _note_inlined(
    meaning: Meaning, inner: Meaning, call: Call, first: int, waits: set[int]
) -> None:
    for accesses, before in zip(inner.accesses, inner.waits, strict=True):
        mapped = {
            ((call.place[rank], slot + call.shift), access) for (rank, slot), access in accesses
        }
        meaning.add(mapped, waits | {i + first for i in before})


@given(programs())
def test_dependencies_are_the_closure_of_pairwise_conflicts(
    program: tuple[int, int, tuple[Call, ...]],
) -> None:
    schedule, meaning = play(*program)
    assert len(schedule) == len(meaning.accesses)
    assert ancestors(predecessors(schedule)) == ancestors(meaning.edges())


@given(programs())
def test_predecessors_are_sorted_lower_and_there_once(
    program: tuple[int, int, tuple[Call, ...]],
) -> None:
    schedule, _ = play(*program)
    assert schedule.indptr.dtype == schedule.indices.dtype == np.int32
    assert schedule.indptr[0] == 0
    assert schedule.indptr[-1] == len(schedule.indices)
    for i in range(len(schedule)):
        row = schedule.predecessors(i).tolist()
        assert row == sorted(set(row))
        assert all(0 <= before < i for before in row)


@given(programs())
def test_compiled_and_plain_kernels_derive_the_same(
    program: tuple[int, int, tuple[Call, ...]],
) -> None:
    with patch("simulator.schedules.slots.kernel", lambda function, operations: function):
        plain, _ = play(*program)
    with patch("simulator.schedules.slots.kernel", lambda function, operations: compiled(function)):
        fast, _ = play(*program)
    assert plain.indptr.dtype == fast.indptr.dtype
    assert plain.indices.dtype == fast.indices.dtype
    assert np.array_equal(plain.indptr, fast.indptr)
    assert np.array_equal(plain.indices, fast.indices)
