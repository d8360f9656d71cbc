"""The data of a step, as its transfers move and add them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from simulator.schedules.schedule import TRANSFER, Schedule
from simulator.schedules.timeline import Timeline
from simulator.training.plan import Plan
from topologies.topology import Floats, Ints


class Moves(NamedTuple):
    """The transfers of a step that carry data, in the order in which they finish."""

    schedule: Schedule
    order: Ints

    def __bool__(self) -> bool:
        return bool(len(self.order))

    def run(self, vectors: Floats) -> Floats:
        """What the buffers of all workers hold afterwards, if each begins with its row of
        `vectors`.

        The slots of a buffer share the elements of a vector equally. Additions are of floats.
        """
        schedule, (workers, size) = self.schedule, vectors.shape
        width = -(-size // schedule.buffer)
        data = np.zeros((schedule.ranks, schedule.slots, width))
        buffer = np.zeros((workers, schedule.buffer * width))
        buffer[:, :size] = vectors
        data[:workers, : schedule.buffer] = buffer.reshape(workers, schedule.buffer, width)
        columns = (
            schedule.rank,
            schedule.source,
            schedule.peer,
            schedule.target,
            schedule.count,
            schedule.reduces,
        )
        rows = zip(*(column[self.order].tolist() for column in columns), strict=True)
        for rank, source, peer, target, count, reduces in rows:
            values = data[rank, source : source + count]
            if reduces:
                data[peer, target : target + count] += values
            else:
                data[peer, target : target + count] = values
        return data[:workers, : schedule.buffer].reshape(workers, -1)[:, :size]


def moves_in(schedule: Schedule) -> Moves:
    """The moves of a collective, in the order in which it is written."""
    return Moves(schedule, _carriers(schedule))


def moves_of(plan: Plan, timeline: Timeline) -> list[Moves]:
    """The moves of each step of `plan`, all of whose transfers are in its schedule."""
    schedule = plan.schedule
    number = _carriers(schedule)
    step = np.searchsorted(plan.ends.max(axis=1), number)
    order = number[np.lexsort((number, timeline.finish[number], step))]
    bounds = np.searchsorted(np.sort(step), np.arange(plan.steps + 1))
    return [Moves(schedule, order[begin:end]) for begin, end in pairwise(bounds)]


def _carriers(schedule: Schedule) -> Ints:
    """The transfers that carry data."""
    carries = (schedule.kind == TRANSFER) & (schedule.source >= 0) & (schedule.target >= 0)
    return np.flatnonzero(carries).astype(np.int32)
