"""Chains: the ranks in a row with rank 0 at one end. V goes in pieces that follow one another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import BROADCAST, REDUCE, Algorithm
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.whole_numbers import Column

Orders = npt.NDArray[np.integer]
"""The ranks round each ring, shape (rings, ranks)."""


def chain_broadcast(
    ranks: int, nbytes: float, orders: Orders | None = None, *, segments: int = 64
) -> Schedule:
    """Each rank passes each piece on to the next rank as soon as it has it. NCCL broadcasts so and
    calls it Ring.

    `orders` are the ranks round several rings, shape (rings, ranks); by default one ring, in rank
    order. Along each ring there is a chain from rank 0, for a share of V. V goes in `segments`
    pieces, or in as many more as give each chain equally many.

    >>> chain_broadcast(4, 4096.0).sent().tolist()
    [4096.0, 4096.0, 4096.0, 0.0]
    >>> chain_broadcast(4, 4096.0, np.array([[0, 1, 2, 3], [1, 0, 3, 2]])).sent().tolist()
    [4096.0, 2048.0, 4096.0, 2048.0]
    """
    chains, pieces = _chains(ranks, orders, segments)
    builder = ScheduleBuilder(ranks, nbytes, slots=pieces.size, phase="broadcast")
    for place in range(ranks - 1):
        _pass(builder.copy, chains, pieces, place, place + 1)
    return builder.build()


def chain_reduce(
    ranks: int, nbytes: float, orders: Orders | None = None, *, segments: int = 64
) -> Schedule:
    """The reverse of :func:`chain_broadcast`: every rank adds its data to each piece that comes."""
    chains, pieces = _chains(ranks, orders, segments)
    builder = ScheduleBuilder(ranks, nbytes, slots=pieces.size, phase="reduce")
    for place in range(ranks - 1, 0, -1):
        _pass(builder.reduce, chains, pieces, place, place - 1)
    return builder.build()


def _chains(ranks: int, orders: Orders | None, segments: int) -> tuple[Orders, Orders]:
    """The ranks along each chain, shape (chains, ranks), and the slots of the pieces of each, shape
    (pieces of a chain, chains)."""
    rings = np.arange(ranks)[None, :] if orders is None else orders
    chains = np.stack([np.roll(ring, -int(np.argmin(ring))) for ring in rings])
    count = len(chains)
    return chains, np.arange(-(-segments // count) * count).reshape(-1, count)


def _pass(
    send: Callable[..., Column], chains: Orders, pieces: Orders, sender: int, receiver: int
) -> None:
    """All pieces go from the rank at one place of each chain to the rank at another."""
    channel = np.arange(len(chains))
    send(chains[:, sender], chains[:, receiver], slot=pieces, channel=channel)


ALGORITHMS = (
    Algorithm(
        "chain_broadcast",
        BROADCAST,
        chain_broadcast,
        neighbors.chain_broadcast,
        "from rank to rank in a line, in pieces",
    ),
    Algorithm(
        "chain_reduce",
        REDUCE,
        chain_reduce,
        neighbors.chain_reduce,
        "from rank to rank in a line to rank 0, in pieces",
    ),
)
