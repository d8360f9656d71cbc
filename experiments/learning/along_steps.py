"""Learning along the steps of a parallel plan: pipelines, each with a share of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.learning.along_plan import Version
from experiments.learning.pipelined import pipeline_gradient
from experiments.learning.replicas import Copies, Replicas, Shards
from experiments.learning.task import Task
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.parallel.step import Step


@dataclass(frozen=True, eq=False)
class ParallelLearner:
    """A task, and the steps of equal length along which it is learnt."""

    task: Task
    pipelines: int
    """Data-parallel ranks: each has a batch of the task in a step, and a pipeline."""
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
        task, ranks = self.task, self.pipelines
        copies = self._copies()
        sampler, whole = task.sampler(ranks), copies.whole()
        for step in range(self.steps):
            gradients = [
                pipeline_gradient(task.model, weights, task.samples.of(rows), self.pipeline)
                for weights, rows in zip(whole, sampler.rows(step), strict=True)
            ]
            copies.subtract(np.array(gradients), task.rate / ranks)
            whole = copies.whole()
            yield Version((step + 1) * self.seconds, (step + 1) * ranks, whole[0])

    def _copies(self) -> Copies:
        if self.sharded:
            return Shards(self.task.model, self.task.initial, self.pipelines)
        return Replicas(self.task.initial, self.pipelines)


def parallel_learner(task: Task, step: Step, steps: int) -> ParallelLearner:
    """The learner along `steps` steps of a parallel plan.

    Each pipeline has a batch of the task, whatever the degrees of tensor, context and expert
    parallelism: those split layers and sequences, and not the samples.
    """
    work = step.work
    return ParallelLearner(
        task,
        pipelines=work.times.degrees.dp,
        pipeline=work.pipeline,
        sharded=work.gradients.zero > 0,
        steps=steps,
        seconds=step.timeline.makespan,
    )
