"""Events in the order of (time, node), most of them without a heap.

Most events come in order, or in one of few orders: those of each hop. Each order is a run, to which
a later event is appended. What fits no run goes into a heap.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from simulator.kernels.records import Floats, Index, Ints, Longs

RUNS = 16
ROOM = 2**14
"""Events of a run at a time: a power of two."""


class Runs(NamedTuple):
    """Events in ascending order, a row for each run. They are at places modulo `ROOM`."""

    time: Annotated[Floats, 2]
    node: Annotated[Ints, 2]
    operation: Annotated[Ints, 2]
    """The operation of each node."""
    ends: Annotated[Longs, 2]
    """The place of the first event of each run, and that behind the last."""
    heads: Floats
    """The time of the first event of each run, inf where the run is empty."""
    tails: Floats
    """The time of the last event of each run, -inf where the run is empty."""
    used: Longs
    """The runs that have had an event, which are the first ones, shape (1,)."""

    @classmethod
    def empty(cls, count: int = RUNS) -> Runs:
        """Room for `count` runs. Without runs all events go into the heap, as Python is faster at
        it."""
        node, operation = (np.empty((count, ROOM), np.int32) for _ in range(2))
        ends, used = np.zeros((count, 2), np.int64), np.zeros(1, np.int64)
        heads, tails = np.full(count, np.inf), np.full(count, -np.inf)
        return cls(np.empty((count, ROOM)), node, operation, ends, heads, tails, used)


def append(runs: Runs, time: float, node: Index, operation: Index) -> bool:
    """Add an event to the first run that ends before it; returns whether there is one with room."""
    for run in range(len(runs.tails)):
        if runs.tails[run] > time:
            continue
        begin, end = runs.ends[run, 0], runs.ends[run, 1]
        last, place = (end - 1) & (ROOM - 1), end & (ROOM - 1)
        if end - begin == ROOM or (runs.tails[run] == time and runs.node[run, last] > node):
            continue
        runs.time[run, place], runs.node[run, place] = time, node
        runs.operation[run, place] = operation
        runs.ends[run, 1], runs.tails[run] = end + 1, time
        if begin == end:
            runs.heads[run] = time
            runs.used[0] = max(runs.used[0], run + 1)
        return True
    return False


def earliest(runs: Runs) -> Index:
    """The run with the first event, or -1."""
    first, least = -1, np.inf
    for run in range(runs.used[0]):
        least = min(least, runs.heads[run])
    for run in range(runs.used[0]):
        if runs.heads[run] == least and precedes(runs, run, first):
            first = run
    return first


def precedes(runs: Runs, run: Index, other: Index) -> bool:
    """Whether a run has an event, at the time of that of another run, and before it. -1 is no
    run."""
    if runs.ends[run, 0] == runs.ends[run, 1]:
        return False
    return bool(other < 0 or head(runs, run) < head(runs, other))


def head(runs: Runs, run: Index) -> Index:
    """The node of the first event of a run."""
    return runs.node[run, runs.ends[run, 0] & (ROOM - 1)]


def follows(runs: Runs, run: Index, time: float, node: Index) -> bool:
    """Whether the first event of a run, or the end of all if that is -1, is behind another."""
    if run < 0:
        return True
    first = runs.heads[run]
    return bool(time < first or (time == first and node < head(runs, run)))


def take(runs: Runs, run: Index) -> tuple[float, Any, Any]:
    """Remove the first event of a run."""
    place = runs.ends[run, 0] & (ROOM - 1)
    runs.ends[run, 0] += 1
    if runs.ends[run, 0] == runs.ends[run, 1]:
        runs.heads[run], runs.tails[run] = np.inf, -np.inf
    else:
        runs.heads[run] = runs.time[run, runs.ends[run, 0] & (ROOM - 1)]
    node, operation = np.int64(runs.node[run, place]), np.int64(runs.operation[run, place])
    return runs.time[run, place], node, operation
