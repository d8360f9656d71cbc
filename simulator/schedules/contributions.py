"""What is wrong with a result: which contribution is missing, doubled or in another's place."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import TRANSFER, Schedule
from simulator.schedules.semantics import Contract, Data, inputs, run

MOST = 2**26
"""Slots of all workers, times those that are looked at at once, up to which a result is explained.
Beyond, only its place is named."""
_BITS = 64


class RankSlot(NamedTuple):
    """A slot of a rank."""

    rank: int
    slot: int

    def __str__(self) -> str:
        return f"rank {self.rank}, slot {self.slot}"


Contributions = Counter[RankSlot]
"""How often the input of each cell is in a value."""


Places = npt.NDArray[np.bool_]
"""Some slots of the workers, shape (workers, slots)."""


def wrong_results(schedule: Schedule, collective: Contract) -> tuple[Places, Places]:
    """Which slots of the workers are promised, and which of them are wrong."""
    data = inputs(schedule)
    after = run(schedule, data)[: schedule.workers, : schedule.buffer]
    promised, expected = collective.postcondition(data[: schedule.workers, : schedule.buffer], None)
    return promised, promised & (after != expected)


def explanation(schedule: Schedule, collective: Contract, cell: RankSlot) -> str:
    """What is wrong with a wrong result, in words: which contribution is missing, doubled or out of
    order."""
    if (schedule.workers * schedule.buffer) ** 2 > MOST * _BITS:
        return f"{cell} is wrong"
    actual, right = contributions(schedule, cell), expected(schedule, collective, cell)
    missing = [each for each in right if each not in actual]
    doubled = [each for each in right if actual[each] > 1]
    strange = [each for each in actual if each not in right and each != cell]
    if missing and strange:
        return (
            f"{cell} holds the contribution of {_named(strange[0], schedule)} where that of "
            f"{missing[0]} belongs: out of order{_more(missing)}"
        )
    if missing:
        return f"{cell} misses the contribution of {missing[0]}{_more(missing)}"
    if doubled:
        times = "twice" if actual[doubled[0]] == 2 else f"{actual[doubled[0]]} times"
        return f"{cell} holds the contribution of {doubled[0]} {times}: doubled{_more(doubled)}"
    if strange:
        return (
            f"{cell} holds a contribution too many, of {_named(strange[0], schedule)}"
            f"{_more(strange)}"
        )
    return f"{cell} is wrong"


def contributions(schedule: Schedule, cell: RankSlot) -> Contributions:
    """How often the input of each cell is in what a cell holds in the end.

    The operations are followed backwards, from the cell to the inputs.
    """
    moved = (schedule.kind == TRANSFER) & (schedule.source >= 0) & (schedule.target >= 0)
    columns = [
        column[moved].tolist()
        for column in (
            schedule.rank,
            schedule.peer,
            schedule.source,
            schedule.target,
            schedule.count,
            schedule.reduces,
        )
    ]
    counts = Counter({cell: 1})
    for rank, peer, source, target, count, reduces in zip(*map(reversed, columns), strict=True):
        for offset in reversed(range(count)):
            end = RankSlot(peer, target + offset)
            if times := counts.get(end, 0):
                if not reduces:
                    del counts[end]
                counts[RankSlot(rank, source + offset)] += times
    return counts


def expected(schedule: Schedule, collective: Contract, cell: RankSlot) -> Contributions:
    """The contributions that a collective promises in a cell, each once.

    Each of 64 inputs is one bit, so 64 of them are asked for at once.
    """
    shape = schedule.workers, schedule.buffer
    cells, right = shape[0] * shape[1], Contributions()
    for first in range(0, cells, _BITS):
        before: Data = np.zeros(cells, dtype=np.uint64)
        some = before[first : first + _BITS]
        some[:] = np.uint64(1) << np.arange(len(some), dtype=np.uint64)
        value = int(collective.postcondition(before.reshape(shape), None)[1][cell])
        for bit in range(len(some)):
            if value >> bit & 1:
                right[RankSlot(*divmod(first + bit, shape[1]))] = 1
    return right


def _named(cell: RankSlot, schedule: Schedule) -> str:
    if cell.rank < schedule.workers and cell.slot < schedule.buffer:
        return str(cell)
    return f"{cell} (scratch that nothing has been written to)"


def _more(cells: list[RankSlot]) -> str:
    return f" (and {len(cells) - 1} more)" if len(cells) > 1 else ""
