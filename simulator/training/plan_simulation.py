"""Simulates a plan: once, or several times until the lengths of computations that communication
slows down no longer change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simulator.analysis.busy_time import union
from simulator.engines import Engine, run
from simulator.schedules.routed import in_ticks
from simulator.schedules.timeline import Sharing, Timeline
from simulator.training.plan import COMPUTE, Plan
from simulator.training.replay import replay
from topologies.errors import InputError
from topologies.topology import Floats, Topology

FINENESS = 2.0**-50
"""The tick of times at first, as a share of the time that a rank computes."""
COARSER = 2.0**6
"""How much longer the next tick is, if times are too long for a tick."""
EXACT = 2.0**53
"""Up to so many ticks sums are exact."""
ROUNDS = 100
"""Simulations in which the times of slower computations settle, at most."""
SETTLED = 1e-9
"""The largest change of a time that has settled, as a share of the makespan."""


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
            return self._run(plan, seconds, None)
        busy = np.bincount(plan.schedule.rank, plan.schedule.seconds).max(initial=0.0)
        tick = float(2.0 ** np.ceil(np.log2(busy or 1.0))) * FINENESS
        while True:
            if plan.is_outline:
                timeline: Timeline = replay(
                    plan, seconds, self.machine, tick, explained=self.explained
                )
            else:
                timeline = self._run(plan, seconds, tick)
            if timeline.makespan <= EXACT * tick:
                return timeline
            tick *= COARSER

    def _run(self, plan: Plan, seconds: Floats, tick: float | None) -> Timeline:
        schedule = replace(plan.routed.schedule, seconds=seconds)
        # All simulations of a plan share what does not depend on the seconds.
        vars(schedule)["successors"] = plan.routed.schedule.successors
        machine = self.machine(plan.routed.topology)
        routed = replace(plan.routed, schedule=schedule, topology=machine)
        return run(
            routed if tick is None else in_ticks(routed, tick),
            self.engine,
            sharing=self.sharing,
            store_and_forward=self.store_and_forward,
        )


DEFAULT = TrainingRules()


def train(plan: Plan, rules: TrainingRules = DEFAULT, seconds: Floats | None = None) -> Timeline:
    """The timeline of `plan`. Its computations take `seconds`, by default those of its schedule,
    and longer where communication slows them down: slower computations move communications, and
    these slow down other computations.

    Raises InputError if the times of slower computations do not settle.
    """
    usual, graph = plan.schedule.seconds if seconds is None else seconds, plan.graph
    timeline = rules.run(plan, usual)
    if not plan.slowdown:
        return timeline
    talks, before = graph.communicates, usual
    main = ~talks & (graph.lane == COMPUTE) & (graph.place < plan.workers)
    for _ in range(ROUNDS):
        slower, (begin, end) = usual.copy(), plan.times(timeline)
        for place in np.unique(graph.place[main]).tolist():
            rows = plan.first[main & (graph.place == place)]
            calls = talks & (graph.place == place)
            busy = union(begin[calls], end[calls])
            start, until = timeline.start[rows], timeline.makespan
            slower[rows] = _slowed(start, usual[rows], busy, plan.slowdown, until)
        moved = np.abs(slower - before).max(initial=0.0)
        timeline, before = rules.run(plan, slower), slower
        if moved <= SETTLED * timeline.makespan:
            return timeline
    raise InputError(
        f"slowdown is {plan.slowdown}: the times do not settle in {ROUNDS} rounds, take a smaller "
        f"one"
    )


def _slowed(start: Floats, seconds: Floats, busy: Floats, slowdown: float, until: float) -> Floats:
    """What computations take that start at `start` and would take `seconds` by themselves.

    Within the intervals of `busy`, shape (2, intervals), in order, a second counts as
    1 / (1 + slowdown) seconds. A computation ends when its seconds add up. All start before
    `until`.
    """
    if not busy.size:
        return seconds.copy()
    # Work done since time 0 is piecewise linear in time: slope 1, and 1 / (1 + s) while
    # communicating.
    corners = np.append(0.0, busy.T)
    slope = np.where(np.arange(len(corners) - 1) % 2 == 0, 1.0, 1 / (1 + slowdown))
    work = np.append(0.0, np.cumsum(np.diff(corners) * slope))
    far = 1e3 * (1 + until)
    corners, work = np.append(corners, corners[-1] + far), np.append(work, work[-1] + far)
    keep = np.append(True, np.diff(work) > 0)
    done = np.interp(np.interp(start, corners, work) + seconds, work[keep], corners[keep])
    return np.asarray(np.where(seconds > 0, done - start, 0.0))
