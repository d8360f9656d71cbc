"""What a training run costs: step time, throughput, bubbles, exposed communication, staleness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.analysis.bubbles import CAUSES, ROUNDING, bubbles
from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.timeline import Timeline
from simulator.steps.activity import Activity, lane_seconds, states
from simulator.steps.kinds import RESTART
from simulator.training.plan import COMMUNICATION, COMPUTE, Plan
from topologies.topology import Floats, Ints


class Window(NamedTuple):
    """The part of a run that is counted, from its start on."""

    end: float
    """Seconds."""
    last: int
    """The operation with which it ends."""
    steps: float
    samples: float
    """Samples that no failure loses."""


@dataclass(frozen=True, eq=False)
class Measures:
    """What the workers that stand for all did within the window. Times are in seconds, and have a
    row a worker."""

    window: Window
    steps: Floats
    """Seconds of each step, or of every p updates where updates have no fixed order."""
    computing: Floats
    restarting: Floats
    exposed: Floats
    """The time of communication while the main lane was idle."""
    hidden: Floats
    """The time of communication while the main lane computed."""
    bubbles: Floats
    """Idle time, shape (workers, 4): see :func:`simulator.analysis.bubbles.bubbles`."""
    staleness: Ints
    """For each update: how many other updates were applied after its worker read the
    parameters."""

    @property
    def step(self) -> float:
        """Mean seconds a step."""
        return self.window.end / self.window.steps

    @property
    def samples_per_s(self) -> float:
        """Samples a second that are not lost."""
        return float(self.window.samples / (self.window.end or np.inf))

    @property
    def bubble_shares(self) -> dict[str, float]:
        """The share of the window for which the mean worker was idle, by cause."""
        seconds, total = self.bubbles.mean(axis=0), self.window.end
        return dict(zip(CAUSES, (seconds / (total or 1.0)).tolist(), strict=True))


def measure(plan: Plan, timeline: Timeline) -> Measures:
    """Read `timeline`, the simulation of `plan`, within its :func:`window`."""
    part = window(plan, timeline)
    restarting = _restarting(plan, timeline, part.end)
    busy, exposed, hidden = _overlap(plan, timeline, part.end)
    return Measures(
        window=part,
        steps=_steps(plan, timeline, part.end),
        computing=busy - restarting,
        restarting=restarting,
        exposed=exposed,
        hidden=hidden,
        bubbles=_idle(plan, timeline, part.end),
        staleness=_staleness(plan, timeline),
    )


def window(plan: Plan, timeline: Timeline) -> Window:
    """The part of the run to measure: the whole run if the order of updates is fixed.

    Otherwise it ends with the first worker that has made all of its updates. After that comes a
    drain, which a long run does not have. Then p updates are a step, where p is the number of
    workers.
    """
    if plan.updates is None or not len(plan.updates.worker):
        end, samples = timeline.finish[plan.ends].max(), plan.samples.sum()
        return Window(float(end), _last(timeline), plan.steps, float(samples))
    served, worker = timeline.finish[plan.updates.served], plan.updates.worker
    count = np.bincount(worker)
    ends = np.zeros(len(count))
    np.maximum.at(ends, worker, served)
    first = np.argmin(np.where(count == count.max(), ends, np.inf))
    last = plan.updates.served[np.argmax(np.where(worker == first, served, -1.0))]
    end, updates = float(ends[first]), int(np.sum(served <= ends[first]))
    return Window(end, int(last), updates / plan.workers, float(plan.model.batch * updates))


def _last(timeline: Timeline) -> int:
    """The operation that finishes last. If there are several, it is a computation: a priced
    run has no other."""
    latest = np.flatnonzero(timeline.finish == timeline.makespan)
    return int(latest[np.argmax(timeline.schedule.kind[latest] == COMPUTATION)])


def _steps(plan: Plan, timeline: Timeline, end: float) -> Floats:
    ends = timeline.finish[plan.ends].max(axis=1)
    if plan.updates is not None and len(plan.updates.worker):
        served = np.sort(timeline.finish[plan.updates.served])
        ends = served[served <= end][plan.workers - 1 :: plan.workers]
    return np.asarray(np.diff(ends, prepend=0.0))


def _idle(plan: Plan, timeline: Timeline, end: float) -> Floats:
    """Bubbles of the workers up to `end`, without the rounding of differences."""
    return _rounded(bubbles(timeline, COMPUTE, end)[plan.standing], timeline)


def _rounded(seconds: Floats, timeline: Timeline) -> Floats:
    """Seconds, of which the rounding of differences is 0."""
    return np.where(seconds < ROUNDING * timeline.makespan, 0.0, seconds)


def _restarting(plan: Plan, timeline: Timeline, end: float) -> Floats:
    graph = plan.graph
    restart = graph.kind == RESTART
    begin, until = (times[restart].clip(max=end) for times in plan.times(timeline))
    seconds = np.bincount(graph.place[restart], until - begin, graph.ranks)
    return np.asarray(seconds[plan.standing], dtype=np.float64)


def _overlap(plan: Plan, timeline: Timeline, end: float) -> Floats:
    """Of each worker: seconds computing, communicating while idle, communicating while computing,
    shape (3, workers)."""
    graph = plan.graph
    talks = graph.communicates
    rows = np.flatnonzero(talks | (graph.lane == COMPUTE)).astype(np.int32)
    lane = np.where(talks[rows], COMMUNICATION, COMPUTE)
    begin, until = (times[rows].clip(max=end) for times in plan.times(timeline))
    active = states(Activity(graph.place[rows], lane, begin, until, rows), 2)
    alone, busy = (each[plan.standing] for each in lane_seconds(active, graph.ranks))
    talking = alone[:, COMMUNICATION], (busy - alone)[:, COMMUNICATION]
    return _rounded(np.stack((busy[:, COMPUTE], *talking)), timeline)


def _staleness(plan: Plan, timeline: Timeline) -> Ints:
    """For each update, in the order of `plan.updates`: the updates applied since its worker read
    the parameters."""
    if plan.updates is None:
        return np.zeros(0, dtype=np.int32)
    served, pulled = plan.updates.served, plan.updates.pulled
    when = np.concatenate(
        (timeline.finish[served], np.where(pulled < 0, -1.0, timeline.start[pulled]))
    )
    order = np.lexsort((np.concatenate((served, pulled)), when))
    applied = np.empty(len(order), dtype=np.int32)
    applied[order] = np.cumsum(order < len(served))
    return np.asarray(applied[: len(served)] - 1 - applied[len(served) :], dtype=np.int32)
