"""Computations that communication slows down: a second of them counts as 1 / (1 + s) seconds while
their place communicates.

Slower computations move communications, and these slow down other computations. Runs are simulated
until the times no longer change.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.analysis.busy_time import union
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Floats, Ints

ROUNDS = 100
"""Simulations in which times settle, at most."""
TOLERANCE = 1e-9
"""The largest change of a time that has settled, as a share of the makespan."""


def with_slowdown(
    run: Callable[[Floats], Timeline],
    schedule: Schedule,
    computing: Ints,
    talking: tuple[Ints, Ints],
    slowdown: float,
) -> Timeline:
    """The timeline of a schedule whose `computing` operations are slowed down.

    `run` simulates it with other seconds of its operations. `talking` has the first and the last
    operation of each communication. Raises InputError if the times do not settle.
    """
    timeline = run(schedule.seconds)
    if not slowdown:
        return timeline
    first, last = talking
    computing = computing[np.argsort(schedule.rank[computing], kind="stable")]
    ranks, rank_of = np.unique(schedule.rank[computing]), schedule.rank[computing]
    before = schedule.seconds
    for _ in range(ROUNDS):
        seconds = schedule.seconds.copy()
        for rank in ranks.tolist():
            rows = computing[slice(*np.searchsorted(rank_of, [rank, rank + 1]))]
            calls = schedule.rank[first] == rank
            begin, end = union(timeline.start[first[calls]], timeline.finish[last[calls]])
            start, until = timeline.start[rows], timeline.makespan
            seconds[rows] = slowed(start, schedule.seconds[rows], (begin, end), slowdown, until)
        moved = np.abs(seconds - before).max(initial=0.0)
        timeline, before = run(seconds), seconds
        if moved <= TOLERANCE * timeline.makespan:
            return timeline
    raise InputError(
        f"slowdown is {slowdown}: the times do not settle in {ROUNDS} rounds, take a smaller one"
    )


def slowed(
    start: Floats, seconds: Floats, busy: tuple[Floats, Floats], slowdown: float, until: float
) -> Floats:
    """What computations take that start at `start` and would take `seconds` by themselves.

    Within the intervals of `busy`, which has their starts and ends in order, a second counts as
    1 / (1 + slowdown) seconds. A computation ends when its seconds add up. All start before
    `until`.
    """
    begin, end = busy
    if not len(begin):
        return seconds.copy()
    # Work done since time 0 is piecewise linear in time: slope 1, and 1 / (1 + s) while
    # communicating.
    corners = np.concatenate(([0.0], np.stack((begin, end), axis=1).ravel()))
    slope = np.where(np.arange(len(corners) - 1) % 2 == 0, 1.0, 1 / (1 + slowdown))
    work = np.concatenate(([0.0], np.cumsum(np.diff(corners) * slope)))
    far = 1e3 * (1 + until)
    corners, work = np.append(corners, corners[-1] + far), np.append(work, work[-1] + far)
    keep = np.concatenate(([True], np.diff(work) > 0))
    done = np.interp(np.interp(start, corners, work) + seconds, work[keep], corners[keep])
    return np.asarray(np.where(seconds > 0, done - start, 0.0))
