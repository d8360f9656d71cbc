"""Times of tasks whose calls share media at max-min fair rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simulator.kernels import rates
from simulator.kernels.rates import COMPUTES, TALKS, Course, Loop, Room, Tasks, Usages
from simulator.kernels.records import Csr
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import Flags
from simulator.schedules.timeline import Timeline
from topologies.columns import entries
from topologies.errors import InputError
from topologies.jit import kernel
from topologies.topology import Floats, Ints


class Shared(NamedTuple):
    """What calls use of media that others use, too."""

    usages: Usages
    row: Ints
    """The first usage of each task; 0 for those that use nothing that others use."""
    media: Ints
    """A medium of the machine for each number of a medium in the usages: others are used alike."""
    first: Ints
    """The first task of the call of each task."""
    slowdown: float
    """By which share a computation takes longer while its place communicates."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskTimeline(Timeline):
    """When tasks ran, an operation each. One of a call starts when it has its lane."""

    first: Ints
    """The first task of the call of each task."""
    lost: Floats
    """Seconds that calls on a lane lost to calls on another one, by the medium on which they met,
    shape (media, lanes, lanes)."""
    together: Floats
    """For how long they were there together, of the same shape."""

    @cached_property
    def causes(self) -> Timeline:
        """The same, but that calls start when their last tasks have their lanes. Each task follows
        what the last one of its call waited for, first of all for its lane."""
        schedule, begin = self.schedule, np.zeros(len(self.first))
        np.maximum.at(begin, self.first, self.node_start)
        begin = begin[self.first]
        members, last = np.flatnonzero(self.node_start == begin), np.arange(len(begin))
        last[self.first[members]] = members
        last = last[self.first]
        task, entry = entries(schedule.indptr, last)
        queued = np.flatnonzero(self.node_cause[last] >= 0)
        indptr, indices = Csr.of(
            np.append(queued, task),
            np.append(self.node_cause[last[queued]], schedule.indices[entry]),
            len(begin),
        )
        chain = replace(schedule, seconds=self.finish - begin, indptr=indptr, indices=indices)
        routed, none = replace(self.routed, schedule=chain), np.full_like(self.node_cause, -1)
        calls = self.behind(chain.seconds)
        return Timeline(routed, begin, self.finish, begin, none, calls=calls)

    def behind(self, took: Floats) -> Floats:
        """The `calls` of the causes, from the seconds that each task `took`."""
        return np.zeros(0)


def run(routed: Routed, computes: Flags, talks: Flags, shared: Shared) -> TaskTimeline:
    """Run the operations of a schedule on lanes, one for each task. Those that compute are slowed
    down by those of their rank that talk. Raises InputError if calls wait for each other in a
    circle."""
    schedule = routed.schedule
    count, lanes, media = len(schedule), schedule.lanes, len(shared.media)
    order = np.argsort(shared.first, kind="stable")
    partner = np.full(count, -1, dtype=np.int32)
    follows = np.flatnonzero(np.diff(shared.first[order]) == 0)
    partner[order[follows]] = order[follows + 1]
    tasks = Tasks(
        schedule.rank,
        schedule.rank * np.int32(lanes) + schedule.lane.astype(np.int32),
        (TALKS * talks + COMPUTES * computes).astype(np.int8),
        schedule.seconds,
        shared.first,
        partner,
    )
    ready, start, finish = np.zeros((3, count))
    cause, lost = np.full(count, -1, dtype=np.int32), np.zeros((2 * media, lanes * lanes))
    course = Course(ready, start, finish, cause, lost)
    size = schedule.ranks * lanes
    room = Room(
        last=np.full(size, -1, dtype=np.int32),
        behind=np.full(count, -1, dtype=np.int32),
        waiting=np.diff(schedule.indptr).astype(np.int32),
        missing=np.bincount(shared.first, minlength=count).astype(np.int32),
        talking=np.zeros(schedule.ranks, dtype=np.int32),
        arrived=np.zeros(count + 1, dtype=np.int32),
        begun=np.zeros(count + 1, dtype=np.int32),
        active=np.zeros(size, dtype=np.int32),
        left=np.zeros(count),
        since=np.zeros(count),
        rate=np.zeros(count),
        next_rate=np.zeros(count),
        fair=np.zeros(count),
        limit=np.full(count, -1, dtype=np.int32),
        row=shared.row.copy(),
        spare=np.full(media, -1.0),
        flows=np.full(media, -1.0),
        turn=np.full(media, -1.0),
        counts=np.zeros(6, dtype=np.int64),
    )
    loop = Loop(tasks, schedule.successors, shared.usages, shared.slowdown, lanes, course, room)
    # A task takes as long as four operations of other kernels.
    done = kernel(rates.simulate, 4 * count)(loop)
    if done < count:
        raise InputError(f"{count - done} of {count} tasks wait for each other in a circle")
    # What was not slowed down keeps its seconds to the last digit.
    as_alone = course.start + schedule.seconds == course.finish
    took = np.where(as_alone, schedule.seconds, course.finish - course.start)
    ran = replace(routed, schedule=replace(schedule, seconds=took))
    columns = course.ready, course.finish, course.start, course.cause
    lost, together = lost.reshape(2, media, lanes, lanes)
    return TaskTimeline(ran, *columns, first=shared.first, lost=lost, together=together)
