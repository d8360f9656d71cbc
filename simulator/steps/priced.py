"""The schedule of a graph in which a call is a computation that takes the time of its transfers."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps.kinds import KINDS
from simulator.steps.step_graph import StepGraph


def priced(graph: StepGraph) -> Schedule:
    """A schedule on the places of a graph, with an operation for each task.

    The phase of an operation is its kind on lane 0, and the name of the lane on others.
    """
    count = len(graph)
    none, zero = np.full(count, -1, dtype=np.int32), np.zeros(count, dtype=np.int32)
    name = np.where(graph.lane == 0, graph.kind, len(KINDS) + graph.lane)
    names = [*KINDS, *graph.lanes]
    used = np.bincount(name, minlength=len(names)) > 0
    phase = (np.cumsum(used) - 1)[name]
    return replace(
        ScheduleBuilder(graph.places, 1.0).build(),
        phases=tuple(compress(names, used)),
        lanes=len(graph.lanes),
        kind=zero.astype(np.int8),
        rank=graph.place,
        peer=graph.place,
        source=none,
        target=none,
        count=zero,
        reduces=zero.astype(np.int8),
        nbytes=np.zeros(count),
        seconds=graph.seconds,
        lane=graph.lane.astype(np.int16),
        phase=phase.astype(np.int16),
        indptr=graph.indptr,
        indices=graph.indices,
    )
