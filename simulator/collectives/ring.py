"""Ring: p - 1 steps in which every rank sends one chunk to the next rank."""

from functools import partial

import numpy as np

from simulator.collectives.collective import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, declare
from simulator.collectives.layouts import chunked, parts_of
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Shifts, rotations


@declare(
    "ring",
    ALL_REDUCE,
    neighbors.ring_all_reduce,
    shifts=rotations,
    operations=lambda ranks: 2.0 * ranks * (ranks - 1),
)
def ring(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    scatters: bool = True,
    gathers: bool = True,
    channels: int = 1,
    segments: int = 1,
    ways: int = 1,
) -> Schedule:
    """Reduce-scatter, then all-gather, round a ring.

    A ring that `scatters` takes every chunk once round to its owner, and every rank adds its data.
    A ring that `gathers` takes every chunk once round from its owner. Each part of a chunk goes its
    way, and a rank passes it on as soon as it has it (:func:`parts_of` cuts the parts).

    >>> ring(4, 4096.0, gathers=False).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    part, channel, way = parts_of(channels, segments, ways)
    builder = chunked(ranks, nbytes, shifts, len(part))
    rank, step = builder.each(), np.arange(ranks - 1)[:, None, None]
    peer = (rank + way) % ranks
    if scatters:
        builder.phase("reduce-scatter")
        chunk = (rank - way * (step + 1)) % ranks
        builder.reduce(rank, peer, slot=chunk * len(part) + part, channel=channel, steps=2)
    if gathers:
        builder.phase("all-gather")
        chunk = (rank - way * step) % ranks
        builder.copy(rank, peer, slot=chunk * len(part) + part, channel=channel, steps=2)
    return builder.build()


ring_all_reduce = ring
ring_reduce_scatter = declare(
    "ring_reduce_scatter",
    REDUCE_SCATTER,
    neighbors.ring_reduce_scatter,
    "Each chunk goes round a ring and grows at every rank",
    shifts=rotations,
    operations=lambda ranks: ranks * (ranks - 1.0),
)(partial(ring, gathers=False))
ring_all_gather = declare(
    "ring_all_gather",
    ALL_GATHER,
    neighbors.ring_all_gather,
    "Each chunk goes round a ring",
    shifts=rotations,
    operations=lambda ranks: ranks * (ranks - 1.0),
)(partial(ring, scatters=False))
