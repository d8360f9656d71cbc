"""Scans: rank r gets the sum over ranks 0 to r (inclusive), or 0 to r - 1 (exclusive)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Algorithm, Collective, Pairs, others, whole
from simulator.cost_models import log2_ceil, neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import Chosen, Data, Promise

PIECES = 64


def chain_scan(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """Rank r adds its data to each piece that comes from rank r - 1, and passes the sum on.

    >>> chain_scan(4, 4096.0).sent().tolist()
    [4096.0, 4096.0, 4096.0, 0.0]
    """
    chain = ScheduleBuilder(ranks, nbytes, slots=segments, phase="scan")
    for rank in range(ranks - 1):
        chain.reduce(rank, rank + 1, slot=np.arange(segments))
    return chain.build()


def chain_exscan(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """The same with a second buffer: what comes from rank r - 1 is the result, and the sum with
    the data of rank r goes on."""
    chain = ScheduleBuilder(ranks, nbytes, slots=segments, scratch=segments, phase="scan")
    piece, rank = np.arange(segments), np.arange(ranks - 1)[:, None]
    chain.copy(rank, rank, slot=piece, target=segments + piece)
    for sender in range(ranks - 1):
        chain.copy(sender, sender + 1, slot=segments + piece, target=piece)
        if sender + 2 < ranks:
            chain.reduce(sender + 1, sender + 1, slot=piece, target=segments + piece)
    return chain.build()


def doubling_scan(ranks: int, nbytes: float) -> Schedule:
    """In round k rank r sends its sum to rank r + 2^k: ⌈log2 p⌉ rounds of all data."""
    scan = ScheduleBuilder(ranks, nbytes, scratch=1)
    for level in range(log2_ceil(ranks)):
        rank = np.arange(ranks - (1 << level))
        peer = rank + (1 << level)
        scan.phase(f"round {level}")
        scan.copy(rank, peer, slot=0, target=1)
        scan.reduce(peer, peer, slot=1, target=0)
    return scan.build()


def _inclusive(before: Data, chosen: Chosen = None) -> Promise:
    return np.ones(before.shape, dtype=np.bool_), np.cumsum(before, axis=0, dtype=np.uint64)


def _exclusive(before: Data, chosen: Chosen = None) -> Promise:
    promised = np.ones(before.shape, dtype=np.bool_)
    promised[0] = False
    return promised, np.cumsum(before, axis=0, dtype=np.uint64) - before


def _next(ranks: int) -> Pairs:
    """What one rank needs of the one before stands for all that it needs of those before."""
    rank = np.arange(ranks - 1)
    return Pairs(rank, rank + 1, np.ones(len(rank)))


def _sends(ranks: int) -> npt.NDArray[np.float64]:
    return np.asarray(np.arange(ranks) < ranks - 1, dtype=np.float64)


def _receives(ranks: int) -> npt.NDArray[np.float64]:
    return np.asarray(np.arange(ranks) > 0, dtype=np.float64)


SCAN = Collective("scan", _inclusive, whole, others, _sends, _receives, pairs=_next, merges=True)
EXSCAN = Collective(
    "exscan", _exclusive, whole, others, _sends, _receives, pairs=_next, merges=True
)

ALGORITHMS = (
    Algorithm(
        "chain_scan",
        SCAN,
        chain_scan,
        neighbors.chain_scan,
        "from rank to rank in a line, in pieces",
    ),
    Algorithm(
        "doubling_scan",
        SCAN,
        doubling_scan,
        neighbors.DOUBLING_SCAN,
        "in round k every rank sends its sum to the rank 2^k ahead",
    ),
    Algorithm(
        "chain_exscan",
        EXSCAN,
        chain_exscan,
        neighbors.chain_exscan,
        "from rank to rank in a line, in pieces; a rank's data count from the next rank on",
    ),
)
