"""Folded schedules held against those of all ranks."""

from __future__ import annotations

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from topologies.topology import Ints


def partners(whole: Schedule, folded: Schedule) -> Ints:
    """The operation of a folded schedule that stands for each of the whole one.

    Each rank has its operations in the order in which the rank that stands for it has them.
    """
    assert folded.fold is not None
    stands = folded.fold.shifts.folded(whole.rank)
    partner = np.full(len(whole), -1, dtype=np.int32)
    for rank in np.unique(whole.rank):
        mine = np.flatnonzero(whole.rank == rank)
        theirs = np.flatnonzero(folded.rank == stands[mine[0]])
        assert len(mine) == len(theirs)
        partner[mine] = theirs
    return partner


def assert_alike(whole: Timeline, folded: Timeline) -> None:
    """Every operation of all ranks has the times of the operation that stands for it."""
    partner = partners(whole.schedule, folded.schedule)
    for name in ("ready", "start", "finish"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(folded, name)[partner], name)
    assert whole.schedule.volume == folded.schedule.volume
    assert whole.schedule.steps == folded.schedule.steps
    np.testing.assert_array_equal(whole.schedule.sent(), folded.schedule.sent())
    waits = [set(partner[whole.schedule.predecessors(i)].tolist()) for i in range(len(partner))]
    for operation, awaited in enumerate(waits):
        assert awaited == set(folded.schedule.predecessors(partner[operation]).tolist())
