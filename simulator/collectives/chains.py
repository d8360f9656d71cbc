"""Several chains at once, each along one of the rings for the machine: over all its NICs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from simulator.collectives.chain import chain_broadcast, chain_reduce
from simulator.collectives.collective import BROADCAST, REDUCE, Algorithm, Fitted
from simulator.collectives.rings import ring_words, rings_of
from simulator.cost_models import CostModel, neighbors
from simulator.schedules.schedule import Schedule
from topologies.ring_search import Rings
from topologies.topology import Topology

PIECES = 256


chains_broadcast = partial(chain_broadcast, segments=PIECES)
chains_reduce = partial(chain_reduce, segments=PIECES)


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
