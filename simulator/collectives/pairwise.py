"""All-to-all by pairs: rank r sends block d to rank d."""

from functools import partial

import numpy as np

from simulator.collectives.collective import ALL_TO_ALL, declare
from simulator.collectives.layouts import by_place, chunked
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Shifts, rotations


@declare(
    "pairwise",
    ALL_TO_ALL,
    servers.PAIRWISE_ALL_TO_ALL,
    shifts=rotations,
    by_place=True,
    operations=lambda ranks: 2.0 * ranks * (ranks - 1),
)
def pairwise_all_to_all(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, way: int = 1, per_node: int = 1
) -> Schedule:
    """Every rank sends every other rank its block. All are posted at once, to r+1, r+2, ..., or
    with a `way` of -1 to r-1, r-2, ... Blocks arrive in scratch. A rank copies them to their places
    when it has sent everything."""
    pairs = chunked(ranks, nbytes, shifts, inboxes=True, phase="exchange")
    rank, turn = by_place(pairs, per_node), way * np.arange(1, ranks)[:, None, None]
    peer, origin = (rank + turn) % ranks, (rank - turn) % ranks
    pairs.copy(rank, peer, slot=peer, target=ranks + rank, steps=2)
    pairs.phase("unpack")
    pairs.copy(rank, rank, slot=ranks + origin, target=origin, steps=2)
    return pairs.build()


declare(
    "linear_all_to_all",
    ALL_TO_ALL,
    servers.LINEAR_ALL_TO_ALL,
    "As pairwise, in the order of Open MPI's linear",
    shifts=rotations,
    by_place=True,
)(partial(pairwise_all_to_all, way=-1))
