"""What makes ranks differ: stragglers, noise from step to step, a worker that fails.
And the epochs of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from topologies.errors import InputError
from topologies.topology import Flags, Floats


class Attempt(NamedTuple):
    """A step as it is run."""

    step: int
    """Its number, from 0 on."""
    lost: bool = False
    """Whether it will be run again, because a worker fails in it or after it."""
    fails: bool = False
    """Whether a worker fails in it."""


@dataclass(frozen=True)
class Failure:
    """A worker fails after the forward of a step. All workers restart, and go on from the last
    checkpoint."""

    rank: int
    step: int
    """Counted from 0."""
    restart: float
    """Seconds of a restart."""
    timeout: float = 0.0
    """Seconds until the others notice the failure."""
    checkpoint: int = 1
    """Steps from one checkpoint to the next."""

    def __post_init__(self) -> None:
        if min(self.rank, self.step) < 0 or self.checkpoint < 1:
            raise InputError(
                f"a failure of rank {self.rank} in step {self.step}, a checkpoint every "
                f"{self.checkpoint}: "
                "ranks and steps are counted from 0, a checkpoint comes every 1 or more"
            )
        if not (0 <= self.restart < inf and 0 <= self.timeout < inf):
            raise InputError(
                f"a restart of {self.restart} s after {self.timeout} s: both are 0 or more"
            )

    def check(self, steps: int, ranks: int) -> None:
        """Raise InputError unless so many steps and ranks have its own."""
        if self.rank >= ranks:
            raise InputError(f"rank {self.rank} fails: ranks run from 0 to {ranks - 1}")
        if self.step >= steps:
            raise InputError(f"a worker fails in step {self.step}: the steps are 0 to {steps - 1}")


@dataclass(frozen=True)
class Conditions:
    """What makes ranks and steps differ.

    A computation takes the time of the model, times the factor of its rank, times a random factor
    of its rank and step. The random factors have mean 1.
    """

    slower: Mapping[int, float] = field(default_factory=dict)
    """The factor of a rank, by rank; 1 for others."""
    sigma: float = 0.0
    """Random factors are lognormal with this sigma; 0: they are 1."""
    observed: tuple[float, ...] = ()
    """Random factors are drawn from these times, in any unit, over their mean."""
    seed: int = 0
    """The same seed draws the same factors."""
    failure: Failure | None = None
    batches: Mapping[int, int] = field(default_factory=dict)
    """How many steps a rank has input for, by rank; all for others."""

    def __post_init__(self) -> None:
        for rank, factor in self.slower.items():
            if rank < 0 or not 0 < factor < inf:
                raise InputError(
                    f"straggler {rank}:{factor}: a rank from 0 on and a factor above 0, like 3:1.5"
                )
        for rank, batches in self.batches.items():
            if rank < 0 or batches < 0:
                raise InputError(
                    f"rank {rank} has {batches} batches: a rank from 0 on and 0 batches or more, "
                    f"like 3:8"
                )
        if not 0 <= self.sigma < 10:
            raise InputError(f"noise has sigma {self.sigma}: it is 0 or more, and below 10")
        if self.observed and not (min(self.observed) >= 0 and 0 < sum(self.observed) < inf):
            raise InputError("the observed times are 0 or more, and not all 0")
        if self.sigma and self.observed:
            raise InputError("noise is lognormal or drawn from observed times: not both")

    def has_input(self, step: int, ranks: int) -> Flags:
        """Which ranks have a batch left in a step, shape (ranks,)."""
        inputs = np.ones(ranks, dtype=np.bool_)
        ended = [rank for rank, batches in self.batches.items() if rank < ranks and batches <= step]
        inputs[ended] = False
        return inputs

    @property
    def alike(self) -> bool:
        """Whether all ranks do the same."""
        return not (self.slower or self.sigma or self.observed or self.failure or self.batches)

    def factors(self, steps: int, ranks: int) -> Floats:
        """What the times of each step and rank are multiplied by, shape (steps, ranks)."""
        for what, by_rank in (
            ("straggler", self.slower),
            ("a rank with fewer batches", self.batches),
        ):
            if max(by_rank, default=0) >= ranks:
                raise InputError(
                    f"{what}: there is no rank {max(by_rank)}, ranks run from 0 to {ranks - 1}"
                )
        slower = np.array([self.slower.get(rank, 1.0) for rank in range(ranks)])
        return slower * self._drawn(steps, ranks)

    def _drawn(self, steps: int, ranks: int) -> Floats:
        rng = np.random.default_rng(self.seed)
        if self.observed:
            return rng.choice(np.array(self.observed) / np.mean(self.observed), (steps, ranks))
        if self.sigma:
            return rng.lognormal(-(self.sigma**2) / 2, self.sigma, (steps, ranks))
        return np.ones((steps, ranks))

    def repeated(self, steps: int) -> int:
        """Attempts that a failure adds to `steps` steps."""
        failure = self.failure
        return (
            0 if failure is None or failure.step >= steps else 1 + failure.step % failure.checkpoint
        )

    def attempts(self, steps: int) -> list[Attempt]:
        """The steps as they are run: after the one that fails, all since the checkpoint come
        again."""
        failure = self.failure
        if failure is None or failure.step >= steps:
            return [Attempt(step) for step in range(steps)]
        saved = failure.step - failure.step % failure.checkpoint
        before = [Attempt(step, lost=step >= saved) for step in range(failure.step)]
        return [
            *before,
            Attempt(failure.step, True, True),
            *(Attempt(step) for step in range(saved, steps)),
        ]


@dataclass(frozen=True)
class Epochs:
    """The epochs of a training, and the rate of its input.

    The input pipeline reads ahead while the devices compute. So a step takes at least the time in
    which its samples are read, and not the sum of both.
    """

    number: int = 1
    dataset: int | None = None
    """Samples of an epoch; None: no epoch is timed."""
    pause: float = 0.0
    """Seconds of an epoch beside its steps, such as validation and the start of data loaders."""
    input_rate: float = inf
    """Samples a second that the input pipeline reads, for all workers together."""

    def __post_init__(self) -> None:
        if self.number < 1 or (self.dataset is not None and self.dataset < 1):
            raise InputError(
                f"{self.number} epochs of {self.dataset} samples: take 1 or more of both"
            )

    def reading(self, samples: float) -> float:
        """Seconds in which `samples` samples are read."""
        return samples / self.input_rate

    def training(self, samples: float, step: float) -> dict[str, float]:
        """The columns of all epochs with steps of `samples` samples that take `step` seconds.

        The last step of an epoch is a whole one, as in a sampler that pads.

        >>> Epochs(90, dataset=1000, pause=10.0).training(samples=64, step=0.5)
        {'epochs': 90, 'epoch_steps': 16, 'epoch_s': 18.0, 'training_s': 1620.0}
        """
        steps = ceil((self.dataset or 0) / samples)
        epoch = steps * step + self.pause
        counts = {"epochs": self.number, "epoch_steps": steps}
        return counts | {"epoch_s": epoch, "training_s": self.number * epoch}

    def columns(self, samples: float, step: float, wait: float) -> Mapping[str, float]:
        """What a table has of steps of `samples` samples that take `step` seconds, `wait` of them
        for input."""
        columns = {} if self.input_rate == inf else {"input_s": wait}
        return columns if self.dataset is None else columns | self.training(samples, step)
