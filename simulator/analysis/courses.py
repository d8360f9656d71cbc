"""Schedules, and when their operations ran."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from topologies.topology import Floats


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
    all (:func:`simulator.schedules.followed.follow`): each is as large as those for which it
    stands."""
    schedule = timeline.schedule
    if schedule.fold is None:
        return OperationTimes(schedule, timeline.start, timeline.finish)
    followed = schedule.followed
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
