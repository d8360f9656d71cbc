"""Simulates a plan: all of its transfers, or its collectives as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simulator import engines
from simulator.schedules.routed import Routed, alike, in_ticks
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE, Plan
from simulator.training.priced_run import price
from topologies.topology import Floats, Topology

FINENESS = 2.0**-50
"""The tick of times at first, as a share of the time that a rank computes."""
COARSER = 2.0**6
"""How much longer the next tick is, if times are too long for a tick."""
EXACT = 2.0**53
"""Up to so many ticks sums are exact."""
Run = Callable[[Routed], Timeline]
"""How to simulate a schedule, like :func:`simulator.engines.run`."""


def train(
    plan: Plan,
    run: Run = engines.run,
    seconds: Floats | None = None,
    machine: Callable[[Topology], Topology] | None = None,
) -> Timeline:
    """The timeline of `plan` as `run` simulates it. Its computations take `seconds`, by default
    those of its schedule, and longer where communication slows them down. `machine` is what changes
    of the topology: routes stay.

    With all transfers, computations are as much longer as with collectives that are timed as a
    whole.
    """

    def changed(routed: Routed) -> Routed:
        if machine is None:
            return routed
        return alike(routed, replace(routed, topology=machine(routed.topology)))

    seconds = plan.schedule.seconds if seconds is None else seconds
    if plan.is_priced:
        return price(plan, seconds, lambda routed: run(changed(routed)))
    if plan.slowdown:
        ran = price(plan, seconds[plan.first], lambda routed: run(changed(routed)))
        computed = ~plan.graph.communicates & (plan.graph.lane == COMPUTE)
        seconds = seconds.copy()
        seconds[plan.first[computed]] = ran.schedule.seconds[computed]
    schedule = replace(plan.routed.schedule, seconds=seconds)
    # All simulations of a plan share what does not depend on the seconds.
    vars(schedule)["successors"] = plan.routed.schedule.successors
    return _in_ticks(changed(replace(plan.routed, schedule=schedule)), run)


def _in_ticks(routed: Routed, run: Run) -> Timeline:
    """Simulate a schedule whose durations are multiples of a tick, so that sums are exact: what is
    at the same time stays there."""
    schedule = routed.schedule
    busy = np.bincount(schedule.rank, schedule.seconds).max(initial=0.0)
    tick = float(2.0 ** np.ceil(np.log2(busy or 1.0))) * FINENESS
    while True:
        timeline = run(in_ticks(routed, tick))
        if timeline.makespan <= EXACT * tick:
            return timeline
        tick *= COARSER
