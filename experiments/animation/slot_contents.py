"""Whose data the slots of all ranks hold, after each operation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simulator.collectives.collective import Collective
from simulator.schedules.schedule import TRANSFER, Schedule
from simulator.schedules.semantics import Data
from topologies.topology import Ints

BITS = 64
"""Inputs that are followed at once while the promise of a collective is read."""


class Values:
    """What a slot can hold: a set of contributions, each with a number."""

    def __init__(self) -> None:
        self.sets: list[int] = []
        """The contributions of each value: bit k is the input of the k-th slot of all workers'
        buffers. Bits behind those are what scratch held before the run."""
        self._numbers: dict[int, int] = {}

    def number(self, contributions: int) -> int:
        """The number of the value with these contributions."""
        known = self._numbers.setdefault(contributions, len(self.sets))
        if known == len(self.sets):
            self.sets.append(contributions)
        return known


@dataclass(frozen=True)
class Promise:
    """What a collective promises, as contributions."""

    cells: dict[int, int]
    """The contributions that each promised cell ends with. Cell `rank * slots + slot` is a slot of
    a rank."""
    useful: int
    """The contributions that a promised cell ends with: all others are never asked for."""
    whole: int
    """The most contributions of a promised cell."""


class Write:
    """A slot that an operation writes."""

    __slots__ = ("before", "carried", "cell", "operation", "origin", "value")

    def __init__(
        self, operation: int, origin: int, cell: int, carried: int, before: int, value: int
    ) -> None:
        self.operation, self.origin, self.cell = operation, origin, cell
        """The operation, the cell that it reads and the cell that it writes."""
        self.carried, self.before, self.value = carried, before, value
        """Values: what is read, what the written cell held before, and what it holds then."""


@dataclass(frozen=True)
class Run:
    """A schedule that has run on contributions."""

    schedule: Schedule
    promise: Promise
    values: Values
    first: list[int]
    """The value of each cell at the start."""
    last: list[int]
    """The value of each cell at the end."""
    writes: list[Write] = field(default_factory=list)
    """All writes, in the order in which the operations finish."""


def promise_of(schedule: Schedule, collective: Collective) -> Promise:
    """The promise of a collective, with a bit for each input."""
    workers, buffer, slots = schedule.workers, schedule.buffer, schedule.slots
    if collective.causal:
        everyone = sum(1 << rank * buffer for rank in range(workers))
        return Promise({rank * slots: everyone for rank in range(workers)}, everyone, workers)
    total = [0] * (workers * buffer)
    promised = np.zeros((workers, buffer), dtype=np.bool_)
    for begin in range(0, len(total), BITS):
        before: Data = np.zeros(len(total), dtype=np.uint64)
        part = before[begin : begin + BITS]
        part[:] = np.uint64(1) << np.arange(len(part), dtype=np.uint64)
        promised, expected = collective.postcondition(before.reshape(workers, buffer), None)
        for place in np.flatnonzero(promised & (expected != 0)).tolist():
            total[place] |= int(expected.flat[place]) << begin
    places = np.flatnonzero(promised).tolist()
    cells = {place // buffer * slots + place % buffer: total[place] for place in places}
    useful = 0
    for contributions in cells.values():
        useful |= contributions
    return Promise(cells, useful, max((c.bit_count() for c in cells.values()), default=0))


def follow(schedule: Schedule, collective: Collective, order: Ints) -> Run:
    """Run a schedule on contributions, in `order`: that of the operations' ends."""
    values, slots, own = Values(), schedule.slots, schedule.workers * schedule.buffer
    memory = schedule.ranks - schedule.switches
    first = []
    for rank in range(schedule.ranks):
        for slot in range(slots):
            inside = rank < schedule.workers and slot < schedule.buffer
            bit = rank * schedule.buffer + slot if inside else own + rank * slots + slot
            first.append(values.number(1 << bit if rank < memory else 0))
    run = Run(schedule, promise_of(schedule, collective), values, first, first.copy())
    (_hear if collective.causal else _move)(run, order)
    return run


def _move(run: Run, order: Ints) -> None:
    """What transfers move and add."""
    schedule, values, held = run.schedule, run.values, run.last
    slots = schedule.slots
    moves = (schedule.kind == TRANSFER) & (schedule.source >= 0) & (schedule.target >= 0)
    chosen = order[moves[order]]
    columns = (schedule.rank, schedule.peer, schedule.source, schedule.target, schedule.count)
    rows = zip(
        chosen.tolist(),
        *(column[chosen].tolist() for column in columns),
        schedule.reduces[chosen].tolist(),
        strict=True,
    )
    for operation, rank, peer, source, target, count, reduces in rows:
        for offset in range(count):
            origin, cell = rank * slots + source + offset, peer * slots + target + offset
            carried, before = held[origin], held[cell]
            value = carried
            if reduces:
                value = values.number(values.sets[carried] | values.sets[before])
            held[cell] = value
            run.writes.append(Write(operation, origin, cell, carried, before, value))


def _hear(run: Run, order: Ints) -> None:
    """Of which ranks each rank has heard, where messages carry no slots (a barrier): the rule of
    :func:`simulator.schedules.causes.absent`."""
    schedule, values, slots = run.schedule, run.values, run.schedule.slots
    own = [1 << rank * schedule.buffer for rank in range(schedule.workers)]
    heard = [*own, *[0] * (schedule.ranks - schedule.workers)]
    told = [0] * len(schedule)
    for operation in order.tolist():
        rank, peer = int(schedule.rank[operation]), int(schedule.peer[operation])
        news = own[rank] if rank < len(own) else 0
        for earlier in schedule.predecessors(operation).tolist():
            if rank in (schedule.peer[earlier], schedule.rank[earlier]):
                news |= told[earlier]
        told[operation] = news
        heard[peer] |= news
        origin, cell = rank * slots, peer * slots
        before, value = run.last[cell], values.number(heard[peer])
        run.last[cell] = value
        carried = values.number(news)
        run.writes.append(Write(operation, origin, cell, carried, before, value))
