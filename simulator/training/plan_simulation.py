"""Simulates a plan: once, or several times until the lengths of computations that communication
slows down no longer change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.engines import Engine, run
from simulator.schedules.routed import Routed, in_ticks
from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.slowdown import slowed
from simulator.schedules.timeline import Sharing, Timeline
from simulator.training.measures import union
from simulator.training.plan import COMPUTE, Plan
from simulator.training.replay import replay
from topologies.errors import InputError
from topologies.topology import Floats, Topology

ROUNDS = 100
TOLERANCE = 1e-9
"""Of the makespan: when the lengths are found."""
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
        if plan.blocks:
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
    """The timeline of `plan`. Its computations take `seconds`, by default those of its schedule.

    With a `slowdown` s, communication slows down the computations of its rank: a second counts as 1
    / (1 + s) seconds while the rank communicates. A computation of t seconds ends when its seconds
    add up to t.
    """
    base = plan.schedule.seconds if seconds is None else seconds
    timeline = rules.run(plan, base)
    if not plan.slowdown:
        return timeline
    schedule = plan.schedule
    main = np.flatnonzero(
        (schedule.kind == COMPUTATION) & (schedule.lane == COMPUTE) & (schedule.rank < plan.workers)
    )
    main = main[np.argsort(schedule.rank[main], kind="stable")]
    before = base
    for _ in range(ROUNDS):
        slowed = base.copy()
        slowed[main] = _slowed(plan, timeline, main, base[main])
        moved = np.abs(slowed - before).max()
        timeline, before = rules.run(plan, slowed), slowed
        if moved <= TOLERANCE * timeline.makespan:
            return timeline
    raise InputError(
        f"slowdown is {plan.slowdown}: the times do not settle in {ROUNDS} rounds, take a "
        f"smaller one"
    )


def _slowed(plan: Plan, timeline: Timeline, main: npt.NDArray[np.intp], base: Floats) -> Floats:
    """What each of the `main` computations, sorted by rank, takes among the communications of
    `timeline`. Without them they take `base`."""
    result, rank_of = base.copy(), plan.schedule.rank[main]
    for rank in plan.standing.tolist():
        section = slice(*np.searchsorted(rank_of, [rank, rank + 1]))
        of_rank = plan.spans.rank == rank
        begin, end = union(
            timeline.start[plan.spans.first[of_rank]], timeline.finish[plan.spans.last[of_rank]]
        )
        start = timeline.start[main[section]]
        result[section] = slowed(
            start, base[section], (begin, end), plan.slowdown, timeline.makespan
        )
    return result
