"""Several chains at once, each along one of the rings for the machine: over all its NICs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from simulator.collectives.collective import BROADCAST, REDUCE, Algorithm, Fitted
from simulator.collectives.rings import Orders, ring_words, rings_of
from simulator.cost_models import CostModel, neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.whole_numbers import Column
from topologies.ring_search import Rings
from topologies.topology import Topology

PIECES = 256


def chains_broadcast(
    ranks: int, nbytes: float, orders: Orders | None = None, *, segments: int = PIECES
) -> Schedule:
    """Each chain starts at rank 0, passes on its share of V, and ends before rank 0 again. NCCL
    broadcasts so in the rings of its channels.

    `orders` are the ranks round each ring, shape (rings, ranks); by default one ring, in rank
    order. V goes in `segments` pieces, or in as many more as give each chain equally many.

    >>> chains_broadcast(4, 4096.0, np.array([[0, 1, 2, 3], [1, 0, 3, 2]])).sent().tolist()
    [4096.0, 2048.0, 4096.0, 2048.0]
    """
    chains, pieces = _chains(ranks, orders, segments)
    builder = ScheduleBuilder(ranks, nbytes, slots=pieces.size, phase="broadcast")
    for place in range(ranks - 1):
        _pass(builder.copy, chains, pieces, place, place + 1)
    return builder.build()


def chains_reduce(
    ranks: int, nbytes: float, orders: Orders | None = None, *, segments: int = PIECES
) -> Schedule:
    """The reverse of :func:`chains_broadcast`: every rank adds its data to each piece that
    comes."""
    chains, pieces = _chains(ranks, orders, segments)
    builder = ScheduleBuilder(ranks, nbytes, slots=pieces.size, phase="reduce")
    for place in range(ranks - 1, 0, -1):
        _pass(builder.reduce, chains, pieces, place, place - 1)
    return builder.build()


def _chains(ranks: int, orders: Orders | None, segments: int) -> tuple[Orders, Orders]:
    """The ranks along each chain, shape (chains, ranks), and the slots of the pieces of each, shape
    (pieces of a chain, chains)."""
    rings = np.arange(ranks)[None, :] if orders is None else orders
    chains = np.stack([np.roll(ring, -int(np.argmin(ring))) for ring in rings])
    count = len(chains)
    return chains, np.arange(-(-segments // count) * count).reshape(-1, count)


def _pass(
    send: Callable[..., Column], chains: Orders, pieces: Orders, sender: int, receiver: int
) -> None:
    """All pieces go from the rank at one place of each chain to the rank at another."""
    channel = np.arange(len(chains))
    send(chains[:, sender], chains[:, receiver], slot=pieces, channel=channel)


def fit(
    write: Callable[..., Schedule],
    formula: Callable[[int], CostModel],
    topology: Topology,
    ranks: int,
    nbytes: float,
    *,
    segments: int = PIECES,
) -> Fitted:
    """The chains along the rings that :func:`topologies.ring_search.find_rings` finds."""
    rings = _rings(topology, ranks)
    count = len(rings.orders)
    cost = neighbors.rings(formula(-(-segments // count)), rings.bandwidth, count)
    schedule = write(ranks, nbytes, rings.orders, segments=segments)
    return Fitted(schedule, topology, cost, ring_words(rings.orders))


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


ALGORITHMS = (
    Algorithm(
        "chains_broadcast",
        BROADCAST,
        chains_broadcast,
        neighbors.chain_broadcast,
        "several chains at once, chosen for the machine's links and NICs",
        fit=partial(fit, chains_broadcast, neighbors.chain_broadcast),
    ),
    Algorithm(
        "chains_reduce",
        REDUCE,
        chains_reduce,
        neighbors.chain_reduce,
        "the reduction of chains to rank 0",
        fit=partial(fit, chains_reduce, neighbors.chain_reduce),
    ),
)
