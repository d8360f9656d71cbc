"""Split binary tree: each half of V goes down one half of a binary tree, then pairs of ranks
exchange their halves."""

import numpy as np

from simulator.collectives.collective import BROADCAST, Algorithm
from simulator.cost_models import trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder

PIECES = 16


def split_binary_broadcast(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """Each half of V is cut into `segments`. Odd ranks pass on pieces of the first half, even ranks
    pieces of the second half. Then ranks 2k - 1 and 2k exchange their halves. The last of an even
    number of ranks gets the second half from rank 0.

    Open MPI has the same tree (ompi/mca/coll/base/coll_base_topo.c): rank r of level k has the
    children r + 2^k and r + 2^(k+1).

    >>> split_binary_broadcast(4, 4096.0).sent().tolist()
    [6144.0, 4096.0, 2048.0, 0.0]
    """
    tree = ScheduleBuilder(ranks, nbytes, slots=2 * segments, phase="broadcast")
    piece = np.arange(segments)
    for rank in range(ranks):
        step = 1 << ((rank + 1).bit_length() - 1)
        child = np.array([peer for peer in (rank + step, rank + 2 * step) if peer < ranks])
        if child.size:
            slot = piece[:, None] + (segments * (1 - child % 2))[None, :]
            tree.copy(rank, np.tile(child, segments), slot=slot.ravel())
    tree.phase("exchange")
    first = np.arange(1, ranks, 2)
    second = (first + 1) % ranks
    tree.copy(second, first, slot=segments, count=segments)
    tree.copy(first[second > 0], second[second > 0], slot=0, count=segments)
    return tree.build()


ALGORITHMS = (
    Algorithm(
        "split_binary_broadcast",
        BROADCAST,
        split_binary_broadcast,
        trees.split_binary_broadcast,
        "halves of V down the halves of a binary tree, then exchanged",
    ),
)
