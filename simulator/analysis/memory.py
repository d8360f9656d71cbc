"""Bytes resident and bytes redundant, per rank, over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.cells import COMPUTES, fill, mix, raise_peaks, unite
from simulator.schedules.followed import follow_slots
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.shifts import Shifts
from simulator.schedules.timeline import Timeline
from topologies.columns import Numbers, distinct, spread, sums
from topologies.jit import Kernel, compiled, pays
from topologies.topology import Flags, Floats, Ints, Longs

ROUNDING = 1e-12
"""Times that differ by no more than this part of the makespan are one step."""


class Changes(NamedTuple):
    """Bytes that appear (or, negative, vanish) at times at ranks."""

    times: Floats
    nbytes: Floats
    rank: Ints


@dataclass(frozen=True, eq=False)
class MemoryTrace:
    """Memory over time, in steps.

    From `times[k]` on, all ranks together hold `resident[k]` bytes, and `redundant[k]` of them are
    duplicates. `peaks[r]` is the most that rank r ever holds.
    """

    times: Floats
    resident: Floats
    redundant: Floats
    peaks: Floats
    changes: Changes
    """What appears at ranks and vanishes, in the order of times."""
    step: Longs
    """The step of each change."""
    shifts: Shifts | None = None
    """Of a folded schedule: what takes the ranks of `changes` to all."""

    @cached_property
    def _levels(self) -> Changes:
        """What each rank holds from when on, rank by rank."""
        key, row = np.unique(self.changes.rank * len(self.times) + self.step, return_inverse=True)
        rank, step = np.divmod(key, len(self.times))
        changed = np.split(
            sums(row, self.changes.nbytes, len(key)), np.flatnonzero(np.diff(rank)) + 1
        )
        level = np.concatenate([np.cumsum(each) for each in changed])
        return Changes(self.times[step], level, rank)

    def of(self, rank: int) -> tuple[Floats, Floats]:
        """Times, and the bytes that `rank` holds from each on."""
        place, members = rank, 1
        if self.shifts is not None:
            place, members = int(self.shifts.folded(np.array(rank))), self.shifts.order
        rows = slice(*np.searchsorted(self._levels.rank, [place, place + 1]))
        return self._levels.times[rows], self._levels.nbytes[rows] / members

    @property
    def peak(self) -> float:
        """The most that any rank ever holds, in bytes."""
        return float(self.peaks.max())

    @property
    def peak_redundant(self) -> float:
        """The peak amount of duplicate data over all ranks, in bytes."""
        return float(self.redundant.max())


def trace(
    schedule: Schedule,
    timeline: Timeline,
    holdings: Changes | None = None,
    live: Changes | None = None,
) -> MemoryTrace:
    """Follow every buffer, scratch slot and inbox of `schedule` through `timeline`.

    Resident are:

    - the buffer of a worker, always;
    - scratch and the slots of a server, from the first use to the last;
    - the inbox of a reducing transfer, from its start until it is merged.

    Redundant is the resident memory less the bytes of distinct live values. Equal values count
    once. A copy lives until it is overwritten, or until it has been added elsewhere and is not read
    again. Data in a switch count as neither. `holdings` is added to the resident memory, and `live`
    to the distinct live values.
    """
    course = course_of(timeline)
    uses = _slot_uses(course)
    scratch = _scratch(course, uses)
    changes = _by_time(joined(_resident(course, uses, scratch), holdings))
    values = _by_time(joined(_live(course, uses, scratch), live))
    # A stable sort takes little time where columns are in order already.
    moments = np.sort(np.concatenate((changes.times, values.times)), kind="stable")
    begins = moments[np.diff(moments, prepend=-np.inf) > ROUNDING * course.finish.max(initial=0.0)]
    step, value_step = (
        np.searchsorted(begins, each.times, side="right") - 1 for each in (changes, values)
    )
    held = np.cumsum(sums(step, changes.nbytes, len(begins)))
    distinct_bytes = np.cumsum(sums(value_step, values.nbytes, len(begins)))
    every, shifts = np.arange(schedule.ranks), None
    if schedule.fold is not None:
        shifts = schedule.fold.shifts
        every = shifts.folded(every)
    place = every[changes.rank].astype(np.int32)
    now, peaks = np.zeros((2, schedule.ranks))
    _kernel(raise_peaks, course.schedule)(step, place, changes.nbytes, now, peaks)
    of_rank = peaks[every] / schedule.members
    return MemoryTrace(
        begins, held, held - distinct_bytes, of_rank, changes._replace(rank=place), step, shifts
    )


def joined(changes: Changes, more: Changes | None) -> Changes:
    """The one and, if there are any, the other."""
    if more is None:
        return changes
    columns: Iterable[tuple[Any, Any]] = zip(changes, more, strict=True)
    return Changes._make(np.concatenate(both) for both in columns)


def _by_time(changes: Changes) -> Changes:
    """What happens at all, in the order of times."""
    order = np.argsort(changes.times, kind="stable")
    order = order[np.isfinite(changes.times[order])]
    return Changes._make(column[order] for column in changes)


class SlotUses(NamedTuple):
    """What operations do with cells (rank, slot), in the order in which they finish: a row for each
    cell that one of them reads, writes, or both."""

    operation: Longs
    reads: Ints
    """The cell that is read, or -1. Cells are numbered rank by rank."""
    writes: Ints
    """The cell that is written, or -1."""


def _slot_uses(course: OperationTimes) -> SlotUses:
    schedule, order = course.schedule, np.argsort(course.finish, kind="stable")
    row, offset = spread(schedule.count[order])
    operation = order[row]
    reads, writes = (
        np.where(
            slot[operation] < 0, -1, rank[operation] * schedule.slots + slot[operation] + offset
        )
        for rank, slot in ((schedule.rank, schedule.source), (schedule.peer, schedule.target))
    )
    return SlotUses(operation, reads.astype(np.int32), writes.astype(np.int32))


def _memory(schedule: Schedule) -> int:
    """The cells before those of switches. What switches hold does not count."""
    return (schedule.ranks - schedule.switches) * schedule.slots


def _is_buffer(schedule: Schedule, cell: Ints) -> Flags:
    """Whether cells are in the buffers of workers. All others are scratch."""
    rank, slot = np.divmod(cell, schedule.slots)
    return np.asarray((rank < schedule.workers) & (slot < schedule.buffer))


def _sizes(schedule: Schedule, cell: Numbers) -> Floats:
    shares = np.broadcast_to(schedule.shares, (schedule.ranks, schedule.slots))
    return np.asarray(shares[np.divmod(cell, schedule.slots)] * schedule.nbytes_total)


class Scratch(NamedTuple):
    """The cells of scratch in memory that operations use, each once."""

    cell: Longs
    first: Floats
    """When its first use begins."""
    last: Longs
    """The row of its last use."""


def _scratch(course: OperationTimes, uses: SlotUses) -> Scratch:
    schedule, memory = course.schedule, _memory(course.schedule)
    first, last = np.full(memory, np.inf), np.full(memory, -1)
    for cell in (uses.reads, uses.writes):
        row = np.flatnonzero((cell >= 0) & (cell < memory) & ~_is_buffer(schedule, cell))
        np.minimum.at(first, cell[row], course.start[uses.operation[row]])
        np.maximum.at(last, cell[row], row)
    used = np.flatnonzero(last >= 0)
    return Scratch(used, first[used], last[used])


def _resident(course: OperationTimes, uses: SlotUses, scratch: Scratch) -> Changes:
    """What appears at ranks, and what vanishes: buffers, scratch and inboxes."""
    schedule, slots = course.schedule, course.schedule.slots
    buffer = np.add.outer(np.arange(schedule.workers) * slots, np.arange(schedule.buffer))
    buffers = np.cumsum(_sizes(schedule, buffer), axis=1)[:, -1]
    has_inbox = schedule.remote & (schedule.reduces == 1)
    inbox = np.flatnonzero(has_inbox & (schedule.peer < schedule.ranks - schedule.switches))
    ends = course.finish[uses.operation[scratch.last]], course.finish[inbox]
    times = np.zeros(schedule.workers), scratch.first, course.start[inbox], *ends
    nbytes = np.concatenate((_sizes(schedule, scratch.cell), schedule.nbytes[inbox]))
    rank = np.concatenate((scratch.cell // slots, schedule.peer[inbox]))
    return Changes(
        np.concatenate(times),
        np.concatenate((buffers, nbytes, -nbytes)),
        np.concatenate((np.arange(schedule.workers), rank, rank)).astype(np.int32),
    )


def _live(course: OperationTimes, uses: SlotUses, scratch: Scratch) -> Changes:
    """When the bytes of distinct values appear and vanish, all ranks together. Every write of a
    cell begins a version of it."""
    schedule, memory = course.schedule, _memory(course.schedule)
    cells, finish = schedule.ranks * schedule.slots, course.finish[uses.operation]
    moment = np.cumsum(np.diff(finish, prepend=0.0) > 0, dtype=np.int32)
    times = np.zeros(moment[-1] + 1 if len(moment) else 1)
    times[moment] = finish
    never = np.int32(len(times))
    reading, writing = (np.flatnonzero(cell >= 0) for cell in (uses.reads, uses.writes))
    cell = np.concatenate((np.arange(cells, dtype=np.int32), uses.writes[writing]))
    began = np.concatenate((np.zeros(cells, np.int32), moment[writing]))
    value, seen, follower = _values(schedule, uses, len(cell))
    reduces = schedule.reduces[uses.operation] == 1
    overwrites = np.concatenate((np.zeros(cells, np.bool_), ~reduces[writing], [False]))
    counts, unread = cell < memory, np.ones(len(cell), np.bool_)
    counts[:cells] &= _is_buffer(schedule, cell[:cells])
    unread[seen[reading]] = False
    last = np.full(int(value.max()) + 1, -1)
    held = reading[counts[seen[reading]]]
    last[value[seen[held]]] = held
    dies = np.where(np.append(reduces, False)[last], np.append(moment, never)[last], never)
    release = np.full(cells, never)
    release[scratch.cell] = moment[scratch.last]
    ended = np.minimum(np.append(began, never)[follower], np.minimum(release[cell], dies[value]))
    kept = np.flatnonzero(counts & (began < ended) & ~(unread & overwrites[follower]))
    began, ended, opens = began[kept], ended[kept], np.zeros(len(kept), np.int8)
    _kernel(unite, schedule)(value[kept], began, ended, np.full(len(last), -1, np.int32), opens)
    appear = np.flatnonzero(opens)
    nbytes = _sizes(schedule, cell[kept[appear]])
    by_moment = np.zeros((2, never + 1))
    for moments, way in ((began[appear], 1), (ended[appear], -1)):
        by_moment[0] += way * np.bincount(moments, nbytes, never + 1)
        by_moment[1, moments] = 1
    changed = np.flatnonzero(by_moment[1, :never])
    return Changes(times[changed], by_moment[0, changed], np.zeros(len(changed), np.int32))


def _values(schedule: Schedule, uses: SlotUses, versions: int) -> tuple[Ints, Ints, Ints]:
    """The value of each version, the version that each row reads, and the version that follows each
    version in its cell: -1 if none. Each cell begins with a value of its own, and those of switches
    with one together. Equal sums and results are one value."""
    cells, memory = schedule.ranks * schedule.slots, _memory(schedule)
    value, number = np.empty(versions, np.int32), np.zeros(versions, np.int64)
    value[:cells] = np.minimum(np.arange(cells), memory)
    number[:memory] = mix(np.arange(1, memory + 1))
    seen, follower = np.empty(len(uses.reads), np.int32), np.full(versions, -1, np.int32)
    kind = np.where(schedule.kind == COMPUTE, COMPUTES, schedule.reduces).astype(np.int8)
    inputs = uses.reads, uses.writes, kind[uses.operation], np.arange(cells, dtype=np.int32)
    values = _kernel(fill, schedule)(*inputs, value, number, seen, follower)
    number = number[cells:values]
    if len(distinct(number)) < len(number):
        same = np.unique(number, return_inverse=True)[1]
        value = np.concatenate((np.arange(cells), cells + same)).astype(np.int32)[value]
    return value, seen, follower


def _kernel(function: Kernel, schedule: Schedule) -> Kernel:
    """A kernel in its compiled form where that pays; else on lists, which Python reads and writes
    faster than arrays."""
    if pays(2 * len(schedule)):
        return compiled(function)

    def on_lists(*columns: npt.NDArray[Any]) -> Any:
        lists = [column.tolist() for column in columns]
        result = function(*lists)
        for column, filled in zip(columns, lists, strict=True):
            column[:] = filled
        return result

    return on_lists


class OperationTimes(NamedTuple):
    """A schedule, and when its operations ran."""

    schedule: Schedule
    start: Floats
    finish: Floats


def course_of(timeline: Timeline) -> OperationTimes:
    """What ran when. A folded schedule is written out at all ranks, for the slots that stand for
    all (:func:`simulator.schedules.followed.follow_slots`): each is as large as those for which it
    stands."""
    schedule = timeline.schedule
    if schedule.fold is None:
        return OperationTimes(schedule, timeline.start, timeline.finish)
    followed = follow_slots(schedule)
    slots, operations = followed.slots, followed.operations
    weight = followed.weight.astype(np.float64)
    slot = np.maximum(operations.source, operations.target)
    share = (schedule.nbytes / np.maximum(schedule.count, 1))[followed.operation]
    nbytes = share * np.where(slot < 0, 1.0, weight[slot])
    written = replace(
        schedule,
        fold=None,
        shares=schedule.shares[slots] * weight,
        buffer=int((slots < schedule.buffer).sum()),
        phase=schedule.phase[followed.operation],
        indptr=np.zeros(len(nbytes) + 1, np.int32),
        indices=np.zeros(0, np.int32),
        **operations._replace(nbytes=nbytes)._asdict(),
    )
    return OperationTimes(
        written, timeline.start[followed.operation], timeline.finish[followed.operation]
    )
