"""The versions of the weights that a run reaches, along a strategy or along steps of a plan.

A strategy has its times, its order of updates, and the versions that each worker has read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from experiments.learning.moves import Moves, moves_of
from experiments.learning.pipelined import pipeline_gradient
from experiments.learning.replicas import Replicas, Shards
from experiments.learning.sampler import Sampler
from experiments.learning.task import LearningTask
from simulator.collectives.collective import ALL_REDUCE
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.schedules.timeline import Timeline
from simulator.training import Strategy
from simulator.training.local_sgd import LocalSGD
from simulator.training.measures import window
from simulator.training.plan import Plan, of_buckets
from topologies.errors import InputError
from topologies.topology import Floats, Ints


class Version(NamedTuple):
    """Weights that a run has reached."""

    seconds: float
    """The simulated time since the start."""
    updates: int
    """Gradients of a worker that they contain."""
    weights: Floats


@dataclass(frozen=True, eq=False)
class Learner:
    """A task, and the simulated run along which it is learnt."""

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
        if isinstance(self.strategy, LocalSGD):
            return self._averaged()
        return self._summed()

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.plan.workers

    def _batches(self) -> int:
        """Batches of a worker in a step."""
        samples = int(self.plan.samples.max())
        return samples // (self.plan.model.batch * self.workers)

    def _gradients(self, weights: Floats, step: int) -> Floats:
        """The gradient of each worker in a step, at its row of `weights`."""
        task, batches = self.task, self._batches()
        sampler = task.sampler(self.workers)
        result = np.zeros_like(weights)
        for number in range(step * batches, (step + 1) * batches):
            rows = sampler.rows(number)
            for rank in range(self.workers):
                samples = task.samples.of(rows[rank])
                result[rank] += task.model.gradient(weights[rank], samples) / batches
        return result

    def _steps(self) -> Iterator[tuple[int, float, Moves]]:
        """Number, end and moves of each step that a failure does not undo."""
        ends = self.timeline.finish[self.plan.ends].max(axis=1)
        moves = moves_of(self.plan, self.timeline)
        for step in np.flatnonzero(self.plan.useful).tolist():
            yield int(self.plan.numbers[step]), float(ends[step]), moves[step]

    def _summed(self) -> Iterator[Version]:
        """Each worker subtracts the mean of all gradients, as the transfers of the step have added
        them up. If a single worker has the sum of a weight, the others get it from there."""
        everywhere, size = self.strategy.promise is ALL_REDUCE, len(self.task.initial)
        weights = np.tile(self.task.initial, (self.workers, 1))
        for done, (step, seconds, moves) in enumerate(self._steps(), 1):
            total = moves.run(self._gradients(weights, step))
            if not everywhere:
                total = total[self._owners(size), np.arange(size)]
            mean = total / self.workers
            weights = weights - self.task.rate * mean
            yield Version(seconds, done * self.workers * self._batches(), weights[0])

    def _owners(self, size: int) -> Ints:
        """The first worker with the sum of each weight at the end of a step."""
        promise, slots = self.strategy.promise, self.plan.schedule.buffer
        assert promise is not None
        blank = np.zeros((self.workers, slots), dtype=np.uint64)
        promised, _ = of_buckets(self.plan, promise).postcondition(blank, None)
        return np.repeat(promised.argmax(axis=0), -(-size // slots))[:size].astype(np.int32)

    def _averaged(self) -> Iterator[Version]:
        """Each worker subtracts its gradient. The weights are averaged where the plan does so."""
        weights = np.tile(self.task.initial, (self.workers, 1))
        for done, (step, seconds, moves) in enumerate(self._steps(), 1):
            weights = weights - self.task.rate * self._gradients(weights, step)
            if moves:
                weights = moves.run(weights) / self.workers
            if moves or self.workers == 1:
                yield Version(seconds, done * self.workers, weights[0])

    def _served(self) -> Iterator[Version]:
        """A gradient belongs to the weights that its worker has read, and is subtracted when the
        server applies it. It counts 1 / p, so that p updates move as far as a step of all."""
        updates, task = self.plan.updates, self.task
        assert updates is not None
        read = np.where(updates.pulled < 0, -1.0, self.timeline.start[updates.pulled])
        served = self.timeline.finish[updates.served]
        end = window(self.plan, self.timeline).end
        number = np.concatenate((updates.served, updates.pulled))
        order = np.lexsort((number, np.concatenate((served, read)))).tolist()
        sampler = task.sampler(self.workers)
        weights, copies, cycles = task.initial.copy(), {}, [0] * self.workers
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
            weights = weights - task.rate / self.workers * gradient
            cycles[worker] += 1
            yield Version(float(served[update]), sum(cycles), weights)


def pipeline_versions(
    task: LearningTask,
    sampler: Sampler,
    pipeline: Pipeline,
    *,
    workers: int,
    sharded: bool,
    steps: int,
    seconds: float,
) -> Iterator[Version]:
    """The versions that pipelines reach in `steps` steps of so many `seconds` each.

    The ranks of the sampler are pipelines of so many `workers`. A pipeline of a single device with
    several micro-batches accumulates their gradients. The weights are `sharded` over the ranks, or
    each keeps all of them.
    """
    ranks = sampler.ranks
    copies = Shards(task.model, task.initial, ranks) if sharded else Replicas(task.initial, ranks)
    whole = copies.whole()
    for step in range(steps):
        gradients = [
            pipeline_gradient(task.model, weights, task.samples.of(rows), pipeline)
            for weights, rows in zip(whole, sampler.rows(step), strict=True)
        ]
        copies.subtract(np.array(gradients), task.rate / ranks)
        whole = copies.whole()
        yield Version((step + 1) * seconds, (step + 1) * ranks * workers, whole[0])
