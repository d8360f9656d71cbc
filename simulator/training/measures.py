"""What a training run costs: step time, throughput, bubbles, exposed communication, staleness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.bubbles import CAUSES, Bubbles, bubbles
from simulator.schedule import COMPUTE as COMPUTATION
from simulator.timeline import Timeline
from simulator.training.plan import COMPUTE, RESTART, Plan
from topologies.topology import Floats, Ints

ROUNDING = 1e-12
"""Of the makespan: what is shorter is the rounding of a difference."""


@dataclass(frozen=True, eq=False)
class Measures:
    """Of the workers, all times in seconds. `steps[k]` is how long the k-th step took, lost ones included. `exposed[r]`
    and `hidden[r]` are the times for which rank r communicated while its main lane was idle, and while it computed.
    `staleness` counts, for each update, the updates that were applied between what its worker read and itself.
    """

    steps: Floats
    samples_per_s: float
    computing: Floats
    restarting: Floats
    exposed: Floats
    hidden: Floats
    bubbles: Bubbles
    staleness: Ints

    @property
    def step(self) -> float:
        """Mean seconds a step."""
        return float(self.steps.mean())

    @property
    def bubble_shares(self) -> dict[str, float]:
        """The share of the run for which the mean worker was idle, by cause."""
        seconds, total = self.bubbles.seconds.mean(axis=0), float(self.steps.sum())
        return dict(zip(CAUSES, (seconds / (total or 1.0)).tolist(), strict=True))


def measure(plan: Plan, timeline: Timeline) -> Measures:
    """Read `timeline`, the simulation of `plan`.

    Throughput counts the samples of useful steps. Under shared parameters in no fixed order it counts the updates up to
    the end of the first worker that has made all of its own: after that comes a drain that a long run does not have.
    """
    ends, restarting = timeline.finish[plan.ends], _restarting(plan, timeline)
    steps = np.diff(ends.max(axis=1), prepend=0.0)
    busy, exposed, hidden = _overlap(plan, timeline)
    found = bubbles(timeline, COMPUTE)
    return Measures(
        steps=steps,
        samples_per_s=_throughput(plan, timeline),
        computing=busy - restarting,
        restarting=restarting,
        exposed=exposed,
        hidden=hidden,
        bubbles=Bubbles(found.seconds[: plan.workers]),
        staleness=_staleness(plan, timeline),
    )


def _throughput(plan: Plan, timeline: Timeline) -> float:
    if plan.updates is None or not len(plan.updates.worker):
        return float(plan.samples.sum() / (timeline.finish[plan.ends].max() or np.inf))
    served = timeline.finish[plan.updates.served]
    worker, count = np.unique(plan.updates.worker, return_counts=True)
    first = min(served[plan.updates.worker == last].max() for last in worker[count == count.max()])
    return float(plan.model.batch * np.sum(served <= first) / (first or np.inf))


def _restarting(plan: Plan, timeline: Timeline) -> Floats:
    """Seconds that each worker takes to restart."""
    schedule = timeline.schedule
    restart = np.array([phase == RESTART for phase in schedule.phases])[schedule.phase]
    seconds = np.bincount(schedule.rank[restart], schedule.seconds[restart], schedule.ranks)
    return np.asarray(seconds[: plan.workers], dtype=np.float64)


def _overlap(plan: Plan, timeline: Timeline) -> tuple[Floats, Floats, Floats]:
    """Of each worker: seconds computing, communicating while idle, communicating while computing."""
    schedule = timeline.schedule
    main = np.flatnonzero((schedule.kind == COMPUTATION) & (schedule.lane == COMPUTE) & (schedule.rank < plan.workers))
    result = np.zeros((3, plan.workers))
    for rank in range(plan.workers):
        own = main[schedule.rank[main] == rank]
        span = plan.spans.rank == rank
        computing = union(timeline.start[own], timeline.finish[own])
        talking = union(timeline.start[plan.spans.first[span]], timeline.finish[plan.spans.last[span]])
        busy, both = _length(computing), _length(computing) + _length(talking)
        either = _length(union(*np.concatenate((computing, talking), axis=1)))
        result[:, rank] = busy, either - busy, both - either
    result[result < ROUNDING * timeline.makespan] = 0.0
    return result[0], result[1], result[2]


def union(start: Floats, end: Floats) -> Floats:
    """Intervals merged into disjoint ones in order, shape (2, n)."""
    if not len(start):
        return np.zeros((2, 0))
    order = np.argsort(start, kind="stable")
    start, until = start[order], np.maximum.accumulate(end[order])
    begins = np.concatenate(([True], start[1:] > until[:-1]))
    return np.stack((start[begins], until[np.append(begins[1:], True)]))


def _length(intervals: Floats) -> float:
    return float((intervals[1] - intervals[0]).sum())


def _staleness(plan: Plan, timeline: Timeline) -> Ints:
    """For each update, in the order of `plan.updates`: the updates applied since what its worker read."""
    if plan.updates is None:
        return np.zeros(0, dtype=np.int32)
    served, pulled = plan.updates.served, plan.updates.pulled
    when = np.concatenate((timeline.finish[served], np.where(pulled < 0, -1.0, timeline.start[pulled])))
    order = np.lexsort((np.concatenate((served, pulled)), when))
    applied = np.empty(len(order), dtype=np.int32)
    applied[order] = np.cumsum(order < len(served))
    return np.asarray(applied[: len(served)] - 1 - applied[len(served) :], dtype=np.int32)
