"""What makes ranks differ: stragglers, noise from step to step, a worker that fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.errors import InputError
from topologies.topology import Floats


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

    def has_input(self, step: int, ranks: int) -> npt.NDArray[np.bool_]:
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

    def _drawn(self, steps: int, ranks: int) -> npt.NDArray[np.float64]:
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
