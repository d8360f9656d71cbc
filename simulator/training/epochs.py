"""How long a training takes: epochs of steps, and what an epoch takes beside its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf

from topologies.errors import InputError


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
