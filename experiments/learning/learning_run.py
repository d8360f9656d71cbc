"""Learning along a run: the weights that it reaches, its curve of loss and accuracy over simulated
seconds, and its row in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from experiments.learning.task import LearningTask, Sampler
from experiments.training.job import Job
from simulator.parallel.step import Step
from simulator.parallel.step_measures import StepMeasures
from simulator.parallel.step_measures import measure as measure_step
from simulator.schedules.timeline import Timeline
from simulator.training import Strategy
from simulator.training.conditions import Conditions
from simulator.training.local_sgd import LocalSGD
from simulator.training.measures import measure, window
from simulator.training.plan import Plan
from simulator.training.plan_simulation import train
from topologies.columns import plain_rows
from topologies.errors import InputError
from topologies.topology import Floats

CURVE_POINTS = 200
"""A curve has about so many points at the most."""


class Version(NamedTuple):
    """Weights that a run has reached."""

    seconds: float
    """The simulated time since the start."""
    updates: int
    """Gradients of a worker that they contain."""
    weights: Floats


class LearningPoint(NamedTuple):
    """A point of a curve."""

    seconds: float
    """Simulated seconds since the start."""
    loss: float
    """The mean loss on the samples to learn from."""
    accuracy: float
    """The share of the held-out samples that the network names."""


@dataclass(frozen=True, kw_only=True)
class LearningRow:
    """A learning run in a table."""

    network: str
    strategy: str
    ranks: int
    disturbance: str = ""
    """What makes workers differ, "" if nothing does."""
    updates: int
    """Gradients of a worker that the last weights contain."""
    seconds: float
    """Simulated seconds of the run."""
    loss: float
    """The mean loss of the last weights on the samples to learn from."""
    accuracy: float
    """The share of the held-out samples that the last weights name."""
    target: float
    target_s: float | None
    """Simulated seconds until the accuracy has reached the target; None: it never has."""
    staleness: float = 0.0
    """Mean number of updates between reading weights and updating them."""
    staleness_max: int = 0
    idle: float = 0.0
    """The mean share of the run for which a worker computes nothing."""
    cause: str = ""
    """The cause of most of that, as far as it is known."""


class LearningRun(NamedTuple):
    """What has been learnt."""

    row: LearningRow
    curve: list[LearningPoint]


@dataclass(frozen=True, eq=False)
class Learner:
    """A task, and the simulated run along which it is learnt. The run has the times, the order of
    updates, and the versions that each worker has read."""

    task: LearningTask
    strategy: Strategy
    plan: Plan
    timeline: Timeline

    def __post_init__(self) -> None:
        if getattr(self.strategy, "startup", False):
            raise InputError("--learn: startup=yes is of a first step alone, leave it out")

    def versions(self) -> Iterator[Version]:
        """The versions of the weights, in the order of their times."""
        if self.plan.updates is not None:
            return self._served()
        ends = self.timeline.finish[self.plan.ends].max(axis=1)
        # What a failure undoes is not learnt.
        useful = np.flatnonzero(self.plan.useful)
        steps = plain_rows(self.plan.numbers[useful], ends[useful])
        if isinstance(self.strategy, LocalSGD):
            return self._averaged(self.strategy, steps)
        sampler = self.task.sampler(self.plan.workers)
        samples = self.plan.model.batch * self.plan.workers
        return summed(self.task, sampler, steps, batches=int(self.plan.samples.max()) // samples)

    def _averaged(
        self, strategy: LocalSGD, steps: Iterable[tuple[int, float]]
    ) -> Iterator[Version]:
        """Each worker subtracts its gradient. The weights are averaged where the strategy does
        so."""
        task, workers = self.task, self.plan.workers
        last, sampler = int(self.plan.numbers.max()), task.sampler(workers)
        weights = np.tile(task.initial, (workers, 1))
        for done, (step, seconds) in enumerate(steps, 1):
            for each, rows in zip(weights, sampler.rows(step), strict=True):
                each -= task.rate * task.model.gradient(each, task.samples.of(rows))
            if strategy.averages(step, last + 1):
                weights[:] = weights.mean(axis=0)
            if strategy.averages(step, last + 1) or workers == 1:
                yield Version(seconds, done * workers, weights[0].copy())

    def _served(self) -> Iterator[Version]:
        """A gradient belongs to the weights that its worker has read, and is subtracted when the
        server applies it. It counts 1 / p, so that p updates move as far as a step of all."""
        updates, task, workers = self.plan.updates, self.task, self.plan.workers
        assert updates is not None
        read = np.where(updates.pulled < 0, -1.0, self.timeline.start[updates.pulled])
        served = self.timeline.finish[updates.served]
        end = window(self.plan, self.timeline).end
        number = np.concatenate((updates.served, updates.pulled))
        order = np.lexsort((number, np.concatenate((served, read)))).tolist()
        sampler = task.sampler(workers)
        weights, copies, cycles = task.initial.copy(), {}, [0] * workers
        for event in order:
            update, reads = event % len(served), event >= len(served)
            if reads:
                copies[update] = weights.copy()
                continue
            if served[update] > end:
                return
            worker = int(updates.worker[update])
            samples = task.samples.of(sampler.rows(cycles[worker])[worker])
            gradient = task.model.gradient(copies.pop(update), samples)
            weights = weights - task.rate / workers * gradient
            cycles[worker] += 1
            yield Version(float(served[update]), sum(cycles), weights)


def summed(
    task: LearningTask,
    sampler: Sampler,
    steps: Iterable[tuple[int, float]],
    *,
    batches: int = 1,
    workers: int = 1,
) -> Iterator[Version]:
    """The versions of steps, each with its number and its end, that subtract the mean of all
    gradients: the weights of one device that sees the samples of all.

    A step has so many `batches` of each rank of the sampler, which is so many `workers`.
    """
    weights = task.initial
    for done, (step, seconds) in enumerate(steps, 1):
        numbers = range(step * batches, (step + 1) * batches)
        gradients = [
            task.model.gradient(weights, task.samples.of(sampler.rows(number).ravel()))
            for number in numbers
        ]
        weights = weights - task.rate * np.mean(gradients, axis=0)
        yield Version(seconds, done * sampler.ranks * workers * batches, weights)


def learner_of(task: LearningTask, job: Job, ranks: int) -> Learner:
    """Simulate `job` on `ranks` workers."""
    plan = job.plan(ranks)
    return Learner(task, job.strategy, plan, train(plan, job.rules.run_exactly))


def learn(task: LearningTask, job: Job, strategy: str, ranks: int, disturbance: str) -> LearningRun:
    """Simulate `job` on `ranks` workers, and learn along it. `strategy` and `disturbance` are what
    the table shows."""
    learner = learner_of(task, job, ranks)
    measures = measure(learner.plan, learner.timeline)
    stale, shares = measures.staleness, measures.bubble_shares
    return run_of(
        task,
        learner.versions(),
        job.steps,
        strategy=strategy,
        ranks=ranks,
        disturbance=disturbance,
        idle=sum(shares.values()),
        cause=max(shares, key=lambda cause: shares[cause]) if any(shares.values()) else "",
        staleness=float(stale.mean()) if len(stale) else 0.0,
        staleness_max=int(stale.max(initial=0)),
    )


def learn_steps(
    task: LearningTask,
    step: Step,
    plan: str,
    steps: int | None = None,
    measures: StepMeasures | None = None,
) -> LearningRun:
    """Learn along steps of a parallel plan, by default as many as the epochs have. `plan` is what
    the table shows. Steps take as long as in `measures`, by default those of `step`.

    A step has a batch of the task for each GPU, however the plan shares them out. So all plans of
    as many GPUs learn the same, and differ in time. Tensor, context and expert parallelism split
    layers and sequences, and not the samples.
    """
    degrees = step.work.times.degrees
    measures = measures or measure_step(step)
    ranks, workers = degrees.ranks, degrees.ranks // degrees.dp
    sampler = replace(task.sampler(degrees.dp), batch=task.batch * workers)
    steps = steps or task.epochs * sampler.batches
    ends = ((number, (number + 1) * measures.step) for number in range(steps))
    versions = summed(task, sampler, ends, workers=workers)
    computing = float((measures.computing + measures.optimizer).mean())
    idle = 1 - computing / (measures.step or 1.0)
    return run_of(task, versions, steps, strategy=plan, ranks=ranks, idle=idle)


def run_of(
    task: LearningTask, versions: Iterable[Version], steps: int, *, ranks: int, **figures: Any
) -> LearningRun:
    """The run that reaches `versions` in so many steps; `figures` are further fields of its row."""
    spacing = ranks * max(1, steps // CURVE_POINTS)
    with np.errstate(over="ignore", invalid="ignore"):
        reached = list(_some(versions, spacing))
        first = LearningPoint(0.0, *task.losses(task.initial))
        curve = [first, *(LearningPoint(v.seconds, *task.losses(v.weights)) for v in reached)]
    on_target = [point.seconds for point in curve if point.accuracy >= task.target]
    row = LearningRow(
        network=task.network,
        ranks=ranks,
        updates=reached[-1].updates,
        seconds=curve[-1].seconds,
        loss=curve[-1].loss,
        accuracy=curve[-1].accuracy,
        target=task.target,
        target_s=on_target[0] if on_target else None,
        **figures,
    )
    return LearningRun(row, curve)


def without_disturbance(job: Job) -> Job:
    """The job with workers and links that are all alike."""
    return replace(job, conditions=Conditions(), slow_links={})


def _some(versions: Iterable[Version], apart: int) -> Iterator[Version]:
    """Versions that are at least `apart` updates apart, and the last."""
    due, last = apart, None
    for version in versions:
        last = version
        if version.updates >= due:
            due, last = version.updates + apart, None
            yield version
    if last is not None:
        yield last
