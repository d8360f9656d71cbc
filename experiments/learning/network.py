"""A small network: linear layers, ReLU between them, and the cross entropy of a softmax."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from experiments.learning.digits import Labels, Samples
from topologies.topology import Floats


@dataclass(frozen=True)
class Perceptron:
    """All weights are one vector, layer by layer. A layer is a matrix whose last row is the
    bias."""

    widths: tuple[int, ...]
    """Elements of the input, of each hidden layer, and of the output."""

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.widths) - 1

    @property
    def size(self) -> int:
        """The number of weights."""
        return sum((inputs + 1) * outputs for inputs, outputs in pairwise(self.widths))

    def initial(self, seed: int) -> Floats:
        """Random weights, after He et al., ICCV 2015; biases are 0."""
        rng = np.random.default_rng(seed)
        matrices = []
        for inputs, outputs in pairwise(self.widths):
            matrix = rng.normal(0.0, np.sqrt(2 / inputs), (inputs + 1, outputs))
            matrix[-1] = 0.0
            matrices.append(matrix.ravel())
        return np.concatenate(matrices)

    def matrices(self, weights: Floats) -> list[Floats]:
        """The matrix of each layer, as views of `weights`."""
        result, begin = [], 0
        for inputs, outputs in pairwise(self.widths):
            end = begin + (inputs + 1) * outputs
            result.append(weights[begin:end].reshape(inputs + 1, outputs))
            begin = end
        return result

    def forward(self, layer: int, matrix: Floats, inputs: Floats) -> Floats:
        """The outputs of a layer."""
        outputs: Floats = inputs @ matrix[:-1] + matrix[-1]
        return outputs if layer == self.layers - 1 else np.maximum(outputs, 0.0)

    def slope(self, layer: int, outputs: Floats, above: Floats) -> Floats:
        """The slope of the loss before the ReLU of a layer; `above` is that of its outputs."""
        return above if layer == self.layers - 1 else above * (outputs > 0)

    def outputs(self, weights: Floats, inputs: Floats) -> list[Floats]:
        """The outputs of all layers."""
        results: list[Floats] = []
        for layer, matrix in enumerate(self.matrices(weights)):
            inputs = self.forward(layer, matrix, inputs)
            results.append(inputs)
        return results

    def gradient(self, weights: Floats, samples: Samples) -> Floats:
        """The gradient of the mean loss of the samples."""
        outputs = self.outputs(weights, samples.inputs)
        result = np.zeros_like(weights)
        above = loss_slope(outputs[-1], samples.labels, len(samples))
        matrices, gradients = self.matrices(weights), self.matrices(result)
        for layer in reversed(range(self.layers)):
            inputs = outputs[layer - 1] if layer else samples.inputs
            slope = self.slope(layer, outputs[layer], above)
            add_gradient(gradients[layer], inputs, slope)
            above = slope @ matrices[layer][:-1].T
        return result

    def loss(self, weights: Floats, samples: Samples) -> float:
        """The mean loss of the samples."""
        logits = self.outputs(weights, samples.inputs)[-1]
        highest = logits.max(axis=1)
        total = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
        return float(np.mean(total - logits[np.arange(len(samples)), samples.labels]))

    def accuracy(self, weights: Floats, samples: Samples) -> float:
        """The share of the samples whose digit the network names."""
        logits = self.outputs(weights, samples.inputs)[-1]
        return float(np.mean(logits.argmax(axis=1) == samples.labels))


def loss_slope(logits: Floats, labels: Labels, samples: int) -> Floats:
    """The slope of the mean loss of a batch of `samples` at the logits of some of them."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    result[np.arange(len(labels)), labels] -= 1.0
    return result / samples


def add_gradient(gradient: Floats, inputs: Floats, slope: Floats) -> None:
    """Add the gradient of a layer's matrix, whose outputs before the ReLU have a slope."""
    gradient[:-1] += inputs.T @ slope
    gradient[-1] += slope.sum(axis=0)
