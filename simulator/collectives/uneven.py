"""Collectives whose chunks differ in size: all-gatherv, reduce-scatterv, gatherv, scatterv, and an
all-to-all whose blocks a matrix or a router gives.

Every one of them is made for a router. The default router is a ramp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_TO_ALL,
    GATHER,
    REDUCE_SCATTER,
    SCATTER,
    Algorithm,
    Collective,
)
from simulator.collectives.forwarded import block_pairs, forwarded_all_to_allv
from simulator.collectives.pairs import exchange
from simulator.collectives.posted_exchanges import posted
from simulator.collectives.routers import RAMP, Router
from simulator.cost_models import uneven_formulas as formulas
from simulator.cost_models.cost_model import CostModel
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError
from topologies.topology import Floats

Write = Callable[[ScheduleBuilder], None]


def _chunked(router: Router, write: Write, ranks: int, nbytes: float) -> Schedule:
    """A schedule on chunks of the sizes that a router gives."""
    builder = ScheduleBuilder(ranks, nbytes, slots=router.chunks(ranks))
    write(builder)
    return builder.build()


def _ring_all_gather(ring: ScheduleBuilder) -> None:
    """Every chunk travels once round the ring from its owner."""
    rank, step = np.arange(ring.ranks), np.arange(ring.ranks - 1)[:, None]
    ring.phase("all-gather")
    ring.copy(rank, (rank + 1) % ring.ranks, slot=(rank - step) % ring.ranks, steps=True)


def _ring_reduce_scatter(ring: ScheduleBuilder) -> None:
    """Every chunk travels once round the ring to its owner."""
    rank, step = np.arange(ring.ranks), np.arange(ring.ranks - 1)[:, None]
    ring.phase("reduce-scatter")
    ring.reduce(rank, (rank + 1) % ring.ranks, slot=(rank - step - 1) % ring.ranks, steps=True)


def _linear_all_gather(builder: ScheduleBuilder) -> None:
    """Every rank sends its chunk to every other rank at once."""
    rank, turn = np.arange(builder.ranks), np.arange(1, builder.ranks)[:, None]
    builder.phase("all-gather")
    builder.copy(rank, (rank + turn) % builder.ranks, slot=rank)


def _linear_reduce_scatter(builder: ScheduleBuilder) -> None:
    """Every rank sends each owner what it adds to the owner's chunk, at once."""
    rank, turn = np.arange(builder.ranks), np.arange(1, builder.ranks)[:, None]
    owner = (rank + turn) % builder.ranks
    builder.phase("reduce-scatter")
    builder.reduce(rank, owner, slot=owner)


def _ring_gather(ring: ScheduleBuilder) -> None:
    """Every rank passes its chunk, and then those of the ranks behind it, towards rank 0."""
    ring.phase("gather")
    for behind in range(ring.ranks - 1):
        rank = np.arange(1, ring.ranks - behind)
        ring.copy(rank, rank - 1, slot=rank + behind)


def _ring_scatter(ring: ScheduleBuilder) -> None:
    """Rank 0 sends the chunk of the last rank first, and every rank passes on what is not its."""
    ring.phase("scatter")
    for step in range(ring.ranks - 1):
        rank = np.arange(step + 1)
        ring.copy(rank, rank + 1, slot=ring.ranks - 1 - step + rank)


def _gather(builder: ScheduleBuilder) -> None:
    """Every rank sends its chunk to rank 0 at once."""
    peers = np.arange(1, builder.ranks)
    builder.phase("gather")
    builder.copy(peers, 0, slot=peers)


def _scatter(builder: ScheduleBuilder) -> None:
    """Rank 0 sends every rank its chunk at once."""
    peers = np.arange(1, builder.ranks)
    builder.phase("scatter")
    builder.copy(0, peers, slot=peers)


def _collective(even: Collective, router: Router) -> Collective:
    return replace(
        even,
        name=f"{even.name}v",
        even=even.name,
        shares=router.chunks,
        sends=partial(_least, even, router, 0),
        receives=partial(_least, even, router, 1),
        volume=partial(_volume, even, router),
    )


def _least(even: Collective, router: Router, end: int, ranks: int) -> Floats:
    """The least that each rank sends, or receives."""
    chunk = router.chunks(ranks)
    least = {
        "all_gather": (chunk, 1 - chunk),
        "reduce_scatter": (1 - chunk, chunk),
        "gather": (chunk, 0 * chunk),
        "scatter": (0 * chunk, chunk),
    }
    return least[even.name][end] if ranks > 1 else 0 * chunk


def _volume(even: Collective, router: Router, ranks: int) -> float:
    rooted = even.root is not None
    return float(1 - router.chunks(ranks)[0]) if rooted else even.volume(ranks)


def _algorithm(
    name: str,
    even: Collective,
    write: Write,
    cost: Callable[[formulas.Chunks], CostModel],
    summary: str,
    router: Router,
) -> Algorithm:
    return Algorithm(
        name,
        _collective(even, router),
        partial(_chunked, router, write),
        cost(router.chunks),
        summary,
    )


def all_to_allv(router: Router) -> Algorithm:
    """Every rank posts all blocks at once; those that stay on their rank are not counted."""
    pattern = partial(block_pairs, router)
    collective = replace(
        exchange("all_to_allv", pattern), even="all_to_all", busbw=ALL_TO_ALL.busbw
    )
    return Algorithm(
        "posted_all_to_allv",
        collective,
        partial(posted, pattern),
        formulas.all_to_allv(router.matrix),
        "every rank sends every other rank a block of any size",
    )


def skewed(algorithm: Algorithm, router: Router) -> Algorithm:
    """An algorithm for the sizes that a router gives. Raises InputError if its sizes are equal."""
    if algorithm.name not in _MADE:
        raise InputError(
            f"{algorithm.name} has parts of equal sizes: choose one of {', '.join(_MADE)}"
        )
    return replace(_MADE[algorithm.name](router), recipe=(skewed, (algorithm, router)))


_CHUNKED: dict[str, tuple[Collective, Write, Callable[[formulas.Chunks], CostModel], str]] = {
    "ring_all_gatherv": (
        ALL_GATHER,
        _ring_all_gather,
        formulas.ring_all_gatherv,
        "each chunk goes round a ring; chunks differ in size",
    ),
    "ring_reduce_scatterv": (
        REDUCE_SCATTER,
        _ring_reduce_scatter,
        formulas.ring_reduce_scatterv,
        "each chunk goes round a ring and grows; chunks differ in size",
    ),
    "linear_gatherv": (
        GATHER,
        _gather,
        formulas.linear_gatherv,
        "every rank sends its chunk to rank 0; chunks differ in size",
    ),
    "linear_scatterv": (
        SCATTER,
        _scatter,
        formulas.linear_scatterv,
        "rank 0 sends every rank its chunk; chunks differ in size",
    ),
    "linear_all_gatherv": (
        ALL_GATHER,
        _linear_all_gather,
        formulas.linear_all_gatherv,
        "every rank sends its chunk to every other rank; chunks differ in size",
    ),
    "linear_reduce_scatterv": (
        REDUCE_SCATTER,
        _linear_reduce_scatter,
        formulas.linear_reduce_scatterv,
        "every rank sends each owner what it adds to the chunk; chunks differ in size",
    ),
    "ring_gatherv": (
        GATHER,
        _ring_gather,
        formulas.ring_gatherv,
        "each chunk goes down a line to rank 0; chunks differ in size",
    ),
    "ring_scatterv": (
        SCATTER,
        _ring_scatter,
        formulas.ring_scatterv,
        "each chunk goes up a line from rank 0; chunks differ in size",
    ),
}
_MADE: dict[str, Callable[[Router], Algorithm]] = {
    **{name: partial(_algorithm, name, *parts) for name, parts in _CHUNKED.items()},
    "posted_all_to_allv": all_to_allv,
    "forwarded_all_to_allv": forwarded_all_to_allv,
}
ALGORITHMS = tuple(make(RAMP) for make in _MADE.values())
