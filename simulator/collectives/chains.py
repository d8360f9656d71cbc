"""Chains: the ranks in a row with rank 0 at one end. V goes in pieces that follow one another.

Several chains at once go each along one of the rings for the machine, over all its NICs. A scan is
a chain whose rank r gets the sum over ranks 0 to r, or, if it is exclusive, 0 to r - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from simulator.collectives.collective import (
    BROADCAST,
    REDUCE,
    Collective,
    Fitted,
    Pairs,
    declare,
    others,
    whole,
)
from simulator.collectives.rings import ring_words, rings_of
from simulator.cost_models import CostModel, log2_ceil, neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import Chosen, Data, Promise
from topologies.ring_search import Rings
from topologies.topology import Floats, Numbers, Topology


@declare("chain_broadcast", BROADCAST, neighbors.chain_broadcast)
def chain_broadcast(
    ranks: int, nbytes: float, orders: Numbers | None = None, *, segments: int = 64
) -> Schedule:
    """From rank to rank in a line, in pieces. NCCL broadcasts so and calls it Ring.

    `orders` are the ranks round several rings, shape (rings, ranks); by default one ring, in rank
    order. Along each ring there is a chain from rank 0, for a share of V. V goes in `segments`
    pieces, or in as many more as give each chain equally many.

    >>> chain_broadcast(4, 4096.0).sent().tolist()
    [4096.0, 4096.0, 4096.0, 0.0]
    >>> chain_broadcast(4, 4096.0, np.array([[0, 1, 2, 3], [1, 0, 3, 2]])).sent().tolist()
    [4096.0, 2048.0, 4096.0, 2048.0]
    """
    chains, pieces = _chains(ranks, orders, segments)
    builder = ScheduleBuilder(ranks, nbytes, slots=pieces.size, phase="broadcast")
    for place in range(ranks - 1):
        _pass(builder.copy, chains, pieces, place, place + 1)
    return builder.build()


@declare("chain_reduce", REDUCE, neighbors.chain_reduce)
def chain_reduce(
    ranks: int, nbytes: float, orders: Numbers | None = None, *, segments: int = 64
) -> Schedule:
    """From rank to rank in a line to rank 0, in pieces."""
    chains, pieces = _chains(ranks, orders, segments)
    builder = ScheduleBuilder(ranks, nbytes, slots=pieces.size, phase="reduce")
    for place in range(ranks - 1, 0, -1):
        _pass(builder.reduce, chains, pieces, place, place - 1)
    return builder.build()


def _chains(ranks: int, orders: Numbers | None, segments: int) -> tuple[Numbers, Numbers]:
    """The ranks along each chain, shape (chains, ranks), and the slots of the pieces of each, shape
    (pieces of a chain, chains)."""
    rings = np.arange(ranks)[None, :] if orders is None else orders
    chains = np.stack([np.roll(ring, -int(np.argmin(ring))) for ring in rings])
    count = len(chains)
    return chains, np.arange(-(-segments // count) * count).reshape(-1, count)


def _pass(
    send: Callable[..., Numbers], chains: Numbers, pieces: Numbers, sender: int, receiver: int
) -> None:
    """All pieces go from the rank at one place of each chain to the rank at another."""
    channel = np.arange(len(chains))
    send(chains[:, sender], chains[:, receiver], slot=pieces, channel=channel)


CHAINED_PIECES = 256


def fit(
    write: Callable[..., Schedule],
    formula: Callable[[int], CostModel],
    topology: Topology,
    ranks: int,
    nbytes: float,
    *,
    segments: int = CHAINED_PIECES,
) -> Fitted:
    """The chains along the rings that :func:`topologies.ring_search.find_rings` finds."""
    rings = _rings(topology, ranks)
    count = len(rings.orders)
    cost = neighbors.rings(formula(-(-segments // count)), rings.bandwidth, count)
    schedule = write(ranks, nbytes, rings.orders, segments=segments)
    return Fitted(schedule, topology, cost, ring_words(rings.orders))


def _along_rings(
    name: str,
    collective: Collective,
    write: Callable[..., Schedule],
    formula: Callable[[int], CostModel],
    summary: str,
) -> Callable[..., Schedule]:
    chains = partial(write, segments=CHAINED_PIECES)
    return declare(name, collective, formula, summary, fit=partial(fit, chains, formula))(chains)


chains_broadcast = _along_rings(
    "chains_broadcast",
    BROADCAST,
    chain_broadcast,
    neighbors.chain_broadcast,
    "Several chains at once, chosen for the machine's links and NICs",
)
chains_reduce = _along_rings(
    "chains_reduce",
    REDUCE,
    chain_reduce,
    neighbors.chain_reduce,
    "The reduction of chains to rank 0",
)


def _rings(topology: Topology, ranks: int) -> Rings:
    """The rings for the machine, the same whichever rank is the root: the search looks at ranks in
    the order of their devices."""
    order = np.argsort(topology.placement[:ranks], kind="stable").astype(np.int32)
    if (order == np.arange(ranks)).all():
        return rings_of(topology, ranks)
    placement = topology.placement.copy()
    placement[:ranks] = placement[order]
    rings = rings_of(replace(topology, placement=placement), ranks)
    return replace(rings, orders=order[rings.orders])


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


def _sends(ranks: int) -> Floats:
    return np.asarray(np.arange(ranks) < ranks - 1, dtype=np.float64)


def _receives(ranks: int) -> Floats:
    return np.asarray(np.arange(ranks) > 0, dtype=np.float64)


SCAN = Collective("scan", _inclusive, whole, others, _sends, _receives, pairs=_next, merges=True)
EXSCAN = Collective(
    "exscan", _exclusive, whole, others, _sends, _receives, pairs=_next, merges=True
)


@declare("chain_scan", SCAN, neighbors.chain_scan)
def chain_scan(ranks: int, nbytes: float, *, segments: int = 64) -> Schedule:
    """From rank to rank in a line, in pieces. A rank adds its data to each piece and passes it on.

    >>> chain_scan(4, 4096.0).sent().tolist()
    [4096.0, 4096.0, 4096.0, 0.0]
    """
    chain = ScheduleBuilder(ranks, nbytes, slots=segments, phase="scan")
    for rank in range(ranks - 1):
        chain.reduce(rank, rank + 1, slot=np.arange(segments))
    return chain.build()


@declare("chain_exscan", EXSCAN, neighbors.chain_exscan)
def chain_exscan(ranks: int, nbytes: float, *, segments: int = 64) -> Schedule:
    """From rank to rank in a line, in pieces; a rank's data count from the next rank on. So it has
    a second buffer: what comes from rank r - 1 is the result, and the sum with the data of rank r
    goes on."""
    chain = ScheduleBuilder(ranks, nbytes, slots=segments, scratch=segments, phase="scan")
    piece, rank = np.arange(segments), np.arange(ranks - 1)[:, None]
    chain.copy(rank, rank, slot=piece, target=segments + piece)
    for sender in range(ranks - 1):
        chain.copy(sender, sender + 1, slot=segments + piece, target=piece)
        if sender + 2 < ranks:
            chain.reduce(sender + 1, sender + 1, slot=piece, target=segments + piece)
    return chain.build()


@declare("doubling_scan", SCAN, neighbors.DOUBLING_SCAN)
def doubling_scan(ranks: int, nbytes: float) -> Schedule:
    """In round k every rank sends its sum to the rank 2^k ahead."""
    scan = ScheduleBuilder(ranks, nbytes, scratch=1)
    for level in range(log2_ceil(ranks)):
        rank = np.arange(ranks - (1 << level))
        peer = rank + (1 << level)
        scan.phase(f"round {level}")
        scan.copy(rank, peer, slot=0, target=1)
        scan.reduce(peer, peer, slot=1, target=0)
    return scan.build()
