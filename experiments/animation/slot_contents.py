"""Clocks of an animation, and whose data slots hold after each operation, right or wrong.

A value is a set of contributions, as an integer: bit k is the input of the k-th slot of all
workers' buffers. Bits behind those are what scratch held before the run. Cell `rank * slots + slot`
is a slot of a rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Collective
from simulator.schedules.schedule import TRANSFER, Schedule
from simulator.schedules.semantics import promises, told
from simulator.schedules.timeline import Timeline
from topologies.columns import plain_rows
from topologies.topology import Floats, Ints

LOCAL = 0.25
"""The part of a step of equal length in which ranks copy and add what has arrived."""


@dataclass(frozen=True)
class Clock:
    """When operations run, on one clock."""

    start: Floats
    """When each operation starts."""
    finish: Floats
    """When each operation ends."""
    marks: Floats
    """When each step ends; the first mark is 0."""
    part: float = 1.0
    """The share of a step in which messages move."""

    @property
    def order(self) -> Ints:
        """The operations in the order of their ends."""
        return np.argsort(self.finish, kind="stable").astype(np.int32)


def simulated(timeline: Timeline, depth: Ints) -> Clock:
    """The clock of simulated time. A step ends when its last operation ends."""
    marks = np.zeros(int(depth.max(initial=0)) + 1)
    np.maximum.at(marks, depth, timeline.finish)
    marks[0] = 0.0
    return Clock(timeline.start, timeline.finish, np.maximum.accumulate(marks))


def equal_steps(schedule: Schedule, depth: Ints) -> Clock:
    """The clock on which each step takes 1: first its transfers, then what ranks do by
    themselves."""
    arrival, remote = depth - LOCAL, schedule.remote
    marks = np.arange(depth.max(initial=0) + 1.0)
    start, finish = np.where(remote, depth - 1.0, arrival), np.where(remote, arrival, depth)
    return Clock(start, finish, marks, 1 - LOCAL)


class Write(NamedTuple):
    """A slot that an operation writes."""

    operation: int
    origin: int
    """The cell that it reads."""
    cell: int
    """The cell that it writes."""
    carried: int
    """The value that it reads."""
    before: int
    """The value that the written cell held before."""
    value: int
    """The value that it holds then."""


@dataclass(frozen=True)
class Run:
    """A schedule that has run on contributions."""

    schedule: Schedule
    promise: dict[int, int]
    """The value that each promised cell ends with, if the schedule is right."""
    first: list[int]
    """The value of each cell at the start."""
    last: list[int]
    """The value of each cell at the end."""
    writes: list[Write]
    """All writes, in the order in which the operations finish."""

    @cached_property
    def useful(self) -> int:
        """The contributions that a promised cell ends with: all others are never asked for."""
        return reduce(or_, self.promise.values(), 0)

    @cached_property
    def most(self) -> int:
        """The most contributions of a promised cell."""
        return max((value.bit_count() for value in self.promise.values()), default=0)


def promise_of(schedule: Schedule, collective: Collective) -> dict[int, int]:
    """The values that a collective promises, by cell."""
    workers, buffer, slots = schedule.workers, schedule.buffer, schedule.slots
    if collective.causal:
        everyone = sum(1 << rank * buffer for rank in range(workers))
        return {rank * slots: everyone for rank in range(workers)}
    cells = dict[int, int]()
    for begin, promised, expected in promises(schedule, collective):
        for rank, slot in np.argwhere(promised).tolist():
            cell = rank * slots + slot
            cells[cell] = cells.get(cell, 0) | int(expected[rank, slot]) << begin
    return cells


def follow(schedule: Schedule, collective: Collective, order: Ints) -> Run:
    """Run a schedule on contributions, in `order`: that of the operations' ends."""
    slots, buffer = schedule.slots, schedule.buffer
    memory, scratch = schedule.ranks - schedule.switches, schedule.workers * buffer
    first = [0] * (schedule.ranks * slots)
    for cell in range(memory * slots):
        rank, slot = divmod(cell, slots)
        inside = rank < schedule.workers and slot < buffer
        first[cell] = 1 << (rank * buffer + slot if inside else scratch + cell)
    run = Run(schedule, promise_of(schedule, collective), first, first.copy(), [])
    (_hear if collective.causal else _move)(run, order)
    return run


def _move(run: Run, order: Ints) -> None:
    schedule, latest = run.schedule, run.last
    moves = (schedule.kind == TRANSFER) & (schedule.source >= 0) & (schedule.target >= 0)
    chosen = order[moves[order]]
    origins = schedule.rank * schedule.slots + schedule.source
    cells = schedule.peer * schedule.slots + schedule.target
    columns = origins, cells, schedule.count, schedule.reduces
    rows = plain_rows(chosen, *(column[chosen] for column in columns))
    for operation, first, target, count, reduces in rows:
        for origin, cell in zip(
            range(first, first + count), range(target, target + count), strict=True
        ):
            carried, before = latest[origin], latest[cell]
            latest[cell] = carried | before if reduces else carried
            run.writes.append(Write(operation, origin, cell, carried, before, latest[cell]))


def _hear(run: Run, order: Ints) -> None:
    """Of which ranks each rank has heard, where messages carry no slots (a barrier): the rule of
    :func:`simulator.schedules.semantics.told`."""
    schedule, slots = run.schedule, run.schedule.slots
    contributions = [1 << rank * schedule.buffer for rank in range(schedule.workers)]
    contributions += [0] * (schedule.ranks - schedule.workers)
    heard = contributions.copy()
    for operation, peer, news in told(schedule, contributions, order):
        heard[peer] |= news
        origin, cell = int(schedule.rank[operation]) * slots, peer * slots
        run.writes.append(Write(operation, origin, cell, news, run.last[cell], heard[peer]))
        run.last[cell] = heard[peer]


def first_wrong(run: Run) -> tuple[int | None, int, str] | None:
    """The first write after which a promised result cannot become right, as its place in the
    writes, or None if it is never written; the cell of the wrong value; and what is wrong with it.
    None if all are right.

    Only writes count that flow into a wrong result. Such a write is wrong if it

    - adds a contribution that is there already;
    - brings a contribution that does not belong into the result;
    - overwrites a contribution that the result misses in the end;
    - makes the value that the result has in the end, which misses a contribution.
    """
    doubled, reduces = _doubled(run), run.schedule.reduces.tolist()
    ends = {
        cell: (expected, run.last[cell])
        for cell, expected in run.promise.items()
        if run.last[cell] != expected or cell in doubled
    }
    if not ends:
        return None
    misses = list(dict.fromkeys(ends.values()))
    number = {miss: place for place, miss in enumerate(misses)}
    reach = {cell: 1 << number[miss] for cell, miss in ends.items()}
    flows = list[int]()
    for write in reversed(run.writes):
        into = reach.get(write.cell, 0)
        flows.append(into)
        if into:
            if not reduces[write.operation]:
                del reach[write.cell]
            reach[write.origin] = reach.get(write.origin, 0) | into
    for place, (write, into) in enumerate(zip(run.writes, reversed(flows), strict=True)):
        flawed = [miss for bit, miss in enumerate(misses) if into >> bit & 1]
        if flawed and (reason := _reason(run, write, flawed)):
            return place, write.cell, reason
    cell, (expected, actual) = next(iter(ends.items()))
    lacking = _named(run, expected & ~actual)
    return None, cell, f"nothing brings {lacking}"


def _doubled(run: Run) -> set[int]:
    """Cells that end with a contribution more than once."""
    reduces, doubled = run.schedule.reduces.tolist(), set[int]()
    for write in run.writes:
        adds = reduces[write.operation]
        twice = adds and write.carried & write.before
        if twice or write.origin in doubled or (adds and write.cell in doubled):
            doubled.add(write.cell)
        else:
            doubled.discard(write.cell)
    return doubled


def _reason(run: Run, write: Write, misses: list[tuple[int, int]]) -> str:
    """What is wrong with a write that flows into results with an expected and an actual value; ""
    if nothing is."""
    reduces, before, value = run.schedule.reduces[write.operation], write.before, write.value
    if reduces and (twice := before & write.carried):
        return f"{_named(run, twice)} is added twice"
    for expected, actual in misses:
        missing = expected & ~actual
        if strange := value & ~expected:
            return f"{_named(run, strange)} does not belong there"
        if not reduces and (lost := before & missing & ~value):
            return f"{_named(run, lost)} is overwritten"
        if missing and value == actual:
            return f"{_named(run, missing)} is missing, and nothing adds it later"
    return ""


def _named(run: Run, contributions: int) -> str:
    """The lowest of some contributions, and how many more there are."""
    schedule, bit = run.schedule, (contributions & -contributions).bit_length() - 1
    inputs = schedule.workers * schedule.buffer
    if bit < inputs:
        rank, slot = divmod(bit, schedule.buffer)
        name = f"rank {rank}, slot {slot}"
    else:
        rank = (bit - inputs) // schedule.slots
        name = f"scratch of rank {rank} that nothing has been written to"
    more = contributions.bit_count() - 1
    return f"the contribution of {name}" + f" (and {more} more)" * (more > 0)
