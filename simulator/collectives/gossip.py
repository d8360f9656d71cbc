"""Gossip: every rank adds up its data and those of some neighbours, as decentralised averaging
does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from simulator.collectives.collective import Algorithm, Collective, Pairs, whole
from simulator.cost_models import CostModel, log2_ceil
from simulator.cost_models import exchange_formulas as formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import Chosen, Data, Promise
from simulator.schedules.shifts import Shifts, fold, rotations

Steps = Callable[[int], list[int]]
"""From the number of ranks to how far ahead the ranks are that a rank sends to."""


def ring_steps(ranks: int) -> list[int]:
    """The next rank and the one before.

    >>> ring_steps(2), ring_steps(5)
    ([1], [1, 4])
    """
    return sorted({1 % ranks, -1 % ranks} - {0})


def exponential_steps(ranks: int) -> list[int]:
    """The ranks 1, 2, 4, 8, ... ahead.

    >>> exponential_steps(8), exponential_steps(9)
    ([1, 2, 4], [1, 2, 4, 8])
    """
    return [1 << level for level in range(log2_ceil(ranks))]


def gossip(steps: Steps, ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every rank sends all its data to its neighbours. It adds up what has arrived when all that it
    sent has arrived."""
    ahead = steps(ranks)
    builder = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=len(ahead), phase="exchange")
    rank, step = builder.each(), np.array(ahead, dtype=np.int64)[:, None]
    inbox = np.arange(1, len(ahead) + 1)[:, None]
    builder.copy(rank, (rank + step) % ranks, slot=0, target=inbox, steps=True)
    builder.phase("merge")
    builder.reduce(rank, rank, slot=inbox, target=0, steps=True)
    return builder.build()


def _pairs(steps: Steps, ranks: int) -> Pairs:
    step, rank = np.array(steps(ranks), dtype=np.int64)[:, None], np.arange(ranks)
    source = np.broadcast_to(rank, (len(step), ranks)).ravel()
    return Pairs(source, ((rank + step) % ranks).ravel(), np.ones(len(source)))


def _sums(steps: Steps, before: Data, chosen: Chosen = None) -> Promise:
    sums = before.copy()
    for step in steps(len(before)):
        sums += np.roll(before, step, axis=0)
    return np.ones(before.shape, dtype=np.bool_), sums


def _collective(name: str, steps: Steps) -> Collective:
    pairs = partial(_pairs, steps)
    return Collective(
        name, partial(_sums, steps), whole, float, whole, whole, pairs=pairs, merges=True
    )


def _algorithm(name: str, steps: Steps, cost: CostModel, summary: str) -> Algorithm:
    schedule = partial(gossip, steps)
    return Algorithm(name, _collective(name, steps), schedule, cost, summary, shifts=rotations)


ALGORITHMS = (
    _algorithm(
        "gossip_ring", ring_steps, formulas.GOSSIP_RING, "every rank adds up both neighbours' data"
    ),
    _algorithm(
        "gossip_exponential",
        exponential_steps,
        formulas.GOSSIP_EXPONENTIAL,
        "every rank adds up the data of the ranks 1, 2, 4, ... behind",
    ),
)
