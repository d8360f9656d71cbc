"""Bytes resident and bytes redundant, per rank, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from simulator.kernels.cells import CellLayout, Contents, Moments, fill
from simulator.kernels.copies import Events, MemoryLevels, ValueCopies, follow
from simulator.schedules.followed import follow_slots
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.shifts import Shifts
from simulator.schedules.timeline import Timeline
from topologies.jit import compiled, pays
from topologies.topology import Floats, Ints, Longs

ROUNDING = 1e-12
"""Times that differ by no more than this part of the makespan are one step."""

Record = TypeVar("Record", bound=NamedTuple)


class Changes(NamedTuple):
    """Bytes that appear (or, negative, vanish) at times at ranks."""

    times: Floats
    nbytes: Floats
    rank: Ints


@dataclass(frozen=True, eq=False)
class MemoryTrace:
    """Memory over time, in steps.

    From `times[k]` on, all ranks together hold `resident[k]` bytes, and `redundant[k]` of them are
    duplicates. `peaks[r]` is the most that rank r ever holds. `changes` lists what appears at ranks
    and what vanishes.
    """

    times: Floats
    resident: Floats
    redundant: Floats
    peaks: Floats
    changes: Callable[[], Changes]
    shifts: Shifts | None = None
    """Of a folded schedule: what takes the ranks that `changes` lists to all."""

    @cached_property
    def holdings(self) -> Changes:
        """What each rank holds from when on, rank by rank."""
        changes = self.changes()
        chosen = np.isfinite(changes.times)
        step = np.searchsorted(self.times, changes.times[chosen], side="right") - 1
        return _levels(changes.rank[chosen], step, changes.nbytes[chosen], self.times)

    def of(self, rank: int) -> tuple[Floats, Floats]:
        """Times, and the bytes that `rank` holds from each on."""
        representative = rank if self.shifts is None else int(self.shifts.folded(np.array(rank)))
        rows = slice(*np.searchsorted(self.holdings.rank, [representative, representative + 1]))
        return self.holdings.times[rows], self.holdings.nbytes[rows]

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
    course, rank = course_of(timeline), np.arange(schedule.ranks, dtype=np.int32)
    if schedule.fold is None:
        return _trace(course, rank, holdings, live)
    shifts = schedule.fold.shifts
    place = shifts.place(rank).astype(np.int32)
    memory = _trace(course, place, holdings, live)
    changes = partial(_standing, memory.changes, shifts)
    peaks = memory.peaks[place] / shifts.order
    return replace(memory, changes=changes, shifts=shifts, peaks=peaks)


def _trace(
    course: OperationTimes, place: Ints, holdings: Changes | None, live: Changes | None
) -> MemoryTrace:
    """`place` is where the bytes of each rank are counted, as in :class:`MemoryLevels`."""
    schedule = course.schedule
    layout, is_compiled = _layout(schedule), pays(2 * len(schedule))
    form = _arrays if is_compiled else _lists
    order, operations = _by_time(course.finish), schedule.operations
    moments = Moments(order, course.start, course.finish, ROUNDING * course.makespan)
    inputs = form(moments), form(operations), form(layout)
    contents = form(_blank(schedule, layout))
    (compiled(fill) if is_compiled else fill)(*inputs, contents)
    contents = form(_united(contents))
    copies = form(ValueCopies.none(contents.values[0], len(contents.value)))
    scratch = _scratch(moments, layout, contents)
    events = _events(course, layout, joined(scratch[0], holdings), live)
    most = len(order) + len(events.arrivals) + len(events.times) + 1
    levels = form(MemoryLevels.blank(place, most))
    walk = compiled(follow) if is_compiled else follow
    steps = walk(*inputs, contents, copies, form(events), levels)
    times, resident, distinct = (np.array(column[:steps]) for column in levels[-3:])
    changes = partial(_residence, course, layout, scratch, holdings)
    return MemoryTrace(times, resident, resident - distinct, np.array(levels.peaks), changes)


def _standing(changes: Callable[[], Changes], shifts: Shifts) -> Changes:
    """Changes of all ranks as those of the ranks that stand for them."""
    times, nbytes, rank = changes()
    return Changes(times, nbytes / shifts.order, shifts.folded(rank).astype(np.int32))


def joined(changes: Changes, more: Changes | None) -> Changes:
    """The one and, if there are any, the other."""
    if more is None:
        return changes
    columns: Iterable[tuple[Any, Any]] = zip(changes, more, strict=True)
    return Changes._make(np.concatenate(both) for both in columns)


def _arrays(record: Record) -> Record:
    return record


def _lists(record: Record) -> Record:
    """A record with lists for arrays: Python reads and writes lists faster."""
    columns = (column.tolist() if isinstance(column, np.ndarray) else column for column in record)
    return record._make(columns)


def _layout(schedule: Schedule) -> CellLayout:
    return CellLayout(
        (schedule.shares * schedule.nbytes_total).ravel(),
        schedule.slots,
        schedule.slots * (schedule.shares.ndim - 1),
        schedule.buffer,
        schedule.workers,
        schedule.ranks * schedule.slots,
        (schedule.ranks - schedule.switches) * schedule.slots,
    )


def _by_time(times: Floats) -> Ints:
    if bool(np.all(times[1:] >= times[:-1])):
        return np.arange(len(times), dtype=np.int32)
    return np.argsort(times, kind="stable").astype(np.int32)


def _blank(schedule: Schedule, layout: CellLayout) -> Contents:
    """What cells hold at first, with room for all that operations write."""
    writes = schedule.target >= 0
    fresh = writes & ((schedule.reduces == 1) | (schedule.kind == COMPUTE))
    written, values = (int(schedule.count[chosen].sum()) for chosen in (writes, fresh))
    return Contents.blank(layout, layout.cells + written, layout.cells + values)


def _united(contents: Contents) -> Contents:
    """The same, where sums and results of equal number are one value. The numbers, which take much
    memory, are left out."""
    cells = len(contents.version)
    number = np.asarray(contents.number[: contents.values[0] - cells], np.int64)
    contents = contents._replace(number=np.zeros(0, np.int64))
    ordered = np.sort(number)
    if bool(np.all(ordered[1:] != ordered[:-1])):
        return contents
    order = np.argsort(number)
    starts = np.append(True, np.diff(number[order]) != 0)
    same = np.arange(cells + len(number), dtype=np.int32)
    same[cells + order] = cells + order[starts][np.cumsum(starts) - 1]
    value = np.asarray(contents.value, np.int32)
    last_read = np.full(len(same), -1, np.int32)
    np.maximum.at(last_read, same, np.asarray(contents.last_read, np.int32)[: len(same)])
    return contents._replace(value=np.where(value < 0, value, same[value]), last_read=last_read)


def _scratch(moments: Moments, layout: CellLayout, contents: Contents) -> tuple[Changes, Floats]:
    """The cells of scratch that operations use: what appears at their first uses, and when the last
    use of each ends."""
    spare = np.ones((layout.memory // max(1, layout.slots), layout.slots), np.bool_)
    spare[: layout.workers, : layout.buffer] = False
    place = np.asarray(contents.last_use, np.int32)
    used = place >= 0
    rank, slot = (column[used] for column in np.nonzero(spare))
    first, last = np.asarray(contents.first_use)[used], moments.finish[moments.order[place[used]]]
    nbytes = layout.size[rank * layout.stride + slot]
    return Changes(first, nbytes, rank.astype(np.int32)), last


def _inboxes(course: OperationTimes, layout: CellLayout) -> Ints:
    schedule = course.schedule
    chosen = schedule.remote & (schedule.reduces == 1)
    chosen &= schedule.peer < layout.memory // max(1, layout.slots)
    return np.flatnonzero(chosen).astype(np.int32)


def _events(
    course: OperationTimes, layout: CellLayout, holdings: Changes, live: Changes | None
) -> Events:
    """The events beside finishes, in order of time."""
    inboxes = _inboxes(course, layout)
    arrivals = inboxes[_by_time(course.start[inboxes])]
    if live is not None:
        holdings = joined(holdings, live._replace(rank=np.full(len(live.rank), -1, np.int32)))
    order = np.argsort(holdings.times, kind="stable")
    order = order[np.isfinite(holdings.times[order])]
    return Events(arrivals, holdings.times[order], holdings.nbytes[order], holdings.rank[order])


def _residence(
    course: OperationTimes,
    layout: CellLayout,
    scratch: tuple[Changes, Floats],
    holdings: Changes | None,
) -> Changes:
    """What appears at ranks and vanishes. `scratch` is as :func:`_scratch` gives it."""
    schedule, inbox, (first, last) = course.schedule, _inboxes(course, layout), scratch
    workers = np.arange(layout.workers, dtype=np.int32)
    buffers = Changes(
        np.zeros(layout.workers * layout.buffer),
        layout.size[np.add.outer(workers * layout.stride, np.arange(layout.buffer)).ravel()],
        np.repeat(workers, layout.buffer),
    )
    arrive = Changes(course.start[inbox], schedule.nbytes[inbox], schedule.peer[inbox])
    appear = joined(first, arrive)
    vanish = Changes(np.concatenate((last, course.finish[inbox])), -appear.nbytes, appear.rank)
    return joined(joined(buffers, joined(appear, vanish)), holdings)


def _levels(rank: Ints, step: Longs, change: Floats, times: Floats) -> Changes:
    """The running sum of `change` of each rank at the ends of steps, rank by rank."""
    order = np.lexsort((step, rank))
    rank, step, level = rank[order], step[order], np.cumsum(change[order])
    last_of_step = np.append((np.diff(rank) != 0) | (np.diff(step) != 0), True)[: len(rank)]
    before = np.concatenate(([0.0], level[:-1][np.diff(rank) != 0]))
    below = before[np.cumsum(np.concatenate(([0], np.diff(rank) != 0)))[: len(rank)]]
    return Changes(times[step[last_of_step]], (level - below)[last_of_step], rank[last_of_step])


class OperationTimes(NamedTuple):
    """A schedule, and when its operations ran."""

    schedule: Schedule
    start: Floats
    finish: Floats

    @property
    def makespan(self) -> float:
        """Seconds until the last operation finishes."""
        return float(self.finish.max(initial=0.0))


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
