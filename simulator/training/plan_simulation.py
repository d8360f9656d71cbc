"""Simulates a plan: once, or several times until the lengths of computations that communication
slows down no longer change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from simulator.training.measures import union
from simulator.training.plan import COMPUTE, Plan
from topologies.errors import InputError
from topologies.topology import Floats, Topology

Simulate = Callable[[Schedule, Topology], Timeline]
ROUNDS = 100
TOLERANCE = 1e-9
"""Of the makespan: when the lengths are found."""


def train(plan: Plan, simulate: Simulate) -> Timeline:
    """The timeline of `plan`.

    With a `slowdown` s, communication slows down the computations of its rank: a second counts as 1
    / (1 + s) seconds while the rank communicates. A computation of t seconds ends when its seconds
    add up to t.
    """
    timeline = simulate(plan.schedule, plan.topology)
    if not plan.slowdown:
        return timeline
    schedule = plan.schedule
    main = np.flatnonzero(
        (schedule.kind == COMPUTATION) & (schedule.lane == COMPUTE) & (schedule.rank < plan.workers)
    )
    main = main[np.argsort(schedule.rank[main], kind="stable")]
    for _ in range(ROUNDS):
        seconds = schedule.seconds.copy()
        seconds[main] = _slowed(plan, timeline, main)
        moved = np.abs(seconds - timeline.schedule.seconds).max()
        timeline = simulate(replace(schedule, seconds=seconds), plan.topology)
        if moved <= TOLERANCE * timeline.makespan:
            return timeline
    raise InputError(
        f"slowdown is {plan.slowdown}: the times do not settle in {ROUNDS} rounds, take a "
        f"smaller one"
    )


def _slowed(plan: Plan, timeline: Timeline, main: npt.NDArray[np.intp]) -> Floats:
    """What each of the `main` computations, sorted by rank, takes among the communications of
    `timeline`."""
    slower, base = 1 + plan.slowdown, plan.schedule.seconds[main]
    result, rank_of = base.copy(), plan.schedule.rank[main]
    for rank in range(plan.workers):
        section = slice(*np.searchsorted(rank_of, [rank, rank + 1]))
        of_rank = plan.spans.rank == rank
        begin, end = union(
            timeline.start[plan.spans.first[of_rank]], timeline.finish[plan.spans.last[of_rank]]
        )
        if not len(begin):
            continue
        # Work done since time 0 is piecewise linear in time: slope 1, and 1 / (1 + s) while
        # communicating.
        corners = np.concatenate(([0.0], np.stack((begin, end), axis=1).ravel()))
        slope = np.where(np.arange(len(corners) - 1) % 2 == 0, 1.0, 1 / slower)
        work = np.concatenate(([0.0], np.cumsum(np.diff(corners) * slope)))
        far = 1e3 * (1 + timeline.makespan)
        corners, work = np.append(corners, corners[-1] + far), np.append(work, work[-1] + far)
        keep = np.concatenate(([True], np.diff(work) > 0))
        start = timeline.start[main[section]]
        done = np.interp(np.interp(start, corners, work) + base[section], work[keep], corners[keep])
        result[section] = np.where(base[section] > 0, done - start, 0.0)
    return result
