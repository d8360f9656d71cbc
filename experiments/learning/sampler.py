"""Which samples a rank sees in a step, split as torch's DistributedSampler splits them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


def deal(order: Rows, ranks: int) -> Rows:
    """The samples of each rank, shape (ranks, samples of a rank).

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

    def rows(self, number: int) -> Rows:
        """The samples of batch `number`, counted over all epochs, shape (ranks, batch)."""
        epoch, place = divmod(number, self.batches)
        begin = place * self.batch
        return _epoch(self, epoch)[:, begin : begin + self.batch]


@lru_cache(maxsize=64)
def _epoch(sampler: Sampler, epoch: int) -> Rows:
    """The samples of each rank in an epoch, in an order that seed and epoch shuffle."""
    order = np.random.default_rng((sampler.seed, epoch)).permutation(sampler.samples)
    return deal(order, sampler.ranks)
