"""What a collective costs besides links: kernels, memory of the host, and pieces."""

from __future__ import annotations

from math import log2
from typing import NamedTuple

import numpy as np

from simulator.effects.jobs import Jobs
from simulator.effects.parameter_units import Bytes, Count, Seconds
from topologies.topology import Floats

PHASES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
"""How often about V crosses the links of a rank in a collective."""
IN_SWITCHES = ("nvls", "nvls_tree", "multimem_one_shot", "sharp")
"""Algorithms in which switches reduce: no rank keeps a part, and the library's pieces are
simulated."""
DIRECT = ("pairwise", "pairwise_sync", "linear_all_to_all")
"""All-to-alls in which each rank sends a message to each other rank."""


class KernelCosts(NamedTuple):
    """What NCCL's kernels cost besides links and launch."""

    own_copies: Seconds = 0.0
    """Seconds to copy a byte of the part V/p that a rank keeps, from its input to its output."""
    piece: Seconds = 0.0
    """Seconds of a piece of V besides its bytes, in a job on one node."""
    message: Seconds = 0.0
    """Seconds of each message of an all-to-all inside a node."""
    message_between: Seconds = 0.0
    """Seconds of each message of an all-to-all to another node."""

    def shares(
        self, jobs: Jobs, nbytes: Floats | float, slowness: Floats | float
    ) -> dict[str, Floats]:
        """Seconds by name, each in the jobs' shape. `slowness` is 1/β inside a node."""
        phases = jobs.by_algorithm(_phases(jobs), 0.0)
        direct = jobs.by_algorithm(dict.fromkeys(DIRECT, 1.0), 0.0)
        near = np.minimum(jobs.per_node, jobs.ranks)
        # Few pieces fill the pipeline slowly, and each costs a time: the best number of them takes
        # twice the square root of the two.
        filling = 2 * np.sqrt(self.piece * phases * nbytes * slowness)
        sent = (near - 1) * self.message + (jobs.ranks - near) * self.message_between
        return {
            "own copies": np.asarray(np.sign(phases) * self.own_copies * nbytes / jobs.ranks),
            "pieces": np.asarray(np.where(jobs.nodes == 1, filling, 0.0)),
            "messages": np.asarray(direct * sent),
        }


def _phases(jobs: Jobs) -> dict[str, float]:
    """`PHASES` of each algorithm in which ranks send to ranks."""
    pairs = zip(jobs.names, jobs.collectives, strict=True)
    return {name: PHASES.get(each, 0.0) for name, each in pairs if name not in IN_SWITCHES}


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
