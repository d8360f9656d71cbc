"""PAT, parallel aggregated trees: ⌈log2 p⌉ rounds for any number p of ranks.

After Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale,
arXiv 2506.20252. NCCL has it since 2.23. Every chunk goes down a binomial tree of its own, to far
peers first, so that large messages stay near. The chunks that a rank passes on in a round are
packed into messages of at most `chunks` chunks.
"""

import numpy as np
import numpy.typing as npt

from simulator.collectives.chunk_parts import chunked
from simulator.collectives.collective import ALL_GATHER, REDUCE_SCATTER, Algorithm
from simulator.cost_models import log2_ceil, pat_formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, rotations
from topologies.topology import Ints

Numbers = npt.NDArray[np.integer]

ALL = 2**20
"""As many chunks as there are."""


def pat_all_gather(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, chunks: int = ALL
) -> Schedule:
    """In the round of bit k, rank r sends to r + 2^k the chunks of ranks r - j, for all multiples j
    of 2^(k+1).

    >>> pat_all_gather(6, 600.0).sent().tolist()
    [500.0, 500.0, 500.0, 500.0, 500.0, 500.0]
    """
    return _pat(ranks, nbytes, shifts, chunks, reduces=False)


def pat_reduce_scatter(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, chunks: int = ALL
) -> Schedule:
    """The all-gather backwards: near peers first, and partial sums instead of chunks."""
    return _pat(ranks, nbytes, shifts, chunks, reduces=True)


def _pat(
    ranks: int, nbytes: float, shifts: Shifts | None, chunks: int, *, reduces: bool
) -> Schedule:
    pat = chunked(ranks, nbytes, shifts, scratch=2 * ranks)
    levels, after = range(log2_ceil(ranks)), np.zeros((len(pat.each()), 0), dtype=np.int32)
    first = ranks
    for level in levels if reduces else reversed(levels):
        distance = np.arange(0, ranks - (1 << level), 2 << level)[:, None]
        after = _round(pat, level, distance, first, chunks, after, reduces=reduces)
        first += len(distance)
    return pat.build()


def _round(
    pat: ScheduleBuilder,
    level: int,
    distance: Numbers,
    first: int,
    chunks: int,
    after: Ints,
    *,
    reduces: bool,
) -> Ints:
    """Every rank sends chunks over 2^level ranks, by their distances from their owners. They are
    packed in scratch from slot `first` on.

    Returns for every rank what it sent, received and unpacked, shape (ranks, operations).
    """
    ranks, rank, count, step = pat.ranks, pat.each(), len(distance), 1 << level
    way, far = (-1, step) if reduces else (1, 0)
    peer, sender = (rank + way * step) % ranks, (rank - way * step) % ranks
    packed = first + np.arange(count)[:, None]
    inbox = packed + ranks
    pat.phase("pack")
    pat.copy(rank, rank, slot=(rank - distance - far) % ranks, target=packed, steps=True)
    pat.phase("reduce-scatter" if reduces else "all-gather")
    done = []
    for begin in range(first, first + count, chunks):
        size = min(chunks, first + count - begin)
        sent = pat.copy(rank, peer, slot=begin, target=begin + ranks, count=size, after=after)
        done += [sent, sent[pat.place(sender)]]
    pat.phase("unpack")
    unpack = pat.reduce if reduces else pat.copy
    target = (rank - distance - (step - far)) % ranks
    unpacked = unpack(rank, rank, slot=inbox, target=target, steps=True)
    return np.stack((*done, *unpacked.reshape(count, -1)), axis=1)


def _operations(ranks: int, chunks: int = ALL) -> float:
    """A chunk is packed and unpacked for each peer; a message has up to `chunks` of them."""
    sizes = (len(range(0, ranks - (1 << level), 2 << level)) for level in range(log2_ceil(ranks)))
    return ranks * (2 * (ranks - 1) + sum(-(-size // chunks) for size in sizes))


ALGORITHMS = (
    Algorithm(
        "pat_all_gather",
        ALL_GATHER,
        pat_all_gather,
        pat_formulas.all_gather,
        "a binomial tree for each chunk, chunks aggregated, far peers first",
        shifts=rotations,
        operations=_operations,
    ),
    Algorithm(
        "pat_reduce_scatter",
        REDUCE_SCATTER,
        pat_reduce_scatter,
        pat_formulas.reduce_scatter,
        "the all-gather of PAT backwards, with additions",
        shifts=rotations,
        operations=_operations,
    ),
)
