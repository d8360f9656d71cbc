"""Two clocks of an animation: simulated time, and steps of equal length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.kernels import dependencies
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from topologies.jit import kernel
from topologies.topology import Floats, Ints

LOCAL = 0.25
"""The part of a step of equal length in which ranks copy and add what has arrived."""


@dataclass(frozen=True)
class Clock:
    """When operations run, on one clock."""

    start: Floats
    """When each operation starts."""
    finish: Floats
    """When each operation ends."""
    marks: Floats
    """When each step ends; the first mark is 0."""
    part: float = 1.0
    """The share of a step in which messages move."""

    @property
    def order(self) -> Ints:
        """The operations in the order of their ends."""
        return np.argsort(self.finish, kind="stable").astype(np.int32)


def depths(schedule: Schedule) -> Ints:
    """The step of each operation: the transfers on the longest chain that ends with it."""
    chain = kernel(dependencies.chain, len(schedule))
    depth = chain(schedule.remote.astype(np.int8), schedule.indptr, schedule.indices)
    return np.asarray(depth, dtype=np.int32)


def simulated(timeline: Timeline, depth: Ints) -> Clock:
    """The clock of simulated time. A step ends when its last operation ends."""
    marks = np.zeros(int(depth.max(initial=0)) + 1)
    np.maximum.at(marks, depth, timeline.finish)
    marks[0] = 0.0
    return Clock(timeline.start, timeline.finish, np.maximum.accumulate(marks))


def equal_steps(schedule: Schedule, depth: Ints) -> Clock:
    """The clock on which each step takes 1: first its transfers, then what ranks do by
    themselves."""
    arrival, remote = depth - LOCAL, schedule.remote
    marks = np.arange(depth.max(initial=0) + 1.0)
    start, finish = np.where(remote, depth - 1.0, arrival), np.where(remote, arrival, depth)
    return Clock(start, finish, marks, 1 - LOCAL)
