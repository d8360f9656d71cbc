"""Learning along the steps of a parallel plan: pipelines, each with a share of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from experiments.learning.along_plan import Version
from experiments.learning.pipelined import pipeline_gradient
from experiments.learning.replicas import Copies, Replicas, Shards
from experiments.learning.sampler import Sampler
from experiments.learning.task import Task
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.parallel.step import Step


@dataclass(frozen=True, eq=False)
class ParallelLearner:
    """A task, and the steps of equal length along which it is learnt."""

    task: Task
    sampler: Sampler
    """The samples of each pipeline: its ranks are the data-parallel ranks of the plan."""
    share: int
    """The GPUs of a pipeline, each of which counts as a worker."""
    pipeline: Pipeline
    """The actions of each pipeline. One device with several micro-batches accumulates their
    gradients."""
    sharded: bool
    """Whether each data-parallel rank keeps a shard of the weights, or all of them."""
    steps: int
    seconds: float
    """The simulated time of a step."""

    def versions(self) -> Iterator[Version]:
        """The versions of the weights, in the order of their times."""
        task, ranks = self.task, self.sampler.ranks
        copies = self._copies()
        whole = copies.whole()
        for step in range(self.steps):
            gradients = [
                pipeline_gradient(task.model, weights, task.samples.of(rows), self.pipeline)
                for weights, rows in zip(whole, self.sampler.rows(step), strict=True)
            ]
            copies.subtract(np.array(gradients), task.rate / ranks)
            whole = copies.whole()
            updates = (step + 1) * ranks * self.share
            yield Version((step + 1) * self.seconds, updates, whole[0])

    def _copies(self) -> Copies:
        if self.sharded:
            return Shards(self.task.model, self.task.initial, self.sampler.ranks)
        return Replicas(self.task.initial, self.sampler.ranks)


def parallel_learner(task: Task, step: Step, steps: int | None) -> ParallelLearner:
    """The learner along `steps` steps of a parallel plan, by default as many as the epochs have.

    A step has a batch of the task for each GPU, however the plan shares them out. So all plans of
    as many GPUs learn the same, and differ in time. Tensor, context and expert parallelism split
    layers and sequences, and not the samples.
    """
    work = step.work
    degrees = work.times.degrees
    share = degrees.ranks // degrees.dp
    sampler = replace(task.sampler(degrees.dp), batch=task.batch * share)
    return ParallelLearner(
        task,
        sampler,
        share,
        pipeline=work.pipeline,
        sharded=work.gradients.zero > 0,
        steps=steps or task.epochs * sampler.batches,
        seconds=step.timeline.makespan,
    )
