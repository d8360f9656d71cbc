"""The gradient of a batch that goes through a pipeline, micro-batch by micro-batch."""

from __future__ import annotations

import numpy as np

from experiments.learning.digits import Samples
from experiments.learning.network import Perceptron, add_gradient, loss_slope
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS
from topologies.topology import Floats


class Stages:
    """The stages of a network in a pipeline, and what they keep of the micro-batches of a batch.

    Stages have consecutive layers. A stage without a layer hands on what it receives.
    """

    def __init__(
        self, network: Perceptron, weights: Floats, samples: Samples, pipeline: Pipeline
    ) -> None:
        self.network, self.pipeline = network, pipeline
        rows = np.array_split(np.arange(len(samples)), pipeline.micro_batches)
        self.micro_batches, self.samples = [samples.of(part) for part in rows], len(samples)
        layers = np.array_split(np.arange(network.layers), pipeline.stages)
        self.layers = [part.tolist() for part in layers]
        self.matrices = network.matrices(weights)
        self.gradients = np.zeros((pipeline.copies, len(weights)))
        self.inputs: dict[tuple[int, int], Floats] = {}
        """What each layer has received, by layer and micro-batch."""
        self.slopes: dict[tuple[int, int], Floats] = {}
        """The slope of the loss before the ReLU of each layer, by layer and micro-batch."""
        self.handed: dict[tuple[int, int, int], Floats] = {}
        """What stages hand on, by kind, stage and micro-batch: outputs, or slopes of inputs."""

    def act(self, kind: int, stage: int, micro: int, copy: int) -> None:
        """An action of the pipeline."""
        if kind == FORWARD:
            self.forward(stage, micro)
            return
        if kind != WEIGHTS:
            self.backward(stage, micro)
        if kind != INPUTS:
            gradients = self.network.matrices(self.gradients[copy])
            for layer in self.layers[stage]:
                slope = self.slopes.pop((layer, micro))
                add_gradient(gradients[layer], self.inputs.pop((layer, micro)), slope)

    def forward(self, stage: int, micro: int) -> None:
        """The outputs of a stage."""
        batch = self.micro_batches[micro]
        values = self.handed.pop((FORWARD, stage - 1, micro)) if stage else batch.inputs
        for layer in self.layers[stage]:
            self.inputs[layer, micro] = values
            values = self.network.forward(layer, self.matrices[layer], values)
        if stage == self.pipeline.stages - 1:
            values = loss_slope(values, batch.labels, self.samples)
            self.handed[INPUTS, stage + 1, micro] = values
        else:
            self.handed[FORWARD, stage, micro] = values

    def backward(self, stage: int, micro: int) -> None:
        """The slopes of the inputs of a stage."""
        above = self.handed.pop((INPUTS, stage + 1, micro))
        for layer in reversed(self.layers[stage]):
            matrix, inputs = self.matrices[layer], self.inputs[layer, micro]
            slope = self.network.slope(layer, self.network.forward(layer, matrix, inputs), above)
            self.slopes[layer, micro] = slope
            above = slope @ matrix[:-1].T
        self.handed[INPUTS, stage, micro] = above


def pipeline_gradient(
    network: Perceptron, weights: Floats, samples: Samples, pipeline: Pipeline
) -> Floats:
    """The gradient of the mean loss of the samples, which go through `pipeline` in its order.

    Each device adds up the gradients of micro-batches in its order. Copies of the model add up
    theirs at the end.
    """
    stages = Stages(network, weights, samples, pipeline)
    columns = pipeline.kind, pipeline.stage, pipeline.micro, pipeline.copy
    rows = (column[pipeline.order].tolist() for column in columns)
    for kind, stage, micro, copy in zip(*rows, strict=True):
        stages.act(kind, stage, micro, copy)
    return np.asarray(stages.gradients.sum(axis=0))
