"""Bine's broadcast: a binomial tree whose messages cross up to a third less of the network.

After De Sensi et al., Bine trees, SC 2025, arXiv 2508.17311.
"""

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import BROADCAST, Algorithm
from simulator.cost_models import log2_floor, trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder

Numbers = npt.NDArray[np.int64]


def bine_broadcast(ranks: int, nbytes: float) -> Schedule:
    """Everyone who has V sends it to his peer: first over a third of q = 2^⌊log2 p⌋ ranks, then
    over half of that each time. The other ranks get V from those that got it last."""
    tree = ScheduleBuilder(ranks, nbytes, phase="broadcast")
    for parent, child in levels(ranks):
        tree.copy(parent, child, slot=0)
    return tree.build()


def levels(ranks: int) -> list[tuple[Numbers, Numbers]]:
    """The parents and the children of each level of the tree, from the root on."""
    have, pairs = np.zeros(1, dtype=np.int64), []
    for step in reversed(range(log2_floor(ranks))):
        peer = peers(have, step, 1 << log2_floor(ranks))
        pairs.append((have, peer))
        have = np.concatenate((have, peer))
    extra = np.arange(len(have), ranks)
    return [*pairs, (have[::-1][: len(extra)], extra)]


def peers(rank: Numbers, step: int, ranks: int) -> Numbers:
    """The peers of some ranks: 1, -1, 3, -5, 11, ... further, and as far back for odd ranks.

    >>> [peers(np.arange(2), step, 16).tolist() for step in range(4)]
    [[1, 0], [15, 2], [3, 14], [11, 6]]
    """
    distance = (1 - (-2) ** (step + 1)) // 3
    return np.asarray((rank + np.where(rank % 2, -distance, distance)) % ranks)


ALGORITHMS = (
    Algorithm(
        "bine_broadcast",
        BROADCAST,
        bine_broadcast,
        trees.BINE_BROADCAST,
        "a binomial tree over shorter distances",
    ),
)
