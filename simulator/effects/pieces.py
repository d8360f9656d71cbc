"""Into how many pieces a library divides a collective."""

from math import log2
from typing import NamedTuple

from simulator.effects.parameter_units import Bytes, Count


class PieceCounts(NamedTuple):
    """The number of pieces of an algorithm, by its size."""

    least: Count
    """The fewest pieces."""
    most: Count
    """The most pieces."""
    nbytes: Bytes = 1.0
    """The bytes of a piece between these limits."""

    def of(self, nbytes: float) -> int:
        """The pieces of V = `nbytes`, a power of two between the limits.

        >>> [PieceCounts(8, 32, 2.0**20).of(nbytes) for nbytes in (8.0, 2.0**24, 2.0**30)]
        [8, 16, 32]
        """
        doublings = round(log2(max(nbytes, 1.0) / self.nbytes))
        return int(min(max(2.0**doublings, self.least), self.most))

    def name(self, algorithm: str, nbytes: float) -> str:
        """The name of an algorithm with its pieces of V = `nbytes`.

        >>> PieceCounts(512, 512).name("chain_broadcast", 8.0)
        'chain_broadcast:segments=512'
        """
        return f"{algorithm}:segments={self.of(nbytes)}"
