"""Barriers: no rank leaves before all ranks have entered. Messages carry no bytes."""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import Algorithm, Collective, none, nothing
from simulator.cost_models import log2_ceil
from simulator.cost_models import scatter_formulas as formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Ints


def central_barrier(ranks: int, nbytes: float) -> Schedule:
    """All ranks tell rank 0 that they have entered. Then rank 0 tells all ranks to leave."""
    barrier = _builder(ranks, nbytes, "enter")
    members = np.arange(1, ranks)
    entered = barrier.signal(members, 0)
    barrier.phase("leave")
    barrier.signal(0, members, after=entered)
    return barrier.build()


def tree_barrier(ranks: int, nbytes: float) -> Schedule:
    """A rank tells its parent in a binomial tree when all its children have told it. Then rank 0
    releases its children, and those theirs."""
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


def dissemination_barrier(ranks: int, nbytes: float) -> Schedule:
    """In round k rank r tells rank r + 2^k of all ranks of which it has heard. There are
    ⌈log2 p⌉ rounds."""
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


BARRIER = Collective("barrier", nothing, none, none, none, none, causal=True)

ALGORITHMS = (
    Algorithm(
        "central_barrier",
        BARRIER,
        central_barrier,
        formulas.CENTRAL_BARRIER,
        "all ranks report to rank 0, which releases all",
    ),
    Algorithm(
        "tree_barrier",
        BARRIER,
        tree_barrier,
        formulas.TREE_BARRIER,
        "up a binomial tree to rank 0, and down again",
    ),
    Algorithm(
        "dissemination_barrier",
        BARRIER,
        dissemination_barrier,
        formulas.DISSEMINATION_BARRIER,
        "in round k every rank tells the rank 2^k ahead",
    ),
)
