"""Simulates a plan: all of its transfers, or its collectives as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simulator.engines import Engine, run
from simulator.schedules.routed import Routed, alike, in_ticks
from simulator.schedules.timeline import Sharing, Timeline
from simulator.training.plan import COMPUTE, Plan
from simulator.training.priced_run import price
from topologies.topology import Floats, Topology

FINENESS = 2.0**-50
"""The tick of times at first, as a share of the time that a rank computes."""
COARSER = 2.0**6
"""How much longer the next tick is, if times are too long for a tick."""
EXACT = 2.0**53
"""Up to so many ticks sums are exact."""


def _same(topology: Topology) -> Topology:
    return topology


@dataclass(frozen=True)
class TrainingRules:
    """How to simulate a plan; see :func:`simulator.engines.run`."""

    engine: Engine = "auto"
    sharing: Sharing = "fifo"
    store_and_forward: bool = False
    machine: Callable[[Topology], Topology] = _same
    """What changes of the machine. Routes stay."""

    def in_ticks(self, routed: Routed) -> Timeline:
        """Simulate a schedule whose durations are multiples of a tick under fifo, so that sums are
        exact: what is at the same time stays there."""
        if self.sharing == "fair":
            return self.run(routed)
        schedule = routed.schedule
        busy = np.bincount(schedule.rank, schedule.seconds).max(initial=0.0)
        tick = float(2.0 ** np.ceil(np.log2(busy or 1.0))) * FINENESS
        while True:
            timeline = self.run(in_ticks(routed, tick))
            if timeline.makespan <= EXACT * tick:
                return timeline
            tick *= COARSER

    def run(self, routed: Routed) -> Timeline:
        """Simulate a schedule on the machine."""
        changed = alike(routed, replace(routed, topology=self.machine(routed.topology)))
        return run(
            changed,
            self.engine,
            sharing=self.sharing,
            store_and_forward=self.store_and_forward,
        )


DEFAULT = TrainingRules()


def train(plan: Plan, rules: TrainingRules = DEFAULT, seconds: Floats | None = None) -> Timeline:
    """The timeline of `plan`. Its computations take `seconds`, by default those of its schedule,
    and longer where communication slows them down.

    With all transfers they are as much longer as with collectives that are timed as a whole.
    """
    seconds = plan.schedule.seconds if seconds is None else seconds
    if plan.is_outline:
        return price(plan, seconds, rules.run)
    if plan.slowdown:
        ran, graph = price(plan, seconds[plan.first], rules.run), plan.graph
        computed = ~graph.communicates & (graph.lane == COMPUTE)
        seconds = seconds.copy()
        seconds[plan.first[computed]] = ran.schedule.seconds[computed]
    schedule = replace(plan.routed.schedule, seconds=seconds)
    # All simulations of a plan share what does not depend on the seconds.
    vars(schedule)["successors"] = plan.routed.schedule.successors
    return rules.in_ticks(replace(plan.routed, schedule=schedule))
