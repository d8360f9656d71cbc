"""Which ranks have surely entered a collective when a rank leaves it: what a barrier is about."""

from __future__ import annotations

import numpy as np

from simulator.schedules.schedule import Schedule
from topologies.topology import Ints


def absent(schedule: Schedule, order: Ints | None = None) -> list[Ints]:
    """For each worker, the workers that may not have entered when it leaves.

    A rank leaves when everything that is sent to it has arrived. A message tells its receiver of
    all ranks of which its sender has heard: of those whose messages it waited for. Messages that it
    waits for and that went to other ranks tell it nothing. `order` may leave operations out.

    >>> from simulator.collectives import find
    >>> [ranks.tolist() for ranks in absent(find("tree_reduce").build(3, 1.0))]
    [[], [0], [0, 1]]
    """
    heard = [1 << rank for rank in range(schedule.ranks)]
    told = [0] * len(schedule)
    ranks, peers = schedule.rank.tolist(), schedule.peer.tolist()
    indptr, indices = schedule.indptr.tolist(), schedule.indices.tolist()
    for i in range(len(schedule)) if order is None else order.tolist():
        sender = ranks[i]
        news = 1 << sender
        for earlier in indices[indptr[i] : indptr[i + 1]]:
            if sender in (peers[earlier], ranks[earlier]):
                news |= told[earlier]
        told[i] = news
        heard[peers[i]] |= news
    workers = np.arange(schedule.workers, dtype=np.int32)
    return [
        workers[[not heard[rank] >> worker & 1 for worker in range(schedule.workers)]]
        for rank in range(schedule.workers)
    ]
