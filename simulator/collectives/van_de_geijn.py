"""Van de Geijn's broadcast: a binomial scatter, then an all-gather, so that long messages cross a
port about twice.

Both sides of an exchange wait for each other, as with MPI's blocking sendrecv. Rank 0 and other
ranks that scatter have some chunks before the all-gather. MPICH and Open MPI send them again; here
such a message is empty, which takes the same time in all.
"""

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import BROADCAST, Algorithm
from simulator.collectives.scatter_gather import scatter_chunks
from simulator.cost_models import log2_floor, scatter_formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Ints

Numbers = npt.NDArray[np.integer]
Flags = npt.NDArray[np.bool_]


def scatter_ring_broadcast(ranks: int, nbytes: float) -> Schedule:
    """The all-gather goes round a ring.

    >>> scatter_ring_broadcast(4, 4096.0).steps
    5
    """
    vector = ScheduleBuilder(ranks, nbytes, slots=ranks)
    done, rank = scatter_chunks(vector, ranks), np.arange(ranks)
    vector.phase("all-gather")
    before, after = np.roll(rank, 1), np.roll(rank, -1)
    for step in range(ranks - 1):
        chunk = (rank - step) % ranks
        known = (chunk > after) & (chunk < after + _subtree(after, ranks))
        sent = _exchange(vector, after, chunk, 1, known, np.hstack((done, done[after])))
        done = np.stack((sent, sent[before]), axis=1)
    return vector.build()


def scatter_doubling_broadcast(ranks: int, nbytes: float) -> Schedule:
    """The all-gather is recursive doubling among q = 2^⌊log2 p⌋ ranks. Each of the others gets
    V from one of them at the end."""
    rounds = log2_floor(ranks)
    members, extra = 1 << rounds, np.arange(1 << rounds, ranks)
    vector = ScheduleBuilder(ranks, nbytes, slots=members)
    done, rank = scatter_chunks(vector, members), np.arange(members)
    vector.phase("all-gather")
    for level in range(rounds):
        peer, first = rank ^ (1 << level), rank >> level << level
        known = peer % (2 << level) == 0
        sent = _exchange(vector, peer, first, 1 << level, known, np.hstack((done, done[peer])))
        done = np.stack((sent, sent[peer]), axis=1)
    vector.phase("unfold")
    vector.copy(extra - members, extra, slot=0, count=members, after=done[: len(extra)])
    return vector.build()


def _subtree(rank: Numbers, members: int) -> Numbers:
    """How many ranks got their chunks through a rank, itself included."""
    return np.where(rank == 0, members, np.minimum(rank & -rank, members - rank))


def _exchange(
    vector: ScheduleBuilder, peer: Numbers, slot: Numbers, count: int, known: Flags, after: Ints
) -> Ints:
    """All ranks send chunks to their peers, and an empty message where the peer has them."""
    rank, new = np.arange(len(peer)), ~known
    sent = np.empty(len(rank), dtype=np.int32)
    sent[new] = vector.copy(rank[new], peer[new], slot=slot[new], count=count, after=after[new])
    sent[known] = vector.signal(rank[known], peer[known], after=after[known])
    return sent


ALGORITHMS = (
    Algorithm(
        "scatter_allgather_broadcast",
        BROADCAST,
        scatter_doubling_broadcast,
        scatter_formulas.SCATTER_DOUBLING_BROADCAST,
        "van de Geijn: a scatter, then recursive doubling",
    ),
    Algorithm(
        "scatter_allgather_ring_broadcast",
        BROADCAST,
        scatter_ring_broadcast,
        scatter_formulas.SCATTER_RING_BROADCAST,
        "van de Geijn: a scatter, then round a ring",
    ),
)
