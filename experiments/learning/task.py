"""What a run learns, and how."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from experiments.learning.digits import CLASSES, PIXELS, Samples, digits
from experiments.learning.network import Perceptron
from experiments.learning.sampler import Sampler
from simulator.training.strategy import option
from topologies.errors import InputError, nearest_name
from topologies.topology import Floats

NETWORKS = ("softmax", "mlp")
MOST_WORKERS = 128
"""More workers have hardly a batch each in an epoch."""


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
