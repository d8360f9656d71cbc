"""Map-reduce: every rank maps its part, the results are shuffled by key, and every rank reduces the
keys that it owns. A reduce waits for the last map."""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import REDUCE_SCATTER, Algorithm, Collective
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder

MICROSECOND = 1e-6


def map_reduce(ranks: int, nbytes: float, *, map_us: int = 0, reduce_us: int = 0) -> Schedule:
    """A map and a reduce of so many microseconds on every rank, with a shuffle between them.

    The maps of a rank end before it sends. A rank reduces when the blocks of all ranks are there.
    """
    job = ScheduleBuilder(ranks, nbytes, slots=ranks, scratch=ranks - 1, phase="map")
    rank, turn = np.arange(ranks), np.arange(1, ranks)[:, None]
    maps = job.compute(rank, map_us * MICROSECOND)
    job.phase("shuffle")
    peer, inbox = (rank + turn) % ranks, ranks + turn - 1
    senders = np.broadcast_to(rank, peer.shape)
    sent = job.copy(senders, peer, slot=peer, target=inbox, after=maps[senders.ravel(), None])
    arrived = sent.reshape(ranks - 1, ranks)[turn.T - 1, (rank[:, None] - turn.T) % ranks]
    job.phase("reduce")
    waits = np.column_stack((maps, arrived))
    merged = [
        job.reduce(rank, rank, slot=ranks + k, target=rank, after=waits) for k in range(ranks - 1)
    ]
    job.compute(rank, reduce_us * MICROSECOND, after=np.column_stack((maps, *merged)))
    return job.build()


MAP_REDUCE = Collective(
    "map_reduce",
    REDUCE_SCATTER.postcondition,
    lambda p: 1.0,
    REDUCE_SCATTER.volume,
    REDUCE_SCATTER.sends,
    REDUCE_SCATTER.receives,
    even="reduce_scatter",
)

ALGORITHMS = (
    Algorithm(
        "map_reduce",
        MAP_REDUCE,
        map_reduce,
        servers.map_reduce,
        "every rank maps, all blocks are shuffled, every rank reduces its keys",
    ),
)
