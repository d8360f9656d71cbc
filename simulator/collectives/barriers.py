"""Barriers: no rank leaves before all ranks have entered. Messages carry no bytes."""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import Collective, declare, none, nothing
from simulator.cost_models import exchange_formulas as formulas
from simulator.cost_models import log2_ceil
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Ints

BARRIER = Collective("barrier", nothing, none, none, none, none, causal=True)


@declare("central_barrier", BARRIER, formulas.CENTRAL_BARRIER)
def central_barrier(ranks: int, nbytes: float) -> Schedule:
    """All ranks report to rank 0, which releases all."""
    barrier = _builder(ranks, nbytes, "enter")
    members = np.arange(1, ranks)
    entered = barrier.signal(members, 0)
    barrier.phase("leave")
    barrier.signal(0, members, after=entered)
    return barrier.build()


@declare("tree_barrier", BARRIER, formulas.TREE_BARRIER)
def tree_barrier(ranks: int, nbytes: float) -> Schedule:
    """Up a binomial tree to rank 0, and down again. A rank tells its parent when all its children
    have told it."""
    barrier = _builder(ranks, nbytes, "enter")
    children = [np.arange(1 << k, ranks, 2 << k) for k in range(log2_ceil(ranks))]
    heard: Ints = np.full((ranks, len(children) + 1), -1, dtype=np.int32)
    for level, child in enumerate(children):
        parent = child - (1 << level)
        heard[parent, level] = barrier.signal(child, parent, after=heard[child])
    barrier.phase("leave")
    for level, child in reversed([*enumerate(children)]):
        parent = child - (1 << level)
        heard[child, -1] = barrier.signal(parent, child, after=heard[parent])
    return barrier.build()


@declare("dissemination_barrier", BARRIER, formulas.DISSEMINATION_BARRIER)
def dissemination_barrier(ranks: int, nbytes: float) -> Schedule:
    """In round k every rank tells the rank 2^k ahead. It names all ranks of which it has heard."""
    barrier = _builder(ranks, nbytes, "round 0")
    rank = np.arange(ranks)
    heard: Ints = np.zeros((ranks, 0), dtype=np.int32)
    for level in range(log2_ceil(ranks)):
        barrier.phase(f"round {level}")
        told = barrier.signal(rank, (rank + (1 << level)) % ranks, after=heard)
        heard = np.column_stack((heard, told[(rank - (1 << level)) % ranks]))
    return barrier.build()


def _builder(ranks: int, nbytes: float, phase: str) -> ScheduleBuilder:
    """A barrier has no data: its buffer has no bytes, whatever V is."""
    return ScheduleBuilder(ranks, nbytes, slots=np.zeros((ranks, 1)), phase=phase)
