"""Events in the order of (time, node), most of them without a heap.

Most events come in order, or in one of few orders: those of each hop. Each order is a run, to which
a later event is appended. What fits no run goes into a heap.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Floats, Index, Ints

RUNS = 8
ROOM = 2**14
"""Events of a run at a time: a power of two."""


class Runs(NamedTuple):
    """Events in ascending order, a row for each run. They are at places modulo `ROOM`."""

    time: Annotated[Floats, 2]
    node: Annotated[Ints, 2]
    operation: Annotated[Ints, 2]
    """The operation of each node."""
    ends: Annotated[npt.NDArray[np.int64], 2]
    """The place of the first event of each run, and that behind the last."""

    @classmethod
    def empty(cls, count: int = RUNS) -> Runs:
        """Room for `count` runs. Without runs all events go into the heap, as Python is faster at
        it."""
        node, operation = (np.empty((count, ROOM), np.int32) for _ in range(2))
        return cls(np.empty((count, ROOM)), node, operation, np.zeros((count, 2), np.int64))


def append(runs: Runs, time: float, node: Index, operation: Index) -> bool:
    """Add an event to the first run that ends before it; returns whether there is one with room."""
    for run in range(len(runs.ends)):
        begin, end = runs.ends[run, 0], runs.ends[run, 1]
        last, place = (end - 1) & (ROOM - 1), end & (ROOM - 1)
        fits = begin == end or runs.time[run, last] < time
        fits = fits or (runs.time[run, last] == time and runs.node[run, last] < node)
        if fits and end - begin < ROOM:
            runs.time[run, place], runs.node[run, place] = time, node
            runs.operation[run, place] = operation
            runs.ends[run, 1] = end + 1
            return True
    return False


def earliest(runs: Runs) -> Index:
    """The run with the first event, or -1."""
    first, least, lowest = -1, 0.0, 0
    for run in range(len(runs.ends)):
        place = runs.ends[run, 0] & (ROOM - 1)
        if runs.ends[run, 0] == runs.ends[run, 1]:
            continue
        time, node = runs.time[run, place], runs.node[run, place]
        if first < 0 or time < least or (time == least and node < lowest):
            first, least, lowest = run, time, node
    return first


def follows(runs: Runs, run: Index, time: float, node: Index) -> bool:
    """Whether the first event of a run, or the end of all if that is -1, is behind another."""
    if run < 0:
        return True
    place = runs.ends[run, 0] & (ROOM - 1)
    first = runs.time[run, place]
    return bool(time < first or (time == first and node < runs.node[run, place]))


def take(runs: Runs, run: Index) -> tuple[float, Any, Any]:
    """Remove the first event of a run."""
    place = runs.ends[run, 0] & (ROOM - 1)
    runs.ends[run, 0] += 1
    node, operation = np.int64(runs.node[run, place]), np.int64(runs.operation[run, place])
    return runs.time[run, place], node, operation
