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
from simulator.cost_models import neighbors, segmented_rings
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Move, Shifts, fold, rotations
from topologies.errors import InputError
from topologies.topology import Ints

OPTIONS = {"channels": 1, "segments": 1, "ways": 1}


def ring_reduce_scatter(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    channels: int = 1,
    segments: int = 1,
    ways: int = 1,
) -> Schedule:
    """Every chunk travels once round the ring to its owner. Every rank adds its data to it.

    A chunk has an equal share for each of the `channels` and `ways`. With two ways the second half
    of the shares goes round in the other direction. A share is cut into `segments`, and a rank
    passes a segment on as soon as it has the segment.

    >>> ring_reduce_scatter(4, 4096.0).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    ring = _Ring(ranks, nbytes, shifts, channels, segments, ways)
    ring.reduce_scatter()
    return ring.builder.build()


def ring_all_gather(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    channels: int = 1,
    segments: int = 1,
    ways: int = 1,
) -> Schedule:
    """Every chunk travels once round the ring from its owner."""
    ring = _Ring(ranks, nbytes, shifts, channels, segments, ways)
    ring.all_gather()
    return ring.builder.build()


def ring_all_reduce(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    channels: int = 1,
    segments: int = 1,
    ways: int = 1,
) -> Schedule:
    """A ring reduce-scatter, then a ring all-gather."""
    ring = _Ring(ranks, nbytes, shifts, channels, segments, ways)
    ring.reduce_scatter()
    ring.all_gather()
    return ring.builder.build()


class _Ring:
    """A ring whose chunks have several parts. Chunk c of rank r is chunk c + k of rank r + k."""

    def __init__(
        self,
        ranks: int,
        nbytes: float,
        shifts: Shifts | None,
        channels: int,
        segments: int,
        ways: int,
    ) -> None:
        if ways > 2:
            raise InputError(f"ways is {ways}: a ring has 1 or 2")
        parts = channels * segments * ways
        moves = fold(ranks, shifts, Move(axis=0, first=0, inner=parts, end=parts * ranks))
        self.builder = ScheduleBuilder(moves, nbytes, slots=parts * ranks)
        part = np.arange(parts)[:, None]
        self.part, self.channel = part, part // segments
        self.way = np.where(self.channel < channels, 1, -1)

    def reduce_scatter(self) -> None:
        """The chunk that is k + 1 ranks behind goes in step k."""
        self.builder.phase("reduce-scatter")
        self._pass(self.builder.reduce, 1)

    def all_gather(self) -> None:
        """The chunk that is k ranks behind goes in step k."""
        self.builder.phase("all-gather")
        self._pass(self.builder.copy, 0)

    def _pass(self, send: Callable[..., Ints], first: int) -> None:
        ring, parts = self.builder, len(self.part)
        rank, step = ring.each(), np.arange(ring.ranks - 1)[:, None, None]
        slot = rank - (step + first) * self.way
        slot %= ring.ranks
        slot *= parts
        slot += self.part
        peer = (rank + self.way) % ring.ranks
        send(rank, peer, slot=slot, channel=self.channel, steps=2)


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
        neighbors.RING_ALL_REDUCE,
        "reduce-scatter, then all-gather, round a ring",
        shifts=rotations,
        options=OPTIONS,
        formula=segmented_rings.ring_all_reduce,
        operations=partial(_operations, 2),
    ),
    Algorithm(
        "ring_reduce_scatter",
        REDUCE_SCATTER,
        ring_reduce_scatter,
        neighbors.RING_REDUCE_SCATTER,
        "each chunk goes round a ring and grows at every rank",
        shifts=rotations,
        options=OPTIONS,
        formula=segmented_rings.ring_reduce_scatter,
        operations=partial(_operations, 1),
    ),
    Algorithm(
        "ring_all_gather",
        ALL_GATHER,
        ring_all_gather,
        neighbors.RING_ALL_GATHER,
        "each chunk goes round a ring",
        shifts=rotations,
        options=OPTIONS,
        formula=segmented_rings.ring_all_gather,
        operations=partial(_operations, 1),
    ),
)
