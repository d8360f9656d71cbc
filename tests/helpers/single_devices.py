"""Training on one device, to compare with."""

import numpy as np

from experiments.learning.task import LearningTask
from topologies.topology import Floats


def single(task: LearningTask, ranks: int, steps: int, batches: int = 1) -> Floats:
    """The weights of one device that sees the batches of all ranks in each step."""
    sampler, result = task.sampler(ranks), task.initial
    for step in range(steps):
        numbers = range(step * batches, (step + 1) * batches)
        gradients = [
            task.model.gradient(result, task.samples.of(sampler.rows(number).ravel()))
            for number in numbers
        ]
        result = result - task.rate * np.mean(gradients, axis=0)
    return result
