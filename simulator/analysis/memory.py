"""Bytes resident and bytes redundant, per rank, over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels import copies
from simulator.schedules import semantics
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from topologies._compile import kernel
from topologies.topology import Floats, Ints


class Changes(NamedTuple):
    """Bytes that appear (or, negative, vanish) at times at ranks."""

    times: Floats
    nbytes: Floats
    rank: Ints


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory over time, in steps.

    From `times[k]` on, all ranks together hold `resident[k]` bytes, and `redundant[k]` of them are
    duplicates. `peaks[r]` is the most that rank r ever holds. `held` lists, rank by rank, what each
    rank holds from when on.
    """

    times: Floats
    resident: Floats
    redundant: Floats
    peaks: Floats
    held: Changes

    def of(self, rank: int) -> tuple[Floats, Floats]:
        """Times, and the bytes that `rank` holds from each on."""
        mine = slice(*np.searchsorted(self.held.rank, [rank, rank + 1]))
        return self.held.times[mine], self.held.nbytes[mine]

    @property
    def peak(self) -> float:
        """The most that any rank ever holds, in bytes."""
        return float(self.peaks.max())

    @property
    def peak_redundant(self) -> float:
        """The peak amount of duplicate data over all ranks, in bytes."""
        return float(self.redundant.max())


def trace(
    schedule: Schedule, timeline: Timeline, held: Changes | None = None, live: Changes | None = None
) -> Memory:
    """Follow every buffer, scratch slot and inbox of `schedule` through `timeline`.

    Resident are:

    - the buffer of a worker, always;
    - scratch and the slots of a server, from the first use to the last;
    - the inbox of a reducing transfer, from its start until it is merged.

    Redundant is the resident memory less the bytes of distinct live values. Equal values count
    once. A copy lives until it is overwritten, or until it has been added elsewhere and is not read
    again. Data in a switch count as neither. `held` is added to the resident memory, and `live` to
    the distinct live values.
    """
    start, finish = timeline.start, timeline.finish
    owned = np.zeros((schedule.ranks, schedule.slots), dtype=np.int8)
    owned[: schedule.workers, : schedule.buffer] = 1
    order = np.argsort(finish, kind="stable").astype(np.int32)
    data = semantics.inputs(schedule).ravel()
    with np.errstate(over="ignore"):
        cell, value, begin, end, read, first, last = kernel(copies.lifetimes, len(schedule))(
            order, schedule.operations, start, finish, data, owned.ravel(), schedule.slots
        )
    memory = cell < (schedule.ranks - schedule.switches) * schedule.slots
    cell, value, begin, end, read = (column[memory] for column in (cell, value, begin, end, read))
    first[(schedule.ranks - schedule.switches) * schedule.slots :] = np.inf
    size = schedule.shares * schedule.nbytes_total
    resident = _residence(schedule, start, finish, owned.ravel() == 1, first, last, size)
    merged = np.where(schedule.reduces[order] == 1, finish[order], np.inf)
    end = np.where(owned.ravel()[cell] == 1, end, np.minimum(end, last[cell]))
    values = _live(size[cell % schedule.slots], value, begin, end, read, merged)
    return _steps(schedule.ranks, timeline.makespan, joined(resident, held), joined(values, live))


def joined(changes: Changes, more: Changes | None) -> Changes:
    """The one and, if there are any, the other."""
    if more is None:
        return changes
    return Changes(
        np.concatenate((changes.times, more.times)),
        np.concatenate((changes.nbytes, more.nbytes)),
        np.concatenate((changes.rank, more.rank)),
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
    nbytes = np.concatenate((size[cells % schedule.slots], schedule.nbytes[inbox]))
    rank = np.concatenate((cells // schedule.slots, schedule.peer[inbox])).astype(np.int32)
    times = np.concatenate((begin, start[inbox], end, finish[inbox]))
    return Changes(times, np.concatenate((nbytes, -nbytes)), np.concatenate((rank, rank)))


def _live(
    nbytes: Floats, value: semantics.Data, begin: Floats, end: Floats, read: Ints, merged: Floats
) -> Changes:
    order = np.lexsort((begin, value))
    cover = kernel(copies.cover, len(value))
    rows, until = cover(value[order], begin[order], end[order], read[order], merged)
    since, size = begin[order][rows], nbytes[order][rows]
    times = np.concatenate((since, until))
    return Changes(times, np.concatenate((size, -size)), np.zeros(len(times), np.int32))


def _steps(ranks: int, makespan: float, held: Changes, live: Changes) -> Memory:
    """Sum the events; times closer than rounding are one."""
    times = np.unique(np.concatenate((held[0], live[0])))
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

    resident, levels = accumulate(held)
    peaks = np.zeros(ranks)
    np.maximum.at(peaks, levels.rank, levels.nbytes)
    return Memory(times_of_steps, resident, resident - accumulate(live)[0], peaks, levels)


def _levels(rank: Ints, step: npt.NDArray[np.int64], change: Floats, times: Floats) -> Changes:
    """The running sum of `change` of each rank at the ends of steps, rank by rank."""
    order = np.lexsort((step, rank))
    rank, step, level = rank[order], step[order], np.cumsum(change[order])
    last_of_step = np.append((np.diff(rank) != 0) | (np.diff(step) != 0), True)[: len(rank)]
    before = np.concatenate(([0.0], level[:-1][np.diff(rank) != 0]))
    below = before[np.cumsum(np.concatenate(([0], np.diff(rank) != 0)))[: len(rank)]]
    return Changes(times[step[last_of_step]], (level - below)[last_of_step], rank[last_of_step])
