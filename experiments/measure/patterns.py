"""Test data: whole numbers by rank and place, and the result of a collective on them.

A chunk that is missing, doubled, stale or in the wrong place changes the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.errors import InputError

Numbers = npt.NDArray[np.float32]
PERIOD = 8191
"""A prime: no chunk of a power of two elements looks like another."""
EXACT = {
    "float64": 2**53,
    "float32": 2**24,
    "float16": 2**11,
    "bfloat16": 2**8,
    "int32": 2**31,
    "int64": 2**63,
}
"""The number up to which each dtype holds all whole numbers."""


class Chunk(NamedTuple):
    """Elements `begin` to `end` (exclusive) of a rank's buffer."""

    rank: int | None
    """The rank; None for the sum of all buffers."""
    begin: int
    end: int


def largest(ranks: int, dtype: str) -> int:
    """The largest number to send, so that sums over all ranks are exact. Raises InputError if that
    is below 2."""
    if EXACT[dtype] // ranks < 2:
        raise InputError(
            f"{dtype} counts to {EXACT[dtype]} only, too few for {ranks} ranks: take another dtype"
        )
    return min(16, EXACT[dtype] // ranks)


class BufferValues:
    """A buffer of whole numbers from 1 on for each rank, and their sum: exact in `dtype`, in any
    order of additions."""

    def __init__(self, ranks: int, dtype: str, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        table = rng.integers(1, largest(ranks, dtype) + 1, PERIOD).astype(np.float32)
        self._tables = [
            np.roll(table, shift) for shift in rng.choice(PERIOD, ranks, replace=ranks > PERIOD)
        ]
        self._sum = np.sum(self._tables, axis=0, dtype=np.float32)

    def of(self, chunks: list[Chunk]) -> Numbers:
        """The chunks, in their order."""
        return np.concatenate([self._chunk(*piece) for piece in chunks])

    def _chunk(self, rank: int | None, begin: int, end: int) -> Numbers:
        table = self._sum if rank is None else self._tables[rank]
        return np.resize(np.roll(table, -(begin % PERIOD)), end - begin)


def promise(collective: str, rank: int, ranks: int, elements: int) -> list[Chunk]:
    """What `rank` has after `collective` over buffers of `elements` elements, where the root is
    rank 0.

    After a reduce-scatter or a scatter that is one chunk of `ranks`; after a barrier, or a reduce
    or gather elsewhere than at the root, it is nothing.
    """
    return PROMISES[collective](rank, ranks, elements)


def chunk(rank: int | None, number: int, ranks: int, elements: int) -> Chunk:
    """One chunk of a buffer that is cut into `ranks` chunks."""
    size = elements // ranks
    return Chunk(rank, number * size, (number + 1) * size)


def _gathered(rank: int, ranks: int, elements: int) -> list[Chunk]:
    return [chunk(source, source, ranks, elements) for source in range(ranks)]


def _exchanged(rank: int, ranks: int, elements: int) -> list[Chunk]:
    return [chunk(source, rank, ranks, elements) for source in range(ranks)]


PROMISES: dict[str, Callable[[int, int, int], list[Chunk]]] = {
    "all_reduce": lambda rank, ranks, elements: [Chunk(None, 0, elements)],
    "all_gather": _gathered,
    "reduce_scatter": lambda rank, ranks, elements: [chunk(None, rank, ranks, elements)],
    "broadcast": lambda rank, ranks, elements: [Chunk(0, 0, elements)],
    "reduce": lambda rank, ranks, elements: [] if rank else [Chunk(None, 0, elements)],
    "scatter": lambda rank, ranks, elements: [chunk(0, rank, ranks, elements)],
    "gather": lambda rank, ranks, elements: [] if rank else _gathered(rank, ranks, elements),
    "all_to_all": _exchanged,
    "send_recv": lambda rank, ranks, elements: [Chunk((rank - 1) % ranks, 0, elements)],
    "barrier": lambda rank, ranks, elements: [],
}
"""The library's collectives, and the result of each."""
