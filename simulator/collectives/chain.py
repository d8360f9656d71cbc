"""Chain: the ranks in a row, rank 0 at one end of it, V in pieces that follow one another."""

import numpy as np

from simulator import cost_models
from simulator.builder import ScheduleBuilder
from simulator.collectives.collective import ALL_REDUCE, BROADCAST, REDUCE, Algorithm
from simulator.schedule import Schedule
from topologies.topology import Ints

PIECES = 64


def chain_broadcast(ranks: int, nbytes: float, *, pieces: int = PIECES) -> Schedule:
    """Rank r passes each piece on to rank r + 1 as soon as it has it: NCCL's ring, when it broadcasts.

    >>> chain_broadcast(4, 4096.0).sent().tolist()
    [4096.0, 4096.0, 4096.0, 0.0]
    """
    chain = ScheduleBuilder(ranks, nbytes, slots=pieces)
    _broadcast(chain)
    return chain.build()


def chain_reduce(ranks: int, nbytes: float, *, pieces: int = PIECES) -> Schedule:
    """Rank r adds its own to each piece on its way from rank r + 1 to rank r - 1."""
    chain = ScheduleBuilder(ranks, nbytes, slots=pieces)
    _reduce(chain)
    return chain.build()


def chain_all_reduce(ranks: int, nbytes: float, *, pieces: int = PIECES) -> Schedule:
    """A reduce, and when rank 0 has all of it a broadcast: what Open MPI calls nonoverlapping, of long messages."""
    chain = ScheduleBuilder(ranks, nbytes, slots=pieces)
    _broadcast(chain, after=_reduce(chain))
    return chain.build()


def _reduce(chain: ScheduleBuilder) -> Ints:
    """The operations that bring rank 0 the last."""
    chain.phase("reduce")
    last: Ints = np.zeros(0, dtype=np.int32)
    for rank in range(chain.ranks - 1, 0, -1):
        last = chain.reduce(rank, rank - 1, slot=np.arange(chain.buffer))
    return last


def _broadcast(chain: ScheduleBuilder, after: Ints | tuple[()] = ()) -> None:
    chain.phase("broadcast")
    for rank in range(chain.ranks - 1):
        chain.copy(rank, rank + 1, slot=np.arange(chain.buffer), after=after if rank == 0 else ())


ALGORITHMS = (
    Algorithm(
        "chain",
        ALL_REDUCE,
        chain_all_reduce,
        cost_models.chain_all_reduce(PIECES),
        "added to along a row of ranks, in pieces, then passed back",
    ),
    Algorithm(
        "chain_broadcast",
        BROADCAST,
        chain_broadcast,
        cost_models.chain_broadcast(PIECES),
        "passed on from rank to rank, in pieces",
    ),
    Algorithm(
        "chain_reduce",
        REDUCE,
        chain_reduce,
        cost_models.chain_reduce(PIECES),
        "added to from rank to rank, in pieces, towards rank 0",
    ),
)
