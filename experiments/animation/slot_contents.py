"""Whose data the slots of all ranks hold, after each operation.

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
from simulator.schedules.semantics import Data
from topologies.topology import Ints

BITS = 64
"""Inputs that are followed at once while the promise of a collective is read."""


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
    for begin in range(0, workers * buffer, BITS):
        before: Data = np.zeros(workers * buffer, dtype=np.uint64)
        part = before[begin : begin + BITS]
        part[:] = np.uint64(1) << np.arange(len(part), dtype=np.uint64)
        promised, expected = collective.postcondition(before.reshape(workers, buffer), None)
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
    """What transfers move and add."""
    schedule, latest = run.schedule, run.last
    moves = (schedule.kind == TRANSFER) & (schedule.source >= 0) & (schedule.target >= 0)
    chosen = order[moves[order]]
    origins = schedule.rank * schedule.slots + schedule.source
    cells = schedule.peer * schedule.slots + schedule.target
    columns = origins, cells, schedule.count, schedule.reduces
    rows = zip(chosen.tolist(), *(column[chosen].tolist() for column in columns), strict=True)
    for operation, first, target, count, reduces in rows:
        for origin, cell in zip(
            range(first, first + count), range(target, target + count), strict=True
        ):
            carried, before = latest[origin], latest[cell]
            latest[cell] = carried | before if reduces else carried
            run.writes.append(Write(operation, origin, cell, carried, before, latest[cell]))


def _hear(run: Run, order: Ints) -> None:
    """Of which ranks each rank has heard, where messages carry no slots (a barrier): the rule of
    :func:`simulator.schedules.semantics.absent`."""
    schedule, slots = run.schedule, run.schedule.slots
    contributions = [1 << rank * schedule.buffer for rank in range(schedule.workers)]
    contributions += [0] * (schedule.ranks - schedule.workers)
    heard, told = contributions.copy(), [0] * len(schedule)
    for operation in order.tolist():
        rank, peer = int(schedule.rank[operation]), int(schedule.peer[operation])
        news = contributions[rank]
        for earlier in schedule.predecessors(operation).tolist():
            if rank in (schedule.peer[earlier], schedule.rank[earlier]):
                news |= told[earlier]
        told[operation] = news
        heard[peer] |= news
        origin, cell = rank * slots, peer * slots
        run.writes.append(Write(operation, origin, cell, news, run.last[cell], heard[peer]))
        run.last[cell] = heard[peer]
