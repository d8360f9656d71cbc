"""The rules of time where calls share media at max-min fair rates."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Csr, Flags, Floats, Index, Ints

PLAIN, TALKS, COMPUTES = range(3)
"""What a task is to its place: a communication, a computation that communications slow down, or
neither."""
CLOSE = 1e-12
"""Rates that differ by less are the same."""


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
    usage: Ints
    """A row of the usages. The first one is empty, of what uses nothing that others use."""


class Usages(NamedTuple):
    """What calls use of media: row r has the rows from `indptr[r]` to `indptr[r + 1]`."""

    indptr: Ints
    medium: Ints
    share: Floats
    """For what share of its time alone the call keeps the medium busy."""
    flows: Floats
    """How many of its messages are on the medium, on average over that time."""


class Course(NamedTuple):
    """When tasks ran, a row each."""

    ready: Floats
    start: Floats
    """When the task took its lane."""
    begin: Floats
    """When all tasks of its call had taken their lanes."""
    finish: Floats
    cause: Ints
    """The task that held the lane before, if it was not free; -1 for none."""


class Room(NamedTuple):
    """The state of a run."""

    held: Ints
    """The task on each lane; -1 for none."""
    queues: Annotated[Ints, 2]
    """The first and the last task that wait for each lane; -1 for none, shape (lanes, 2)."""
    behind: Ints
    """The task behind each task in a queue."""
    waiting: Ints
    """Tasks that each task still waits for."""
    missing: Ints
    """Tasks of each call without a lane, in the row of its first task."""
    talking: Ints
    """Communications of each place."""
    stacks: Annotated[Ints, 2]
    """Tasks that became ready, and calls that began at a rate of their own, shape (2, tasks)."""
    active: Ints
    """The first tasks of calls whose rates depend on others."""
    calls: Annotated[Floats, 2]
    """Of the first task of each call: the seconds alone that were left when its rate changed, when
    that was, its rate, the next one, and what it would be if no flow gave way, shape (tasks, 5)."""
    limit: Ints
    """The medium that limits the rate of each call; -1 for none."""
    media: Annotated[Floats, 2]
    """Of each medium: what is left of it, the flows of calls without a rate, and when it was last
    marked, shape (media, 3)."""
    counts: npt.NDArray[np.int64]
    """Numbers by the names below."""


READY, BEGUN, ACTIVE, CHANGED, SHARED, DONE = range(6)
LEFT, SINCE, RATE, NEXT, FAIR = range(5)
FLOWS, TURN = 1, 2
GROWS = -1.0
"""The next rate of a call that has none yet."""
Lost = Annotated[Floats, 2]


def simulate(
    tasks: Tasks,
    successors: Csr,
    usages: Usages,
    slowdown: float,
    course: Course,
    room: Room,
    lanes: Index,
    lost: Lost,
) -> int:
    """Fill in the course of all tasks; returns how many are done.

    A lane serves tasks by readiness, then by row. A call begins when its last task has its lane,
    and all end together. Rates of calls are max-min fair: at most 1, and of no medium more than 1
    is used. A computation has the rate 1 / (1 + `slowdown`) while its place communicates.

    `lost` gets the seconds that calls on a stream lose to calls on another, of so many `lanes` of a
    place, by the medium on which they meet, and then for how long they are there together: shape
    (2 * media, lanes * lanes).
    """
    arrivals: list[Any] = [np.int64(0)]
    arrivals.clear()
    ends: list[tuple[float, Any]] = [(0.0, np.int64(0))]
    ends.clear()
    counts, now = room.counts, 0.0
    for i in range(len(room.waiting)):
        if room.waiting[i] == 0:
            heappush(arrivals, np.int64(i))
    while True:
        while True:
            while counts[BEGUN] > 0:
                counts[BEGUN] -= 1
                first = room.stacks[BEGUN, counts[BEGUN]]
                heappush(ends, (now + tasks.seconds[first], np.int64(first)))
            # What takes no time ends before anything else arrives.
            if len(ends) > 0 and ends[0][0] <= now:
                release(tasks, successors, usages, slowdown, course, room, heappop(ends)[1], now)
            elif len(arrivals) > 0:
                arrive(tasks, usages, slowdown, course, room, heappop(arrivals), now)
            else:
                break
            while counts[READY] > 0:
                counts[READY] -= 1
                heappush(arrivals, np.int64(room.stacks[READY, counts[READY]]))
        if counts[CHANGED] > 0:
            share_out(tasks, usages, slowdown, room, now)
        if len(ends) == 0 and counts[ACTIVE] == 0:
            return int(counts[DONE])
        before, now = now, ends[0][0] if len(ends) > 0 else np.inf
        for k in range(counts[ACTIVE]):
            now = min(now, end_of(room, room.active[k]))
        account(tasks, usages, room, lanes, lost, now - before)
        for k in range(counts[ACTIVE] - 1, -1, -1):
            i = room.active[k]
            if end_of(room, i) <= now:
                counts[ACTIVE] -= 1
                room.active[k] = room.active[counts[ACTIVE]]
                touch(tasks, usages, room, i)
                heappush(ends, (now, np.int64(i)))


def end_of(room: Room, i: Index) -> float:
    """When a call ends at its rate."""
    return float(room.calls[i, SINCE] + room.calls[i, LEFT] / room.calls[i, RATE])


def arrive(
    tasks: Tasks,
    usages: Usages,
    slowdown: float,
    course: Course,
    room: Room,
    i: Index,
    now: float,
) -> None:
    """A task is ready: it takes its lane, or waits for it."""
    lane = tasks.lane[i]
    course.ready[i] = now
    if room.held[lane] < 0:
        enter(tasks, usages, slowdown, course, room, i, now)
        return
    last = room.queues[lane, 1]
    course.cause[i] = room.held[lane] if last < 0 else last
    room.behind[i] = -1
    if last < 0:
        room.queues[lane, 0] = i
    else:
        room.behind[last] = i
    room.queues[lane, 1] = i


def enter(
    tasks: Tasks,
    usages: Usages,
    slowdown: float,
    course: Course,
    room: Room,
    i: Index,
    now: float,
) -> None:
    """A task takes its lane. The last one of a call begins it."""
    first = tasks.first[i]
    room.held[tasks.lane[i]] = i
    course.start[i] = now
    if tasks.role[i] == TALKS and tasks.seconds[i] > 0.0:
        room.talking[tasks.place[i]] += 1
        room.counts[CHANGED] = 1
    room.missing[first] -= 1
    if room.missing[first] > 0:
        return
    j = first
    while j >= 0:
        course.begin[j] = now
        j = tasks.partner[j]
    uses = tasks.usage[first] > 0
    slows = tasks.role[first] == COMPUTES and slowdown > 0.0
    if tasks.seconds[first] == 0.0 or not (uses or slows):
        room.stacks[BEGUN, room.counts[BEGUN]] = first
        room.counts[BEGUN] += 1
        return
    room.calls[first, LEFT], room.calls[first, SINCE] = tasks.seconds[first], now
    room.calls[first, RATE] = 1.0
    room.active[room.counts[ACTIVE]] = first
    room.counts[ACTIVE] += 1
    touch(tasks, usages, room, first)


def release(
    tasks: Tasks,
    successors: Csr,
    usages: Usages,
    slowdown: float,
    course: Course,
    room: Room,
    first: Index,
    now: float,
) -> None:
    """A call ends: its tasks leave their lanes to the next ones, and what waits for them alone is
    ready."""
    i = first
    while i >= 0:
        lane = tasks.lane[i]
        course.finish[i] = now
        room.counts[DONE] += 1
        if tasks.role[i] == TALKS and tasks.seconds[i] > 0.0:
            room.talking[tasks.place[i]] -= 1
            room.counts[CHANGED] = 1
        for k in range(successors.indptr[i], successors.indptr[i + 1]):
            j = successors.indices[k]
            room.waiting[j] -= 1
            if room.waiting[j] == 0:
                room.stacks[READY, room.counts[READY]] = j
                room.counts[READY] += 1
        room.held[lane] = -1
        j = room.queues[lane, 0]
        if j >= 0:
            room.queues[lane, 0] = room.behind[j]
            if room.behind[j] < 0:
                room.queues[lane, 1] = -1
            enter(tasks, usages, slowdown, course, room, j, now)
        i = tasks.partner[i]


def touch(tasks: Tasks, usages: Usages, room: Room, i: Index) -> None:
    """Mark the media of a call: rates of calls on them change."""
    room.counts[CHANGED] = 1
    for n in range(usages.indptr[tasks.usage[i]], usages.indptr[tasks.usage[i] + 1]):
        room.media[usages.medium[n], TURN] = room.counts[SHARED]


def share_out(tasks: Tasks, usages: Usages, slowdown: float, room: Room, now: float) -> None:
    """New rates of the calls that share marked media, directly or through others."""
    calls, media, counts = room.calls, room.media, room.counts
    growing, before = 0, -1
    for k in range(counts[ACTIVE]):
        i = room.active[k]
        calls[i, NEXT] = calls[i, RATE] if tasks.usage[i] > 0 else 1.0
    while growing > before:
        before = growing
        for k in range(counts[ACTIVE]):
            i = room.active[k]
            if calls[i, NEXT] == GROWS:
                continue
            for n in range(usages.indptr[tasks.usage[i]], usages.indptr[tasks.usage[i] + 1]):
                if media[usages.medium[n], TURN] == counts[SHARED]:
                    calls[i, NEXT] = GROWS
            if calls[i, NEXT] == GROWS:
                room.limit[i] = -1
                growing += 1
                touch(tasks, usages, room, i)
                for n in range(usages.indptr[tasks.usage[i]], usages.indptr[tasks.usage[i] + 1]):
                    media[usages.medium[n], LEFT] = 1.0
    while growing > 0:
        growing = grow(tasks, usages, room, growing)
    for k in range(counts[ACTIVE]):
        i = room.active[k]
        if tasks.role[i] == COMPUTES and room.talking[tasks.place[i]] > 0:
            calls[i, NEXT] = min(calls[i, NEXT], 1.0 / (1.0 + slowdown))
        if calls[i, NEXT] != calls[i, RATE]:
            took = now - calls[i, SINCE]
            calls[i, LEFT] = max(0.0, calls[i, LEFT] - took * calls[i, RATE])
            calls[i, SINCE], calls[i, RATE] = now, calls[i, NEXT]
    counts[CHANGED] = 0
    counts[SHARED] += 1


def grow(tasks: Tasks, usages: Usages, room: Room, growing: int) -> int:
    """Give rates to calls that have none; returns how many still have none.

    On each medium all flows get the same share of what is left. Calls for which that is enough
    have full speed. If there are none, those that get least by their tightest medium have that."""
    calls, media, least = room.calls, room.media, 1.0
    for part in range(2):
        for k in range(room.counts[ACTIVE]):
            i = room.active[k]
            if calls[i, NEXT] == GROWS:
                for n in range(usages.indptr[tasks.usage[i]], usages.indptr[tasks.usage[i] + 1]):
                    m = usages.medium[n]
                    media[m, FLOWS] = 0.0 if part == 0 else media[m, FLOWS] + usages.flows[n]
    satisfied = False
    for k in range(room.counts[ACTIVE]):
        i = room.active[k]
        if calls[i, NEXT] == GROWS:
            calls[i, FAIR] = 1.0
            for n in range(usages.indptr[tasks.usage[i]], usages.indptr[tasks.usage[i] + 1]):
                m = usages.medium[n]
                fair = max(0.0, media[m, LEFT]) / media[m, FLOWS] * usages.flows[n]
                if fair < calls[i, FAIR] * usages.share[n]:
                    calls[i, FAIR], room.limit[i] = fair / usages.share[n], m
            satisfied = satisfied or calls[i, FAIR] == 1.0
            least = min(least, calls[i, FAIR])
    for k in range(room.counts[ACTIVE]):
        i = room.active[k]
        if calls[i, NEXT] != GROWS or (satisfied and calls[i, FAIR] < 1.0):
            continue
        if calls[i, FAIR] <= least * (1.0 + CLOSE) or satisfied:
            calls[i, NEXT] = calls[i, FAIR]
            growing -= 1
            for n in range(usages.indptr[tasks.usage[i]], usages.indptr[tasks.usage[i] + 1]):
                media[usages.medium[n], LEFT] -= calls[i, FAIR] * usages.share[n]
    return growing


def account(
    tasks: Tasks, usages: Usages, room: Room, lanes: Index, lost: Lost, took: float
) -> None:
    """Add what calls lose in so many seconds to those of other streams on the medium that limits
    them, in proportion to their use of it, and how long they are there together."""
    media = len(room.media)
    for k in range(room.counts[ACTIVE]):
        i = room.active[k]
        limit, rate = room.limit[i], room.calls[i, RATE]
        if limit < 0:
            continue
        others = 0.0
        for part in range(2):
            for q in range(room.counts[ACTIVE]):
                j = room.active[q]
                if j == i:
                    continue
                for n in range(usages.indptr[tasks.usage[j]], usages.indptr[tasks.usage[j] + 1]):
                    if usages.medium[n] != limit:
                        continue
                    used = usages.share[n] * room.calls[j, RATE]
                    if part == 0:
                        others += used
                    else:
                        pair = tasks.lane[i] % lanes * lanes + tasks.lane[j] % lanes
                        lost[limit, pair] += took * (1.0 - rate) * used / others
                        lost[media + limit, pair] += took
