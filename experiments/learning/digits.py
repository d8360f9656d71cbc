"""Handwritten digits: the small problem on which runs learn.

They come with scikit-learn: 1797 pictures of 8 x 8 pixels (Alpaydin and Kaynak, UCI, 1998).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.errors import InputError
from topologies.topology import Floats

PIXELS, CLASSES = 64, 10
Labels = npt.NDArray[np.int64]


class Samples(NamedTuple):
    """Pictures and the digits that they show."""

    inputs: Floats
    """Shape (samples, PIXELS), from 0 to 1."""
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def of(self, rows: npt.NDArray[np.integer] | slice) -> Samples:
        """Some of the samples."""
        return Samples(self.inputs[rows], self.labels[rows])


@cache
def digits() -> tuple[Samples, Samples]:
    """The samples to learn from, and those held out.

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
    return samples.of(np.flatnonzero(~held_out)), samples.of(np.flatnonzero(held_out))
