"""Ring: p - 1 steps in which every rank sends one chunk to the next rank."""

from collections.abc import Callable
from functools import partial

import numpy as np

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    Algorithm,
)
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Move, Shifts, fold, rotations
from topologies.errors import InputError
from topologies.topology import Ints


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
    """A reduce-scatter, an all-gather, or one after the other. Chunk c of rank r is chunk c + k of
    rank r + k.

    - If a ring `scatters`, every chunk travels once round it to its owner. Every rank adds its data
      to it.
    - If a ring `gathers`, every chunk travels once round it from its owner.

    A chunk has an equal share for each of the `channels` and `ways`. With two ways the second half
    of the shares goes round in the other direction. A share is cut into `segments`, and a rank
    passes a segment on as soon as it has the segment.

    >>> ring(4, 4096.0, gathers=False).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    if ways > 2:
        raise InputError(f"ways is {ways}: a ring has 1 or 2")
    parts = channels * segments * ways
    moves = fold(ranks, shifts, Move(axis=0, first=0, inner=parts, end=parts * ranks))
    builder = ScheduleBuilder(moves, nbytes, slots=parts * ranks)
    part = np.arange(parts)[:, None]
    channel = part // segments
    way = np.where(channel < channels, 1, -1)
    rank, step = builder.each(), np.arange(ranks - 1)[:, None, None]

    def once_round(send: Callable[..., Ints], first: int) -> None:
        """The chunk that is k + `first` ranks behind goes in step k."""
        slot = rank - (step + first) * way
        slot %= ranks
        slot *= parts
        slot += part
        send(rank, (rank + way) % ranks, slot=slot, channel=channel, steps=2)

    if scatters:
        builder.phase("reduce-scatter")
        once_round(builder.reduce, 1)
    if gathers:
        builder.phase("all-gather")
        once_round(builder.copy, 0)
    return builder.build()


ring_all_reduce = ring
ring_reduce_scatter = partial(ring, gathers=False)
ring_all_gather = partial(ring, scatters=False)


def _operations(
    rounds: int, ranks: int, channels: int = 1, segments: int = 1, ways: int = 1
) -> float:
    """Every rank sends all parts of a chunk in each step of each round."""
    return rounds * ranks * (ranks - 1.0) * channels * segments * ways


ALGORITHMS = (
    Algorithm(
        "ring",
        ALL_REDUCE,
        ring_all_reduce,
        neighbors.ring_all_reduce,
        "reduce-scatter, then all-gather, round a ring",
        shifts=rotations,
        operations=partial(_operations, 2),
    ),
    Algorithm(
        "ring_reduce_scatter",
        REDUCE_SCATTER,
        ring_reduce_scatter,
        neighbors.ring_reduce_scatter,
        "each chunk goes round a ring and grows at every rank",
        shifts=rotations,
        operations=partial(_operations, 1),
    ),
    Algorithm(
        "ring_all_gather",
        ALL_GATHER,
        ring_all_gather,
        neighbors.ring_all_gather,
        "each chunk goes round a ring",
        shifts=rotations,
        operations=partial(_operations, 1),
    ),
)
