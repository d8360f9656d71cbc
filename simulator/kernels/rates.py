"""The rules of time where calls share media at max-min fair rates."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Annotated, Any, NamedTuple

import numpy as np

from simulator.kernels.records import Csr, Flags, Floats, Index, Ints, Longs

PLAIN, TALKS, COMPUTES = range(3)
"""What a task is to its place: a communication, a computation that communications slow down, or
neither."""
CLOSE = 1e-12
"""Rates that differ by less are the same, and calls end at once whose ends do."""
GROWS = -1.0
"""The next rate of a call that has none yet."""


class Tasks(NamedTuple):
    """The columns of tasks, a row each."""

    place: Ints
    lane: Ints
    """The lane among those of all places."""
    role: Flags
    seconds: Floats
    """The time alone."""
    first: Ints
    """The first task of the same call."""
    partner: Ints
    """The next task of the same call; -1 for none."""


class Usages(NamedTuple):
    """What calls use of media: row r has the rows from `indptr[r]` to `indptr[r + 1]`. The first
    one is empty, of what uses nothing that others use. A call with several phases has a row for
    each, behind each other."""

    indptr: Ints
    medium: Ints
    share: Floats
    """For what share of its time alone the phase keeps the medium busy."""
    flows: Floats
    """How many of its messages are on the medium, on average over that time."""
    until: Floats
    """The share of its time alone that a call has left when the phase of each row ends."""


class Course(NamedTuple):
    """When tasks ran, a row each, and what calls lost."""

    ready: Floats
    start: Floats
    """When the task took its lane."""
    finish: Floats
    cause: Ints
    """The task that held the lane before, if it was not free; -1 for none."""
    lost: Annotated[Floats, 2]
    """Seconds that calls on a lane lost to those on another, by the medium on which they met, and
    then for how long they were there together: shape (2 * media, lanes * lanes)."""


class Room(NamedTuple):
    """The state of a run."""

    last: Ints
    """The last task of the line for each lane, whose first one has the lane; -1 for none."""
    behind: Ints
    """The task behind each task in its line; -1 for none."""
    waiting: Ints
    """Tasks that each task still waits for."""
    missing: Ints
    """Tasks of each call without a lane, in the row of its first task."""
    talking: Ints
    """Communications of each place."""
    arrived: Ints
    """A stack of tasks that became ready."""
    begun: Ints
    """A stack of the first tasks of calls that began at a rate of their own."""
    active: Ints
    """The first tasks of calls whose rates depend on others."""
    left: Floats
    """Of the first task of each call: the seconds alone that were left when its rate changed."""
    since: Floats
    """When that was."""
    rate: Floats
    next_rate: Floats
    fair: Floats
    """The next rate, if no flow gave way."""
    limit: Ints
    """The medium that limits the rate of each call; -1 for none."""
    row: Ints
    """The usage of the phase in which each call is."""
    spare: Floats
    """What is left of each medium."""
    flows: Floats
    """The flows on each medium of calls without a rate."""
    turn: Floats
    """When each medium was last marked."""
    counts: Longs
    """Numbers by the names below."""


READY, BEGUN, ACTIVE, CHANGED, SHARED, DONE = range(6)


class Loop(NamedTuple):
    """All that a run reads and writes."""

    tasks: Tasks
    successors: Csr
    usages: Usages
    slowdown: float
    lanes: int
    """Lanes of a place."""
    course: Course
    room: Room


def simulate(loop: Loop) -> int:
    """Fill in the course of all tasks; returns how many are done.

    A lane serves tasks by readiness, then by row. A call begins when its last task has its lane,
    and all end together. Rates of calls are max-min fair: at most 1, and of no medium more than 1
    is used. A computation has the rate 1 / (1 + `slowdown`) while its place communicates.
    """
    arrivals: list[Any] = [np.int64(0)]
    arrivals.clear()
    ends: list[tuple[float, Any]] = [(0.0, np.int64(0))]
    ends.clear()
    room, counts, now = loop.room, loop.room.counts, 0.0
    for i in range(len(room.waiting)):
        if room.waiting[i] == 0:
            heappush(arrivals, np.int64(i))
    while True:
        while True:
            while counts[BEGUN] > 0:
                counts[BEGUN] -= 1
                first = room.begun[counts[BEGUN]]
                heappush(ends, (now + loop.tasks.seconds[first], np.int64(first)))
            # What takes no time ends before anything else arrives.
            if len(ends) > 0 and ends[0][0] <= now:
                release(loop, heappop(ends)[1], now)
            elif len(arrivals) > 0:
                arrive(loop, heappop(arrivals), now)
            else:
                break
            while counts[READY] > 0:
                counts[READY] -= 1
                heappush(arrivals, np.int64(room.arrived[counts[READY]]))
        if counts[CHANGED] > 0:
            share_out(loop, now)
        if len(ends) == 0 and counts[ACTIVE] == 0:
            return int(counts[DONE])
        before, now = now, ends[0][0] if len(ends) > 0 else np.inf
        for k in range(counts[ACTIVE]):
            end = end_of(loop, room.active[k])
            now = end if end < now * (1.0 - CLOSE) else now
        account(loop, now - before)
        for k in range(counts[ACTIVE] - 1, -1, -1):
            i = room.active[k]
            if end_of(loop, i) > now * (1.0 + CLOSE):
                continue
            mark(loop, i)
            if loop.usages.until[room.row[i]] > 0.0:
                # What was left keeps its moment: a call at full speed takes its seconds exactly.
                room.row[i] += 1
                room.limit[i] = -1
                mark(loop, i)
                continue
            counts[ACTIVE] -= 1
            room.active[k] = room.active[counts[ACTIVE]]
            heappush(ends, (now, np.int64(i)))


def end_of(loop: Loop, i: Index) -> float:
    """When the phase of a call ends at its rate."""
    room = loop.room
    left = max(0.0, room.left[i] - loop.tasks.seconds[i] * loop.usages.until[room.row[i]])
    return float(room.since[i] + left / room.rate[i])


def arrive(loop: Loop, i: Index, now: float) -> None:
    """A task is ready: it takes its lane, or waits for it."""
    room, lane = loop.room, loop.tasks.lane[i]
    before = room.last[lane]
    loop.course.ready[i], loop.course.cause[i], room.last[lane] = now, before, i
    if before < 0:
        enter(loop, i, now)
    else:
        room.behind[before] = i


def enter(loop: Loop, i: Index, now: float) -> None:
    """A task takes its lane. The last one of a call begins it."""
    tasks, room = loop.tasks, loop.room
    first = tasks.first[i]
    loop.course.start[i] = now
    talk(loop, i, 1)
    room.missing[first] -= 1
    if room.missing[first] > 0:
        return
    slows = tasks.role[first] == COMPUTES and loop.slowdown > 0.0
    if tasks.seconds[first] == 0.0 or not (room.row[first] > 0 or slows):
        room.begun[room.counts[BEGUN]] = first
        room.counts[BEGUN] += 1
        return
    room.left[first], room.since[first] = tasks.seconds[first], now
    room.rate[first] = 1.0
    room.active[room.counts[ACTIVE]] = first
    room.counts[ACTIVE] += 1
    mark(loop, first)


def release(loop: Loop, first: Index, now: float) -> None:
    """A call ends: its tasks leave their lanes to the next ones, and what waits for them alone is
    ready."""
    tasks, successors, room = loop.tasks, loop.successors, loop.room
    i = first
    while i >= 0:
        loop.course.finish[i] = now
        room.counts[DONE] += 1
        talk(loop, i, -1)
        for k in range(successors.indptr[i], successors.indptr[i + 1]):
            j = successors.indices[k]
            room.waiting[j] -= 1
            if room.waiting[j] == 0:
                room.arrived[room.counts[READY]] = j
                room.counts[READY] += 1
        if room.behind[i] >= 0:
            enter(loop, room.behind[i], now)
        else:
            room.last[tasks.lane[i]] = -1
        i = tasks.partner[i]


def talk(loop: Loop, i: Index, change: int) -> None:
    """A communication takes its lane, or leaves it."""
    tasks, room = loop.tasks, loop.room
    if tasks.role[i] == TALKS and tasks.seconds[i] > 0.0:
        room.talking[tasks.place[i]] += change
        if loop.slowdown > 0.0:
            room.counts[CHANGED] = 1


def mark(loop: Loop, i: Index) -> None:
    """Mark the media of a call: rates of calls on them change."""
    usages, room = loop.usages, loop.room
    room.counts[CHANGED] = 1
    for n in range(usages.indptr[room.row[i]], usages.indptr[room.row[i] + 1]):
        room.turn[usages.medium[n]] = room.counts[SHARED]


def share_out(loop: Loop, now: float) -> None:
    """New rates of the calls that share marked media, directly or through others."""
    tasks, usages, room = loop.tasks, loop.usages, loop.room
    counts = room.counts
    growing, before = 0, -1
    for k in range(counts[ACTIVE]):
        i = room.active[k]
        row = room.row[i]
        room.next_rate[i] = room.rate[i] if usages.indptr[row] < usages.indptr[row + 1] else 1.0
    while growing > before:
        before = growing
        for k in range(counts[ACTIVE]):
            i = room.active[k]
            begin, end = usages.indptr[room.row[i]], usages.indptr[room.row[i] + 1]
            for n in range(begin, end):
                if room.next_rate[i] != GROWS and room.turn[usages.medium[n]] == counts[SHARED]:
                    room.next_rate[i], room.limit[i] = GROWS, -1
                    growing += 1
                    mark(loop, i)
                    for other in range(begin, end):
                        room.spare[usages.medium[other]] = 1.0
    while growing > 0:
        growing = grow(loop, growing)
    for k in range(counts[ACTIVE]):
        i = room.active[k]
        if tasks.role[i] == COMPUTES and room.talking[tasks.place[i]] > 0:
            room.next_rate[i] = min(room.next_rate[i], 1.0 / (1.0 + loop.slowdown))
        if room.next_rate[i] != room.rate[i]:
            took = now - room.since[i]
            room.left[i] = max(0.0, room.left[i] - took * room.rate[i])
            room.since[i], room.rate[i] = now, room.next_rate[i]
    counts[CHANGED] = 0
    counts[SHARED] += 1


def grow(loop: Loop, growing: int) -> int:
    """Give rates to calls that have none; returns how many still have none.

    On each medium all flows get the same share of what is left. Calls for which that is enough
    have full speed. If there are none, those that get least by their tightest medium have that."""
    usages, room = loop.usages, loop.room
    least, satisfied = 1.0, False
    # First flows are 0, then they are counted, then shared out, and then calls take their shares.
    for part in range(4):
        for k in range(room.counts[ACTIVE]):
            i = room.active[k]
            if room.next_rate[i] != GROWS:
                continue
            if part == 2:
                room.fair[i] = 1.0
            takes = room.fair[i] == 1.0 if satisfied else room.fair[i] <= least * (1.0 + CLOSE)
            for n in range(usages.indptr[room.row[i]], usages.indptr[room.row[i] + 1]):
                m, share, flows = usages.medium[n], usages.share[n], usages.flows[n]
                if part < 2:
                    room.flows[m] = flows + room.flows[m] if part == 1 else 0.0
                elif part == 2:
                    fair = max(0.0, room.spare[m]) / room.flows[m] * flows
                    if fair < room.fair[i] * share:
                        room.fair[i], room.limit[i] = fair / share, m
                elif takes:
                    room.spare[m] -= room.fair[i] * share
            if part == 2:
                satisfied = satisfied or room.fair[i] == 1.0
                least = min(least, room.fair[i])
            elif part == 3 and takes:
                room.next_rate[i] = room.fair[i]
                growing -= 1
    return growing


def account(loop: Loop, took: float) -> None:
    """Add what calls lose in so many seconds to those of other streams on the medium that limits
    them, in proportion to their use of it, and how long they are there together."""
    tasks, usages, room = loop.tasks, loop.usages, loop.room
    for k in range(room.counts[ACTIVE]):
        i, others = room.active[k], 0.0
        limit = room.limit[i]
        for part in range(2 * (limit >= 0)):
            for q in range(room.counts[ACTIVE]):
                j = room.active[q]
                for n in range(usages.indptr[room.row[j]], usages.indptr[room.row[j] + 1]):
                    if j == i or usages.medium[n] != limit:
                        continue
                    used = usages.share[n] * room.rate[j]
                    if part == 0:
                        others += used
                        continue
                    pair = tasks.lane[i] % loop.lanes * loop.lanes + tasks.lane[j] % loop.lanes
                    lost = took * (1.0 - room.rate[i]) * used / others
                    loop.course.lost[limit, pair] += lost
                    loop.course.lost[len(room.spare) + limit, pair] += took
