"""Exchanges: every rank posts all that it sends at once, to the ranks that a pattern names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from simulator.collectives import pairs as patterns
from simulator.collectives.collective import Algorithm, Collective
from simulator.collectives.pairs import Longs, Pattern, exchange, places
from simulator.cost_models import CostModel
from simulator.cost_models import exchange_formulas as formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, fold, rotations
from topologies.topology import Ints


def posted(
    pattern: Pattern, ranks: int, nbytes: float, shifts: Shifts | None = None, *, asks: bool = False
) -> Schedule:
    """All messages of a pattern at once. If a receiver `asks`, a request goes ahead of each.

    >>> posted(patterns.stages, 4, 4096.0).sent().tolist()
    [2048.0, 4096.0, 4096.0, 2048.0]
    """
    pairs = pattern(ranks)
    place = places(pairs, ranks)
    shares = place.shares if shifts is None else place.shares[shifts.representatives]
    builder = ScheduleBuilder(fold(ranks, shifts), nbytes, slots=shares, phase="exchange")
    for turn in range(int(place.sent.max(initial=-1)) + 1):
        chosen = np.flatnonzero(place.sent == turn)
        if shifts is not None:
            chosen = chosen[shifts.element(pairs.source[chosen]) == 0]
        source, target = pairs.source[chosen], pairs.target[chosen]
        after = _requests(builder, source, target) if asks else ()
        builder.copy(
            source, target, slot=place.sent[chosen], target=place.received[chosen], after=after
        )
    return builder.build()


def _requests(builder: ScheduleBuilder, source: Longs, target: Longs) -> Ints:
    """A message of no bytes from each receiver to its sender."""
    builder.phase("request")
    requests = builder.signal(target, source)
    builder.phase("exchange")
    return requests[:, None]


PUSH = exchange("send", patterns.next_rank, root=0)
PERMUTATION = exchange("permutation", patterns.permutation)
INCAST = exchange("incast", patterns.incast, root=0)
BISECTION = exchange("bisection", patterns.bisection)
PING_PONG = exchange("ping_pong", patterns.ping_pong)
HALO = exchange("halo_exchange", patterns.halo)
NEIGHBORS = exchange("neighbor_all_to_all", patterns.torus_neighbors)
STAGES = exchange("stage_exchange", patterns.stages)


def _grid_shifts(ranks: int) -> Shifts:
    return Shifts(patterns.sides(ranks), (1, 1))


def _half_shifts(ranks: int) -> Shifts | None:
    return None if ranks % 2 else rotations(ranks)


def _algorithm(
    name: str,
    collective: Collective,
    cost: CostModel,
    summary: str,
    shifts: Callable[[int], Shifts | None] = lambda ranks: None,
) -> Algorithm:
    pattern, asks = collective.pairs, name == "pull"
    assert pattern is not None
    return Algorithm(
        name,
        collective,
        partial(posted, pattern, asks=asks),
        cost,
        summary,
        shifts=shifts,
        operations=lambda ranks: (1.0 + asks) * len(pattern(ranks).source),
    )


ALGORITHMS = (
    _algorithm("push", PUSH, formulas.PUSH, "rank 0 writes to rank 1"),
    _algorithm("pull", PUSH, formulas.PULL, "rank 1 asks, and rank 0 answers"),
    _algorithm(
        "permutation",
        PERMUTATION,
        formulas.PERMUTATION,
        "every rank sends to one rank and receives from one",
    ),
    _algorithm("incast", INCAST, formulas.INCAST, "all ranks send to rank 0 at once"),
    _algorithm(
        "bisection",
        BISECTION,
        formulas.BISECTION,
        "the two halves of the ranks exchange all data",
        _half_shifts,
    ),
    _algorithm(
        "ping_pong",
        PING_PONG,
        formulas.PING_PONG,
        "pairs of ranks from the two halves: every second pair sends back",
    ),
    _algorithm("halo", HALO, formulas.HALO, "neighbours in a grid exchange their edges"),
    _algorithm(
        "neighbors",
        NEIGHBORS,
        formulas.NEIGHBORS,
        "neighbours in a torus exchange blocks",
        _grid_shifts,
    ),
    _algorithm(
        "stages",
        STAGES,
        formulas.STAGES,
        "stages of a pipeline send onwards and back at once, as in 1F1B",
    ),
)
