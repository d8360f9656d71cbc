"""A learning run: its curve of loss and accuracy over simulated seconds, and its row in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from experiments.learning.task import LearningTask
from experiments.learning.versions import Learner, Version, pipeline_versions
from experiments.training.job import Job
from simulator.parallel.step import Step
from simulator.parallel.step_measures import StepMeasures
from simulator.parallel.step_measures import measure as measure_step
from simulator.training.conditions import Conditions
from simulator.training.measures import measure
from simulator.training.plan_simulation import train

CURVE_POINTS = 200
"""A curve has about so many points at the most."""


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


def learner_of(task: LearningTask, job: Job, ranks: int) -> Learner:
    """Simulate `job` on `ranks` workers, with all transfers of all ranks."""
    job = replace(job, detail="transfers", rules=job.rules._replace(symmetry="off"))
    plan = job.plan(ranks)
    return Learner(task, job.strategy, plan, train(plan, job.rules.training()))


def learn(task: LearningTask, job: Job, strategy: str, ranks: int, disturbance: str) -> LearningRun:
    """Simulate `job` on `ranks` workers, and learn along it. `strategy` and `disturbance` are what
    the table shows."""
    learner = learner_of(task, job, ranks)
    run = run_of(
        task, learner.versions(), strategy, ranks, ranks * max(1, job.steps // CURVE_POINTS)
    )
    measures = measure(learner.plan, learner.timeline)
    stale, shares = measures.staleness, measures.bubble_shares
    row = replace(
        run.row,
        disturbance=disturbance,
        idle=sum(shares.values()),
        cause=max(shares, key=lambda cause: shares[cause]) if any(shares.values()) else "",
        staleness=float(stale.mean()) if len(stale) else 0.0,
        staleness_max=int(stale.max(initial=0)),
    )
    return run._replace(row=row)


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
    work, degrees = step.work, step.work.times.degrees
    measures = measures or measure_step(step)
    ranks, workers = degrees.ranks, degrees.ranks // degrees.dp
    sampler = replace(task.sampler(degrees.dp), batch=task.batch * workers)
    steps = steps or task.epochs * sampler.batches
    versions = pipeline_versions(
        task,
        sampler,
        work.pipeline,
        workers=workers,
        sharded=work.sharding.zero > 0,
        steps=steps,
        seconds=measures.step,
    )
    run = run_of(task, versions, plan, ranks, ranks * max(1, steps // CURVE_POINTS))
    computing = float((measures.computing + measures.optimizer).mean())
    return run._replace(row=replace(run.row, idle=1 - computing / (measures.step or 1.0)))


def run_of(
    task: LearningTask, versions: Iterable[Version], strategy: str, ranks: int, apart: int
) -> LearningRun:
    """The run that reaches `versions`. Points of its curve are at least `apart` updates apart."""
    with np.errstate(over="ignore", invalid="ignore"):
        reached = list(_some(versions, apart))
        first = LearningPoint(0.0, *task.losses(task.initial))
        curve = [first, *(LearningPoint(v.seconds, *task.losses(v.weights)) for v in reached)]
    on_target = [point.seconds for point in curve if point.accuracy >= task.target]
    row = LearningRow(
        network=task.network,
        strategy=strategy,
        ranks=ranks,
        updates=reached[-1].updates,
        seconds=curve[-1].seconds,
        loss=curve[-1].loss,
        accuracy=curve[-1].accuracy,
        target=task.target,
        target_s=on_target[0] if on_target else None,
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
