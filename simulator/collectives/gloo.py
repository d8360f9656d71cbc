"""Gloo's all-reduce: a ring of segments, two in flight, each sent only when its receiver is ready for it.

After `ring` in gloo/allreduce.cc and `Pair::send`, `Pair::recv` in gloo/transport/tcp/pair.cc.
"""

import numpy as np

from simulator import cost_models
from simulator.builder import ScheduleBuilder
from simulator.collectives.collective import ALL_REDUCE, Algorithm
from simulator.schedule import Schedule
from topologies.topology import Ints


def gloo_ring_all_reduce(ranks: int, nbytes: float, *, segments: int = 2) -> Schedule:
    """A reduce-scatter, then an all-gather, round a ring from rank r to r - 1, of `segments` segments a chunk: gloo
    takes two, or as many of at most 1 MiB as are needed.

    A rank goes through its segments in order. Before it posts the receive and the send of one it waits until those of
    the one before the last are done, for it has two inboxes; before the first all-gathered it waits for all. To post a
    receive is to tell the sender; data leave when the sender has heard of it, and has posted the send itself.

    >>> gloo_ring_all_reduce(4, 4096.0).volume
    24576.0
    """
    slots = ranks * segments
    ring = ScheduleBuilder(ranks, nbytes, slots=slots)
    rank = np.arange(ranks)
    behind, ahead = (rank - 1) % ranks, (rank + 1) % ranks
    done: list[Ints] = []
    for phase, move, first in (("reduce-scatter", ring.reduce, rank + 1), ("all-gather", ring.copy, rank)):
        ring.phase(phase)
        before = done[-2:]
        for segment in range(slots - segments):
            waits = done[-2:-1] if segment > 1 else before
            posted = np.stack([column for sent in waits for column in (sent[ahead], sent)], axis=1) if waits else ()
            ready = ring.signal(rank, ahead, after=posted)
            after = np.column_stack((ready[behind], posted)) if waits else ready[behind, None]
            done.append(move(rank, behind, slot=(first * segments + segment) % slots, after=after))
    return ring.build()


ALGORITHMS = (
    Algorithm(
        "gloo_ring",
        ALL_REDUCE,
        gloo_ring_all_reduce,
        cost_models.GLOO_RING,
        "gloo's: a ring of segments, each sent when its receiver says that it is ready",
    ),
)
