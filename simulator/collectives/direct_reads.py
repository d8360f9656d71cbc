"""One-shot and two-shot all-reduce: ranks of one NVLink domain read the buffers of all others.

TensorRT-LLM, vLLM and FlashInfer use them for short messages. Before a rank reads, every rank tells
every other by a flag that its buffer is ready.
"""

import numpy as np

from simulator.collectives.chunk_parts import chunked
from simulator.collectives.collective import ALL_REDUCE, Algorithm
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, fold, rotations
from topologies.topology import Ints


def one_shot_all_reduce(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every rank reads V from every other rank, and adds it up."""
    shot = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=ranks - 1)
    ready = _flags(shot)
    shot.phase("read")
    rank = shot.each()
    for turn in range(1, ranks):
        peer = (rank + turn) % ranks
        after = ready[shot.place(peer), None]
        shot.copy(rank, peer, slot=0, target=ranks - turn, after=after)
    shot.phase("merge")
    turns = np.arange(1, ranks)[:, None]
    shot.reduce(rank, rank, slot=turns, target=0, steps=True)
    return shot.build()


def two_shot_all_reduce(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every rank reads its chunk from all others and adds it up. Then it reads their chunks."""
    shot = chunked(ranks, nbytes, shifts)
    ready, rank = _flags(shot), shot.each()
    shot.phase("reduce-scatter")
    added = []
    for turn in range(1, ranks):
        peer = (rank + turn) % ranks
        after = ready[shot.place(peer), None]
        sent = shot.reduce(rank, peer, slot=peer, after=after)
        added.append(sent[shot.place((rank - turn) % ranks)])
    ready = _flags(shot, np.stack(added, axis=1) if added else None)
    shot.phase("all-gather")
    for turn in range(1, ranks):
        peer = (rank + turn) % ranks
        shot.copy(rank, peer, slot=rank, after=ready[shot.place(peer), None])
    return shot.build()


def _flags(shot: ScheduleBuilder, after: Ints | None = None) -> Ints:
    """Every rank sends all others a flag, after some operations of its own. Returns for every rank
    the operation that ends when it has all flags."""
    shot.phase("flags")
    ranks, rank, came = shot.ranks, shot.each(), []
    for turn in range(1, ranks):
        sent = shot.signal(rank, (rank + turn) % ranks, after=() if after is None else after)
        came.append(sent[shot.place((rank - turn) % ranks)])
    return shot.signal(rank, rank, after=np.stack(came, axis=1) if came else ())


ALGORITHMS = (
    Algorithm(
        "one_shot",
        ALL_REDUCE,
        one_shot_all_reduce,
        servers.ONE_SHOT,
        "every rank reads all buffers and adds them up",
        shifts=rotations,
    ),
    Algorithm(
        "two_shot",
        ALL_REDUCE,
        two_shot_all_reduce,
        servers.TWO_SHOT,
        "every rank reads and adds up its chunk, then reads the others",
        shifts=rotations,
    ),
)
