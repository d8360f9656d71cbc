"""Simulates a plan: once, or several times until the lengths of computations that communication
slows down no longer change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simulator.engines import Engine, run
from simulator.schedules.routed import Routed, in_ticks
from simulator.schedules.timeline import Sharing, Timeline
from simulator.steps.slowdown import with_slowdown
from simulator.training.plan import COMPUTE, Plan
from simulator.training.replay import replay
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
    explained: bool = True
    """Whether all times within collectives will be of interest, and not only when they end."""

    @property
    def replays(self) -> bool:
        """Whether collectives can be timed once for all that are alike."""
        return self.sharing == "fifo" and not self.store_and_forward

    def run(self, plan: Plan, seconds: Floats) -> Timeline:
        """Simulate `plan`, of which each computation takes `seconds`.

        Under fifo all durations are multiples of a tick, so that sums are exact. Then it does not
        matter whether a part of the run is simulated at its time or at time zero.
        """
        if self.sharing == "fair":
            return self._run(_with(plan.routed, seconds, self.machine))
        tick = tick_of(plan)
        while True:
            timeline = self._in_ticks(plan, seconds, tick)
            if timeline.makespan <= EXACT * tick:
                return timeline
            tick *= COARSER

    def _in_ticks(self, plan: Plan, seconds: Floats, tick: float) -> Timeline:
        if plan.is_outline:
            return replay(plan, seconds, self.machine, tick, explained=self.explained)
        return self._run(in_ticks(_with(plan.routed, seconds, self.machine), tick))

    def _run(self, routed: Routed) -> Timeline:
        return run(
            routed, self.engine, sharing=self.sharing, store_and_forward=self.store_and_forward
        )


DEFAULT = TrainingRules()


def tick_of(plan: Plan) -> float:
    """The first tick of the times of `plan`, a power of two in seconds."""
    schedule = plan.schedule
    busy = np.bincount(schedule.rank, schedule.seconds).max(initial=0.0)
    return float(2.0 ** np.ceil(np.log2(busy or 1.0))) * FINENESS


def _with(routed: Routed, seconds: Floats, machine: Callable[[Topology], Topology]) -> Routed:
    _ = routed.schedule.successors
    schedule = replace(routed.schedule, seconds=seconds)
    vars(schedule)["successors"] = routed.schedule.successors
    return replace(routed, schedule=schedule, topology=machine(routed.topology))


def train(plan: Plan, rules: TrainingRules = DEFAULT, seconds: Floats | None = None) -> Timeline:
    """The timeline of `plan`. Its computations take `seconds`, by default those of its schedule,
    and longer where communication slows them down."""
    schedule = plan.schedule if seconds is None else replace(plan.schedule, seconds=seconds)
    graph, talks = plan.graph, plan.graph.communicates
    main = ~talks & (graph.lane == COMPUTE) & (graph.place < plan.workers)
    return with_slowdown(
        lambda seconds: rules.run(plan, seconds),
        schedule,
        plan.first[main],
        (plan.first[talks], plan.last[talks]),
        plan.slowdown,
    )
