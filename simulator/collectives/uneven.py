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
    DECLARED,
    GATHER,
    REDUCE_SCATTER,
    SCATTER,
    Algorithm,
    Collective,
    first_sentence,
)
from simulator.collectives.forwarded import block_pairs, forwarded_all_to_allv
from simulator.collectives.posted_exchanges import exchange, posted
from simulator.collectives.routers import RAMP, Router
from simulator.cost_models import uneven_formulas as formulas
from simulator.cost_models.cost_model import CostModel
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError
from topologies.topology import Floats

Write = Callable[[ScheduleBuilder], None]
_MADE: dict[str, Callable[[Router], Algorithm]] = {}


def _chunked(
    name: str, even: Collective, cost: Callable[[formulas.Chunks], CostModel]
) -> Callable[[Write], Write]:
    """Declare an algorithm on chunks of the sizes that a router gives, from what writes it."""

    def declared(write: Write) -> Write:
        def made(router: Router) -> Algorithm:
            def schedule(ranks: int, nbytes: float) -> Schedule:
                builder = ScheduleBuilder(ranks, nbytes, slots=router.chunks(ranks))
                write(builder)
                return builder.build()

            summary = f"{first_sentence(write)}; chunks differ in size"
            return Algorithm(
                name, _collective(even, router), schedule, cost(router.chunks), summary
            )

        _MADE[name] = made
        return write

    return declared


@_chunked("ring_all_gatherv", ALL_GATHER, formulas.ring_all_gatherv)
def _ring_all_gather(ring: ScheduleBuilder) -> None:
    """Each chunk goes round a ring."""
    rank, step = np.arange(ring.ranks), np.arange(ring.ranks - 1)[:, None]
    ring.phase("all-gather")
    ring.copy(rank, (rank + 1) % ring.ranks, slot=(rank - step) % ring.ranks, steps=True)


@_chunked("ring_reduce_scatterv", REDUCE_SCATTER, formulas.ring_reduce_scatterv)
def _ring_reduce_scatter(ring: ScheduleBuilder) -> None:
    """Each chunk goes round a ring and grows."""
    rank, step = np.arange(ring.ranks), np.arange(ring.ranks - 1)[:, None]
    ring.phase("reduce-scatter")
    ring.reduce(rank, (rank + 1) % ring.ranks, slot=(rank - step - 1) % ring.ranks, steps=True)


@_chunked("linear_gatherv", GATHER, formulas.linear)
def _gather(builder: ScheduleBuilder) -> None:
    """Every rank sends its chunk to rank 0."""
    peers = np.arange(1, builder.ranks)
    builder.phase("gather")
    builder.copy(peers, 0, slot=peers)


@_chunked("linear_scatterv", SCATTER, formulas.linear)
def _scatter(builder: ScheduleBuilder) -> None:
    """Rank 0 sends every rank its chunk."""
    peers = np.arange(1, builder.ranks)
    builder.phase("scatter")
    builder.copy(0, peers, slot=peers)


@_chunked("linear_all_gatherv", ALL_GATHER, formulas.linear_all_gatherv)
def _linear_all_gather(builder: ScheduleBuilder) -> None:
    """Every rank sends its chunk to every other rank."""
    rank, turn = np.arange(builder.ranks), np.arange(1, builder.ranks)[:, None]
    builder.phase("all-gather")
    builder.copy(rank, (rank + turn) % builder.ranks, slot=rank)


@_chunked("linear_reduce_scatterv", REDUCE_SCATTER, formulas.linear_reduce_scatterv)
def _linear_reduce_scatter(builder: ScheduleBuilder) -> None:
    """Every rank sends each owner what it adds to the chunk."""
    rank, turn = np.arange(builder.ranks), np.arange(1, builder.ranks)[:, None]
    owner = (rank + turn) % builder.ranks
    builder.phase("reduce-scatter")
    builder.reduce(rank, owner, slot=owner)


@_chunked("ring_gatherv", GATHER, formulas.line)
def _ring_gather(ring: ScheduleBuilder) -> None:
    """Each chunk goes down a line to rank 0."""
    ring.phase("gather")
    for behind in range(ring.ranks - 1):
        rank = np.arange(1, ring.ranks - behind)
        ring.copy(rank, rank - 1, slot=rank + behind)


@_chunked("ring_scatterv", SCATTER, formulas.line)
def _ring_scatter(ring: ScheduleBuilder) -> None:
    """Each chunk goes up a line from rank 0. The chunk of the last rank goes first."""
    ring.phase("scatter")
    for step in range(ring.ranks - 1):
        rank = np.arange(step + 1)
        ring.copy(rank, rank + 1, slot=ring.ranks - 1 - step + rank)


def _collective(even: Collective, router: Router) -> Collective:
    def volume(ranks: int) -> float:
        return even.volume(ranks) if even.root is None else float(1 - router.chunks(ranks)[0])

    return replace(
        even,
        name=f"{even.name}v",
        even=even.name,
        shares=router.chunks,
        sends=partial(_least, even, router, 0),
        receives=partial(_least, even, router, 1),
        volume=volume,
    )


def _least(even: Collective, router: Router, end: int, ranks: int) -> Floats:
    chunk = router.chunks(ranks)
    least = {
        "all_gather": (chunk, 1 - chunk),
        "reduce_scatter": (1 - chunk, chunk),
        "gather": (chunk, 0 * chunk),
        "scatter": (0 * chunk, chunk),
    }
    return least[even.name][end] if ranks > 1 else 0 * chunk


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
        "Every rank sends every other rank a block of any size",
    )


def skewed(algorithm: Algorithm, router: Router) -> Algorithm:
    """An algorithm for the sizes that a router gives. Raises InputError if its sizes are equal."""
    if algorithm.name not in _MADE:
        raise InputError(
            f"{algorithm.name} has parts of equal sizes: choose one of {', '.join(_MADE)}"
        )
    return replace(_MADE[algorithm.name](router), recipe=(skewed, (algorithm, router)))


_MADE |= {
    "posted_all_to_allv": all_to_allv,
    "forwarded_all_to_allv": forwarded_all_to_allv,
}
DECLARED[__name__] = {name: make(RAMP) for name, make in _MADE.items()}
