"""The timeline of a step in which communication slows down computations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.engines import run
from simulator.parallel.passes import COMPUTE, HOST
from simulator.schedules.routed import Routed
from simulator.schedules.slowdown import slowed
from simulator.schedules.timeline import Timeline
from simulator.training.measures import union
from topologies.errors import InputError

ROUNDS, TOLERANCE = 100, 1e-9
"""Simulations in which a slowdown settles, at most, and when it has."""


def simulate(routed: Routed, slowdown: float = 0.0) -> Timeline:
    """The timeline of a step, with computations that communication of their place slows down."""
    schedule, timeline = routed.schedule, run(routed)
    if not slowdown:
        return timeline
    talking = (schedule.lane != COMPUTE) & (schedule.lane != HOST) & (schedule.seconds > 0)
    computing = schedule.lane == COMPUTE
    before = schedule.seconds
    for _ in range(ROUNDS):
        seconds = schedule.seconds.copy()
        for place in range(schedule.ranks):
            here = schedule.rank == place
            begin, end = union(timeline.start[here & talking], timeline.finish[here & talking])
            rows = here & computing
            seconds[rows] = slowed(
                timeline.start[rows],
                schedule.seconds[rows],
                (begin, end),
                slowdown,
                timeline.makespan,
            )
        moved = np.abs(seconds - before).max(initial=0.0)
        if moved <= TOLERANCE * timeline.makespan:
            return timeline
        timeline, before = (
            run(replace(routed, schedule=replace(schedule, seconds=seconds))),
            seconds,
        )
    raise InputError(
        f"slowdown is {slowdown}: the times do not settle in {ROUNDS} rounds, take a smaller one"
    )
