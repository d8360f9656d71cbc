"""The gradient of a pipeline is that of one device."""

from __future__ import annotations

import numpy as np

from experiments.learning.network import Perceptron
from experiments.learning.pipelined import pipeline_gradient
from experiments.learning.task import LearningTask
from grouped_cases import each_case
from simulator.parallel.pipelines import find, orders

TASK = LearningTask("mlp", hidden=6)


@each_case("name", sorted(orders()))
@each_case(("devices", "micro_batches"), [(2, 4), (4, 8)])
def test_every_order_has_the_gradient_of_one_device(
    name: str, devices: int, micro_batches: int
) -> None:
    network = Perceptron((64, 6, 5, 4, 10)) if devices == 4 else TASK.model
    samples, weights = TASK.samples.of(slice(30)), network.initial(0)
    pipeline = find(name).build(devices, micro_batches)
    gradient = pipeline_gradient(network, weights, samples, pipeline)
    assert np.abs(gradient - network.gradient(weights, samples)).max() < 1e-14


def test_micro_batches_may_be_empty() -> None:
    """The last batch of an epoch may have fewer samples than the pipeline has micro-batches."""
    samples, weights = TASK.samples.of(slice(3)), TASK.initial
    gradient = pipeline_gradient(TASK.model, weights, samples, find("gpipe").build(2, 4))
    assert np.abs(gradient - TASK.model.gradient(weights, samples)).max() < 1e-14
