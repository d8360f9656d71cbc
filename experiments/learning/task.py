"""A small network that learns handwritten digits, and which samples a worker sees in a step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from simulator.training.strategy import option
from topologies.errors import InputError, nearest_name
from topologies.topology import Floats, Longs, Numbers

PIXELS, CLASSES = 64, 10
NETWORKS = ("softmax", "mlp")
MOST_WORKERS = 128
"""More workers have hardly a batch each in an epoch."""


class Samples(NamedTuple):
    """Pictures and the digits that they show."""

    inputs: Floats
    """Shape (samples, PIXELS), from 0 to 1."""
    labels: Longs

    def __len__(self) -> int:
        return len(self.labels)

    def of(self, rows: Numbers | slice) -> Samples:
        """Some of the samples."""
        return Samples(self.inputs[rows], self.labels[rows])


@cache
def digits() -> tuple[Samples, Samples]:
    """The samples to learn from, and those held out: 1797 pictures of 8 x 8 pixels that come with
    scikit-learn (Alpaydin and Kaynak, UCI, 1998).

    Raises InputError if scikit-learn is missing.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            "--learn needs scikit-learn, which is not installed: pip install '.[learn]'"
        ) from None
    bunch = load_digits()
    samples = Samples(bunch.data / 16, bunch.target.astype(np.int64))
    # Every fifth picture is for the accuracy.
    held_out = np.arange(len(samples)) % 5 == 0
    return samples.of(~held_out), samples.of(held_out)


@dataclass(frozen=True)
class Perceptron:
    """Linear layers, ReLU between them, and the cross entropy of a softmax.

    All weights are one vector, layer by layer. A layer is a matrix whose last row is the bias.
    """

    widths: tuple[int, ...]
    """Elements of the input, of each hidden layer, and of the output."""

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
        shapes = [(inputs + 1, outputs) for inputs, outputs in pairwise(self.widths)]
        ends = np.cumsum([rows * columns for rows, columns in shapes])
        parts = np.split(weights, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def outputs(self, weights: Floats, inputs: Floats) -> list[Floats]:
        """The outputs of all layers."""
        results: list[Floats] = []
        for matrix in self.matrices(weights):
            if results:
                inputs = results[-1] = np.maximum(results[-1], 0.0)
            results.append(inputs @ matrix[:-1] + matrix[-1])
        return results

    def gradient(self, weights: Floats, samples: Samples) -> Floats:
        """The gradient of the mean loss of the samples."""
        outputs = self.outputs(weights, samples.inputs)
        slope = np.exp(outputs[-1] - outputs[-1].max(axis=1, keepdims=True))
        slope /= slope.sum(axis=1, keepdims=True)
        slope[np.arange(len(samples)), samples.labels] -= 1.0
        slope /= len(samples)
        result = np.zeros_like(weights)
        matrices, gradients = self.matrices(weights), self.matrices(result)
        for layer in reversed(range(len(matrices))):
            inputs = outputs[layer - 1] if layer else samples.inputs
            gradients[layer][:-1] = inputs.T @ slope
            gradients[layer][-1] = slope.sum(axis=0)
            slope = slope @ matrices[layer][:-1].T * (inputs > 0)
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


def deal(order: Longs, ranks: int) -> Longs:
    """The samples of each rank, shape (ranks, samples of a rank), as torch's DistributedSampler
    splits them.

    `order` is repeated from its beginning until all ranks have as many samples. Rank r takes each
    `ranks`-th sample from number r on.
    """
    return np.resize(order, (ceil(len(order) / ranks), ranks)).T


@dataclass(frozen=True)
class Sampler:
    """The batches of all ranks. The last batch of an epoch may be smaller, and is as large at all
    ranks."""

    samples: int
    ranks: int
    batch: int
    """Samples of a rank in a batch."""
    seed: int

    @property
    def batches(self) -> int:
        """Batches of a rank in an epoch."""
        return ceil(ceil(self.samples / self.ranks) / self.batch)

    def rows(self, number: int) -> Longs:
        """The samples of batch `number`, counted over all epochs, shape (ranks, batch)."""
        epoch, place = divmod(number, self.batches)
        begin = place * self.batch
        return _epoch(self, epoch)[:, begin : begin + self.batch]


@lru_cache(maxsize=64)
def _epoch(sampler: Sampler, epoch: int) -> Longs:
    """The samples of each rank in an epoch, in an order that seed and epoch shuffle."""
    order = np.random.default_rng((sampler.seed, epoch)).permutation(sampler.samples)
    return deal(order, sampler.ranks)


@dataclass(frozen=True)
class LearningTask:
    """A network, trained on digits by SGD without momentum."""

    network: str = "mlp"
    """softmax: a linear layer. mlp: two layers."""
    rate: float = option(0.5, "learning rate of a step with the mean gradient of all workers")
    batch: int = option(20, "samples of a worker in a batch")
    epochs: int = option(10, "how often all samples are seen; --steps sets the steps instead")
    hidden: int = option(32, "mlp: elements between the two layers")
    target: float = option(0.95, "accuracy to reach, a share")
    seed: int = 0
    """Of the first weights and of the order of the samples."""

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            hint = nearest_name(self.network, NETWORKS, f"there are {', '.join(NETWORKS)}")
            raise InputError(f"--learn: no network {self.network[:40]!r}: {hint}")
        if not 0 < self.rate < inf:
            raise InputError(f"--learn: rate={self.rate:g}: above 0, like 0.5")
        if not 0 < self.target < 1:
            raise InputError(f"--learn: target={self.target:g}: a share, like 0.95")
        for name, most in {"batch": 1024, "epochs": 1000, "hidden": 4096}.items():
            if not 1 <= getattr(self, name) <= most:
                raise InputError(f"--learn: {name}={getattr(self, name)}: 1 to {most}")

    @cached_property
    def model(self) -> Perceptron:
        """The network."""
        hidden = (self.hidden,) if self.network == "mlp" else ()
        return Perceptron((PIXELS, *hidden, CLASSES))

    @cached_property
    def initial(self) -> Floats:
        """The first weights."""
        return self.model.initial(self.seed)

    @property
    def samples(self) -> Samples:
        """The samples to learn from."""
        return digits()[0]

    def sampler(self, ranks: int) -> Sampler:
        """Which samples each of `ranks` workers sees when. Raises InputError for too many."""
        if ranks > MOST_WORKERS:
            raise InputError(
                f"--learn: {ranks} workers share {len(self.samples)} digits: take --p "
                f"{MOST_WORKERS} or fewer"
            )
        return Sampler(len(self.samples), ranks, self.batch, self.seed)

    def steps(self, ranks: int) -> int:
        """Batches a worker in all epochs."""
        return self.epochs * self.sampler(ranks).batches

    def losses(self, weights: Floats) -> tuple[float, float]:
        """The loss on the samples, and the accuracy on those held out; of weights that have
        diverged an infinite loss, and no accuracy."""
        loss = self.model.loss(weights, self.samples) if np.isfinite(weights).all() else inf
        if not np.isfinite(loss):
            return inf, 0.0
        return loss, self.model.accuracy(weights, digits()[1])
