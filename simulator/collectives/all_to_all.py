"""All-to-all by pairs: rank r sends block d to rank d."""

from functools import partial

import numpy as np

from simulator.collectives.collective import ALL_TO_ALL, Algorithm
from simulator.collectives.places import by_place
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Move, Shifts, fold, rotations
from topologies.topology import Ints


def pairwise_all_to_all(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, way: int = 1, per_node: int = 1
) -> Schedule:
    """All sends are posted at once, to the peers r+1, r+2, ..., or with a `way` of -1 to r-1, r-2,
    ... Blocks arrive in scratch. A rank copies them to their places when it has sent everything."""
    pairs = exchange(ranks, nbytes, shifts)
    rank, turn = by_place(pairs, per_node), way * np.arange(1, ranks)[:, None, None]
    peer, origin = (rank + turn) % ranks, (rank - turn) % ranks
    pairs.copy(rank, peer, slot=peer, target=ranks + rank, steps=2)
    pairs.phase("unpack")
    pairs.copy(rank, rank, slot=ranks + origin, target=origin, steps=2)
    return pairs.build()


def pairwise_sync_all_to_all(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    window: int = 1,
    per_node: int = 1,
) -> Schedule:
    """In step k rank r sends to r+k and receives from r-k. A step begins when the rank and its peer
    have sent and received all of the step that is `window` steps before.

    A window of 1 is MPI's blocking sendrecv. Open MPI's linear_sync has a window of several.
    """
    pairs = exchange(ranks, nbytes, shifts)
    rank, done = by_place(pairs, per_node), list[Ints]()
    number = np.empty(rank.size, np.int32)
    number[pairs.place(rank)] = np.arange(rank.size).reshape(rank.shape)
    for turn in range(1, ranks):
        peer, origin = (rank + turn) % ranks, (rank - turn) % ranks
        posted = done[turn - 1 - window] if turn > window else np.zeros((rank.size, 0), np.int32)
        after = np.hstack((posted, posted[number[pairs.place(peer)].ravel()]))
        sent = pairs.copy(rank, peer, slot=peer, target=ranks + rank, after=after, steps=1)
        done.append(np.stack((sent, sent[number[pairs.place(origin)].ravel()]), axis=1))
    pairs.phase("unpack")
    origin = (rank - np.arange(1, ranks)[:, None, None]) % ranks
    pairs.copy(rank, rank, slot=ranks + origin, target=origin, steps=2)
    return pairs.build()


def exchange(ranks: int, nbytes: float, shifts: Shifts | None) -> ScheduleBuilder:
    """A builder for blocks that arrive in scratch."""
    moves = [Move(axis=0, first=first, inner=1, end=first + ranks) for first in (0, ranks)]
    return ScheduleBuilder(
        fold(ranks, shifts, *moves), nbytes, slots=ranks, scratch=ranks, phase="exchange"
    )


ALGORITHMS = (
    Algorithm(
        "pairwise",
        ALL_TO_ALL,
        pairwise_all_to_all,
        servers.PAIRWISE_ALL_TO_ALL,
        "every rank sends every other rank its block",
        shifts=rotations,
        by_place=True,
        operations=lambda ranks: 2.0 * ranks * (ranks - 1),
    ),
    Algorithm(
        "pairwise_sync",
        ALL_TO_ALL,
        pairwise_sync_all_to_all,
        servers.pairwise_sync,
        "every rank exchanges blocks with one peer after the other",
        shifts=rotations,
        by_place=True,
    ),
    Algorithm(
        "linear_all_to_all",
        ALL_TO_ALL,
        partial(pairwise_all_to_all, way=-1),
        servers.LINEAR_ALL_TO_ALL,
        "as pairwise, in the order of Open MPI's linear",
        shifts=rotations,
        by_place=True,
    ),
)
