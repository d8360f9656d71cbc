"""How much each rank gets: a ramp, a skewed router with a seed, or a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from topologies.errors import InputError
from topologies.topology import Floats


class Router(Protocol):
    """Sizes of chunks and blocks, as shares of V."""

    def chunks(self, ranks: int) -> Floats:
        """The chunk of each rank, shape (ranks,). They add up to 1."""

    def matrix(self, ranks: int) -> Floats:
        """What each rank has for each rank, shape (ranks, ranks). Rows add up to 1 on average."""


@dataclass(frozen=True)
class Ramp:
    """Rank r gets r + 1 parts."""

    def chunks(self, ranks: int) -> Floats:
        """As :meth:`Router.chunks`."""
        parts = np.arange(1.0, ranks + 1)
        return np.asarray(parts / parts.sum(), dtype=np.float64)

    def matrix(self, ranks: int) -> Floats:
        """As :meth:`Router.matrix`. Rank s sends in proportion to s + 1."""
        chunks = self.chunks(ranks)
        return np.asarray(ranks * chunks[:, None] * chunks, dtype=np.float64)


RAMP = Ramp()


@dataclass(frozen=True)
class Zipf:
    """A router of tokens to experts, one expert a rank. The expert of popularity k gets a share
    that falls as k^-exponent. The seed says which rank has which popularity.

    >>> Zipf(1.0, seed=0).chunks(3).round(3).tolist()
    [0.182, 0.545, 0.273]
    """

    exponent: float
    seed: int = 0

    def chunks(self, ranks: int) -> Floats:
        """As :meth:`Router.chunks`."""
        order = np.random.default_rng(self.seed).permutation(ranks)
        weights = (order + 1.0) ** -self.exponent
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def matrix(self, ranks: int) -> Floats:
        """As :meth:`Router.matrix`. All ranks send alike."""
        return np.tile(self.chunks(ranks), (ranks, 1))


@dataclass(frozen=True)
class Table:
    """Sizes from a file: what row s has in column r is for rank r, from rank s."""

    name: str
    rows: tuple[tuple[float, ...], ...]

    @cached_property
    def _sizes(self) -> Floats:
        return np.array(self.rows)

    @property
    def nbytes(self) -> float:
        """V in bytes: what a rank sends on average."""
        return float(self._sizes.sum() / len(self.rows))

    def chunks(self, ranks: int) -> Floats:
        """As :meth:`Router.chunks`, of a table with one row."""
        if self._sizes.shape != (1, ranks):
            raise InputError(
                f"{self.name}: {self._shape}, and {ranks} chunks need 1 row of {ranks}"
            )
        return np.asarray(self._sizes[0] / self._sizes.sum(), dtype=np.float64)

    def matrix(self, ranks: int) -> Floats:
        """As :meth:`Router.matrix`, of a square table."""
        if self._sizes.shape != (ranks, ranks):
            raise InputError(
                f"{self.name}: {self._shape}, and {ranks} ranks need {ranks} of {ranks}"
            )
        return np.asarray(self._sizes / self.nbytes, dtype=np.float64)

    @property
    def _shape(self) -> str:
        rows, columns = self._sizes.shape
        return f"{rows} {'row' if rows == 1 else 'rows'} of {columns} numbers"
