"""Memory of a run by another way: sort the intervals in which copies live, and unite them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.analysis.memory import Changes, joined
from simulator.kernels.records import Flags, Floats, Ints, Operations, Values
from simulator.schedules import semantics
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.timeline import Timeline
from topologies.jit import kernel

_NONE = -1


class Intervals(NamedTuple):
    """The columns of :class:`simulator.analysis.memory.MemoryTrace`."""

    times: Floats
    resident: Floats
    redundant: Floats
    peaks: Floats
    holdings: Changes


def trace_intervals(
    schedule: Schedule,
    timeline: Timeline,
    holdings: Changes | None = None,
    live: Changes | None = None,
) -> Intervals:
    """As :func:`simulator.analysis.memory.trace`."""
    start, finish = timeline.start, timeline.finish
    owned = np.zeros((schedule.ranks, schedule.slots), dtype=np.int8)
    owned[: schedule.workers, : schedule.buffer] = 1
    order = np.argsort(finish, kind="stable").astype(np.int32)
    data = semantics.inputs(schedule).ravel()
    with np.errstate(over="ignore"):
        cell, value, begin, end, read, first, last = kernel(lifetimes, len(schedule))(
            order, schedule.operations, start, finish, data, owned.ravel(), schedule.slots
        )
    memory = cell < (schedule.ranks - schedule.switches) * schedule.slots
    cell, value, begin, end, read = (column[memory] for column in (cell, value, begin, end, read))
    first[(schedule.ranks - schedule.switches) * schedule.slots :] = np.inf
    shares = np.broadcast_to(schedule.shares, (schedule.ranks, schedule.slots))
    size = shares.ravel() * schedule.nbytes_total
    resident = _residence(schedule, start, finish, owned.ravel() == 1, first, last, size)
    merged = np.where(schedule.reduces[order] == 1, finish[order], np.inf)
    end = np.where(owned.ravel()[cell] == 1, end, np.minimum(end, last[cell]))
    values = _live(size[cell], value, begin, end, read, merged)
    return _steps(
        schedule.ranks, timeline.makespan, joined(resident, holdings), joined(values, live)
    )


def _residence(
    schedule: Schedule,
    start: Floats,
    finish: Floats,
    owned: npt.NDArray[np.bool_],
    first: Floats,
    last: Floats,
    size: Floats,
) -> Changes:
    cells = np.flatnonzero(owned | np.isfinite(first))
    begin = np.where(owned[cells], 0.0, first[cells])
    end = np.where(owned[cells], np.inf, last[cells])
    to_memory = schedule.peer < schedule.ranks - schedule.switches
    inbox = np.flatnonzero(schedule.remote & (schedule.reduces == 1) & to_memory)
    nbytes = np.concatenate((size[cells], schedule.nbytes[inbox]))
    rank = np.concatenate((cells // schedule.slots, schedule.peer[inbox])).astype(np.int32)
    times = np.concatenate((begin, start[inbox], end, finish[inbox]))
    return Changes(times, np.concatenate((nbytes, -nbytes)), np.concatenate((rank, rank)))


def _live(
    nbytes: Floats, value: semantics.Data, begin: Floats, end: Floats, read: Ints, merged: Floats
) -> Changes:
    order = np.lexsort((begin, value))
    columns = value[order], begin[order], end[order], read[order]
    rows, until = kernel(cover, len(value))(*columns, merged)
    since, size = begin[order][rows], nbytes[order][rows]
    times = np.concatenate((since, until))
    return Changes(times, np.concatenate((size, -size)), np.zeros(len(times), np.int32))


def _steps(ranks: int, makespan: float, holdings: Changes, live: Changes) -> Intervals:
    """Sum the events; times closer than rounding are one."""
    times = np.unique(np.concatenate((holdings[0], live[0])))
    times = times[np.isfinite(times)]
    distinct = (
        np.concatenate(([True], np.diff(times) > 1e-12 * makespan))
        if len(times)
        else np.zeros(0, bool)
    )
    step_of = np.cumsum(distinct) - 1
    times_of_steps = times[distinct]

    def accumulate(events: Changes) -> tuple[Floats, Changes]:
        """The sum over time of all ranks, and what each holds."""
        finite = np.isfinite(events.times)
        step = step_of[np.searchsorted(times, events.times[finite])]
        change, rank = events.nbytes[finite], events.rank[finite]
        total = np.cumsum(np.bincount(step, change, len(times_of_steps)))
        return total.astype(np.float64), _levels(rank, step, change, times_of_steps)

    resident, levels = accumulate(holdings)
    peaks = np.zeros(ranks)
    np.maximum.at(peaks, levels.rank, levels.nbytes)
    return Intervals(times_of_steps, resident, resident - accumulate(live)[0], peaks, levels)


def _levels(rank: Ints, step: npt.NDArray[np.int64], change: Floats, times: Floats) -> Changes:
    """The running sum of `change` of each rank at the ends of steps, rank by rank."""
    order = np.lexsort((step, rank))
    rank, step, level = rank[order], step[order], np.cumsum(change[order])
    last_of_step = np.append((np.diff(rank) != 0) | (np.diff(step) != 0), True)[: len(rank)]
    before = np.concatenate(([0.0], level[:-1][np.diff(rank) != 0]))
    below = before[np.cumsum(np.concatenate(([0], np.diff(rank) != 0)))[: len(rank)]]
    return Changes(times[step[last_of_step]], (level - below)[last_of_step], rank[last_of_step])


def lifetimes(
    order: Ints,
    operations: Operations,
    start: Floats,
    finish: Floats,
    data: Values,
    owned: Flags,
    slots: int,
) -> tuple[Ints, Values, Floats, Floats, Ints, Floats, Floats]:
    """When which value was held where, and when a cell (rank, slot) was in use.

    What a computation writes is a new value, the same for the same value read, and no sum of
    others: a mix of its bits, which is not 0 where that value is. `order` is that of the finishes;
    `data` and `owned` have a row a cell. Returns, of every version of a cell, the cell, its value,
    begin and end (when it is overwritten; at once if that happens unread) and the place in `order`
    of its last read, or -1; then the first and last use of every cell.
    """
    kind, rank, peer = operations.kind, operations.rank, operations.peer
    source, target = operations.source, operations.target
    count, reduces = operations.count, operations.reduces
    cells = len(data)
    total = cells
    for i in range(len(order)):
        total += count[i]
    cell_of, value_of = np.empty(total, np.int32), np.empty(total, np.uint64)
    begin, end, read = np.zeros(total), np.full(total, np.inf), np.full(total, _NONE, np.int32)
    version_of = np.full(cells, _NONE, np.int32)
    first_use, last_use = np.full(cells, np.inf), np.full(cells, -np.inf)
    versions = 0
    for cell in range(cells):
        if owned[cell]:
            cell_of[versions], value_of[versions], version_of[cell] = cell, data[cell], versions
            versions += 1
    for k in range(len(order)):
        i = order[k]
        for j in range(count[i]):
            origin, goal = rank[i] * slots + source[i] + j, peer[i] * slots + target[i] + j
            if source[i] >= 0:
                first_use[origin], last_use[origin] = (
                    min(first_use[origin], start[i]),
                    max(last_use[origin], finish[i]),
                )
                if version_of[origin] >= 0:
                    read[version_of[origin]] = k
            if target[i] >= 0:
                first_use[goal], last_use[goal] = (
                    min(first_use[goal], start[i]),
                    max(last_use[goal], finish[i]),
                )
                if kind[i] == COMPUTE:
                    read_from = data[origin] if source[i] >= 0 else np.uint64(versions + 1)
                    mixed = (read_from + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(
                        0x9E3779B97F4A7C15
                    )
                    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                    data[goal] = mixed ^ (mixed >> np.uint64(27))
                elif source[i] >= 0:
                    data[goal] = data[goal] + data[origin] if reduces[i] else data[origin]
                if version_of[goal] >= 0:
                    needed = reduces[i] or read[version_of[goal]] >= 0
                    end[version_of[goal]] = finish[i] if needed else begin[version_of[goal]]
                cell_of[versions], value_of[versions], begin[versions] = goal, data[goal], finish[i]
                version_of[goal] = versions
                versions += 1
    return (
        cell_of[:versions],
        value_of[:versions],
        begin[:versions],
        end[:versions],
        read[:versions],
        first_use,
        last_use,
    )


def cover(
    value: Values, begin: Floats, end: Floats, read: Ints, merged: Floats
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Union of the intervals of equal values, sorted by (value, begin): the row that begins each
    piece, and its end.

    `read` is the number of the last read of a version, in order, `merged[read]` when that read had
    merged the value elsewhere, or inf where it only copied it: a value of which the last read of
    all merged it ends there.
    """
    rows, until = np.empty(len(value), np.int64), np.empty(len(value))
    pieces, group = 0, 0
    while group < len(value):
        after, last = group, _NONE
        while after < len(value) and value[after] == value[group]:
            last = max(last, read[after])
            after += 1
        death = merged[last] if last >= 0 else np.inf
        first = pieces
        for k in range(group, after):
            stop = min(end[k], death)
            if stop <= begin[k]:
                continue
            if pieces > first and begin[k] <= until[pieces - 1]:
                until[pieces - 1] = max(until[pieces - 1], stop)
            else:
                rows[pieces], until[pieces] = k, stop
                pieces += 1
        group = after
    return rows[:pieces], until[:pieces]
