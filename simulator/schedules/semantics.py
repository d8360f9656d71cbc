"""The result of a schedule: it runs on integers, and the check compares them with the collective's
postcondition. A barrier has no result: the check follows which ranks have surely entered it when a
rank leaves. A wrong result is explained: which contribution is missing, doubled or in another's
place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from simulator.kernels import dependencies
from simulator.kernels.records import Operations
from simulator.schedules.followed import follow_slots
from simulator.schedules.schedule import TRANSFER, Schedule
from topologies.jit import kernel
from topologies.topology import Ints

Data = npt.NDArray[np.uint64]
EXPLAINED_SLOTS = 2**26
"""Slots of all workers, times those that are looked at at once, up to which a result is explained.
Beyond, only its place is named."""
_BITS = 64


class SlotSelection(NamedTuple):
    """Some slots of a buffer."""

    number: Ints
    """The slots."""
    total: int
    """The number of all slots of the buffer."""


Chosen = SlotSelection | None
"""Some slots, or all."""
Places = npt.NDArray[np.bool_]
"""Whether each slot of each worker is meant, shape (workers, slots)."""
Promise = tuple[Places, Data]
"""Which slots a collective promises, and their values; both of shape (workers, slots)."""


class Contract(Protocol):
    """The promise of a schedule: a :class:`simulator.collectives.collective.Collective`."""

    @property
    def name(self) -> str: ...
    @property
    def postcondition(self) -> Callable[[Data, Chosen], Promise]: ...
    @property
    def causal(self) -> bool: ...


class WrongResult(Exception):
    """A schedule leaves other values in the buffers than its collective promises."""


def inputs(schedule: Schedule, seed: int = 0) -> Data:
    """Random integers for every slot, shape (ranks, slots).

    Sums are modulo 2^64, so a missing or doubled contribution changes the result. Scratch and
    servers start with garbage, as real memory does. Switches start with zeros.
    """
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2**64, size=(schedule.ranks, schedule.slots), dtype=np.uint64)
    data[schedule.ranks - schedule.switches :] = 0
    return data


def run(schedule: Schedule, data: Data, order: Ints | None = None) -> Data:
    """The slots after all transfers. `order` is any topological order; the default is that of the
    schedule."""
    return _executed(schedule.operations, data, order)


def _executed(operations: Operations, data: Data, order: Ints | None = None) -> Data:
    result, count = data.copy(), len(operations.kind)
    order = np.arange(count, dtype=np.int32) if order is None else order
    with np.errstate(over="ignore"):
        kernel(dependencies.execute, count)(order, operations, result)
    return result


def check(
    schedule: Schedule, collective: Contract, seed: int = 0, order: Ints | None = None
) -> None:
    """Raise :class:`WrongResult` unless the schedule computes what the collective promises.

    A folded schedule is run at all ranks, on slots that stand for all (:func:`follow_slots`). A
    barrier is checked by causes (:func:`absent`).
    """
    if collective.causal:
        for rank, missing in enumerate(absent(schedule, order)):
            if len(missing):
                raise WrongResult(
                    f"{collective.name}: rank {rank} may leave before rank {missing[0]} has entered"
                )
        return
    promised, wrong, chosen = _results(schedule, collective, seed, order)
    if wrong.any():
        rank, slot = np.argwhere(wrong)[0]
        slot = slot if chosen is None else chosen.number[slot]
        raise WrongResult(
            f"{collective.name}: {wrong.sum()} of {promised.sum()} results are wrong, first slot "
            f"{slot} of rank {rank}"
        )


def _results(
    schedule: Schedule, collective: Contract, seed: int = 0, order: Ints | None = None
) -> tuple[Places, Places, Chosen]:
    """Which slots of the workers are promised, which of them are wrong, and which slots these
    are."""
    if schedule.fold is None:
        data, chosen = inputs(schedule, seed), None
        after = run(schedule, data, order)
        buffer: slice | Places = slice(schedule.buffer)
    else:
        followed = follow_slots(schedule)
        shape = schedule.ranks, len(followed.slots)
        data = np.random.default_rng(seed).integers(0, 2**64, size=shape, dtype=np.uint64)
        after = _executed(followed.operations, data)
        buffer = followed.slots < schedule.buffer
        chosen = SlotSelection(followed.slots[buffer], schedule.buffer)
    workers = slice(schedule.workers)
    promised, expected = collective.postcondition(data[workers, buffer], chosen)
    return promised, promised & (after[workers, buffer] != expected), chosen


def absent(schedule: Schedule, order: Ints | None = None) -> list[Ints]:
    """For each worker, the workers that may not have entered when it leaves.

    A rank leaves when everything that is sent to it has arrived. A message tells its receiver of
    all ranks of which its sender has heard: of those whose messages it waited for. Messages that it
    waits for and that went to other ranks tell it nothing. `order` may leave operations out.

    >>> from simulator.collectives import find
    >>> [ranks.tolist() for ranks in absent(find("tree_reduce").build(3, 1.0))]
    [[], [0], [0, 1]]
    """
    entered = [1 << rank for rank in range(schedule.ranks)]
    heard = entered.copy()
    for _, peer, news in told(schedule, entered, order):
        heard[peer] |= news
    workers = np.arange(schedule.workers, dtype=np.int32)
    return [
        workers[[not heard[rank] >> worker & 1 for worker in range(schedule.workers)]]
        for rank in range(schedule.workers)
    ]


def told(
    schedule: Schedule, entered: Sequence[int], order: Ints | None = None
) -> Iterator[tuple[int, int, int]]:
    """Each operation, its receiver, and what it tells that: the bits in `entered` of all ranks of
    which its sender has heard."""
    news_of = [0] * len(schedule)
    ranks, peers = schedule.rank.tolist(), schedule.peer.tolist()
    indptr, indices = schedule.indptr.tolist(), schedule.indices.tolist()
    for i in range(len(schedule)) if order is None else order.tolist():
        sender = ranks[i]
        news_of[i] = entered[sender]
        for earlier in indices[indptr[i] : indptr[i + 1]]:
            if sender in (peers[earlier], ranks[earlier]):
                news_of[i] |= news_of[earlier]
        yield i, peers[i], news_of[i]


class RankSlot(NamedTuple):
    """A slot of a rank."""

    rank: int
    slot: int

    def __str__(self) -> str:
        return f"rank {self.rank}, slot {self.slot}"


Contributions = Counter[RankSlot]
"""How often the input of each cell is in a value."""


def wrong_results(schedule: Schedule, collective: Contract) -> tuple[Places, Places]:
    """Which slots of the workers are promised, and which of them are wrong."""
    return _results(schedule, collective)[:2]


def explanation(schedule: Schedule, collective: Contract, cell: RankSlot) -> str:
    """What is wrong with a wrong result, in words: which contribution is missing, doubled or out of
    order."""
    if (schedule.workers * schedule.buffer) ** 2 > EXPLAINED_SLOTS * _BITS:
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
    """The contributions that a collective promises in a cell, each once."""
    right = Contributions()
    for first, _, values in promises(schedule, collective):
        value = int(values[cell])
        for bit in range(_BITS):
            if value >> bit & 1:
                right[RankSlot(*divmod(first + bit, schedule.buffer))] = 1
    return right


def promises(schedule: Schedule, collective: Contract) -> Iterator[tuple[int, Places, Data]]:
    """Which slots of the workers a collective promises, and their values if 64 inputs, from the
    first one on that stands in front, are a bit each and all others are 0."""
    shape = schedule.workers, schedule.buffer
    for first in range(0, shape[0] * shape[1], _BITS):
        before: Data = np.zeros(shape[0] * shape[1], dtype=np.uint64)
        some = before[first : first + _BITS]
        some[:] = np.uint64(1) << np.arange(len(some), dtype=np.uint64)
        yield first, *collective.postcondition(before.reshape(shape), None)


def _named(cell: RankSlot, schedule: Schedule) -> str:
    if cell.rank < schedule.workers and cell.slot < schedule.buffer:
        return str(cell)
    return f"{cell} (scratch that nothing has been written to)"


def _more(cells: list[RankSlot]) -> str:
    return f" (and {len(cells) - 1} more)" if len(cells) > 1 else ""
