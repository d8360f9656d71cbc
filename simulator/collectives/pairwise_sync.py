"""All-to-all by pairs, step by step: a rank exchanges blocks with a few peers at a time."""

import numpy as np

from simulator.collectives.collective import ALL_TO_ALL, declare
from simulator.collectives.layouts import by_place, chunked
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Shifts, rotations
from topologies.topology import Ints


@declare("pairwise_sync", ALL_TO_ALL, servers.pairwise_sync, shifts=rotations, by_place=True)
def pairwise_sync_all_to_all(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    window: int = 1,
    per_node: int = 1,
) -> Schedule:
    """Every rank exchanges blocks with one peer after the other. In step k it sends to r+k and
    receives from r-k. A step begins when the rank and its peer have sent and received all of the
    step that is `window` steps before.

    A window of 1 is MPI's blocking sendrecv. Open MPI's linear_sync has a window of several.
    """
    pairs = chunked(ranks, nbytes, shifts, inboxes=True, phase="exchange")
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
