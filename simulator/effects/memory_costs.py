"""What merging, copying and fresh memory of the host cost a collective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.effects.parameter_units import Bytes, Seconds
from topologies.topology import Floats

LEAST_RATE = 1e-290
"""A rate that costs nothing, and is not 0."""
CONNECTED_RANKS = 256
"""The most ranks for which UCX keeps a connection to each peer (openucx/ucx, pull request 3944)."""


class HostMemory(NamedTuple):
    """What memory of the host costs. V is the size of a collective in bytes."""

    reduction: Seconds = 0.0
    """γ: seconds to merge a byte, in the cache."""
    reduction_beyond: Seconds = 0.0
    """γ where the data are larger than the cache."""
    copy: Seconds = 0.0
    """Seconds to touch a byte of the buffer once, in the cache."""
    copy_beyond: Seconds = 0.0
    """Seconds to touch a byte where the data are larger than the cache."""
    fresh: Seconds = 0.0
    """Seconds a byte of scratch that the allocator maps anew in each call."""
    cache: Bytes = 2.0**23.5
    """V at which the cache does half of the work."""
    back: Seconds = 0.0
    """Seconds a byte of scratch that the allocator gave back at the heap's end."""
    mapped: Bytes = 2.0**25
    """The least V for which the allocator maps scratch anew."""
    trimmed: Bytes = 2.0**19
    """The least V for which the allocator gives back several blocks of scratch."""
    registered: Seconds = 0.0
    """Seconds to register a byte of fresh memory with the network again."""
    pinned: Seconds = 0.0
    """Seconds for each time that memory is pinned for the network, however much it is."""
    pinned_on_many: Seconds = 0.0
    """Seconds that scratch of more than `trimmed` bytes takes in a job of more than CONNECTED_RANKS
    ranks, however much it is, where it is not mapped anew."""

    def beyond(self, nbytes: Floats | float) -> Floats:
        """The share of the work that memory does, and not the cache: half of it at `cache` bytes,
        94% at twice."""
        return np.asarray(1 / (1 + (self.cache / np.asarray(nbytes)) ** 4))

    def merge(self, nbytes: Floats | float) -> Floats:
        """γ of a collective of V bytes."""
        share = self.beyond(nbytes)
        return np.asarray((1 - share) * self.reduction + share * self.reduction_beyond)

    def touch(self, nbytes: Floats | float) -> Floats:
        """Seconds a byte of a copy of V bytes."""
        share = self.beyond(nbytes)
        return np.asarray((1 - share) * self.copy + share * self.copy_beyond)

    def allocate(
        self,
        scratch: Floats | float,
        nbytes: Floats | float,
        joined: Floats | float = 0.0,
        ranks: Floats | float = 1.0,
    ) -> Floats:
        """Seconds to write `scratch` * V bytes of new memory and to pin it.

        `joined` * V of it are registered again, V/2 at a time. It takes no time if the allocator
        keeps the memory. glibc maps blocks of 32 MiB and more (mallopt(3), M_MMAP_THRESHOLD).
        Scratch above V is several blocks.
        """
        blocks, size = np.asarray(scratch), np.asarray(nbytes)
        large = size > self.trimmed
        trimmed = (blocks > 1) & large
        many = (blocks > 0) & large & (np.asarray(ranks) > CONNECTED_RANKS)
        again = np.asarray(joined)
        mapped = (
            size * (blocks * self.fresh + again * self.registered)
            + ((blocks > 0) + 2 * again) * self.pinned
        )
        returned = size * blocks * self.back + self._returned * self.pinned
        kept = trimmed * returned + many * self.pinned_on_many
        return np.asarray(np.where(size >= self.mapped, mapped, kept))

    @property
    def _returned(self) -> Floats:
        """The share of memory that the allocator gives back, by what it costs to get it anew."""
        return np.asarray(np.minimum(1.0, self.back / np.maximum(self.fresh, LEAST_RATE)))
