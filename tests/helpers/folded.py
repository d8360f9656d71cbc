"""Folded schedules held against those of all ranks."""

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Shifts
from simulator.schedules.timeline import Timeline
from topologies.shapes import SHAPES
from topologies.topology import Ints, Topology


def partners(whole: Schedule, folded: Schedule) -> Ints:
    """The operation of a folded schedule that stands for each of the whole one.

    Each rank has its operations in the order in which the rank that stands for it has them.
    """
    assert folded.fold is not None
    stands = folded.fold.shifts.folded(whole.rank)
    partner = np.full(len(whole), -1, dtype=np.int32)
    for rank in np.unique(whole.rank):
        numbers = np.flatnonzero(whole.rank == rank)
        partner[numbers] = np.flatnonzero(folded.rank == stands[numbers[0]])
    return partner


def assert_alike(whole: Timeline, folded: Timeline) -> None:
    """Every operation of all ranks has the times of the operation that stands for it: to the bit,
    or under fair sharing to 1e-12."""
    schedule, standing = whole.schedule, folded.schedule
    partner = partners(schedule, standing)
    for name in ("ready", "start", "finish"):
        times, tolerance = getattr(folded, name)[partner], 1e-12 if whole.sharing == "fair" else 0
        np.testing.assert_allclose(getattr(whole, name), times, tolerance, err_msg=name)
    assert (schedule.volume, schedule.steps) == (standing.volume, standing.steps)
    np.testing.assert_array_equal(schedule.sent(), standing.sent())
    for operation in range(len(partner)):
        waits = partner[schedule.predecessors(operation)]
        assert {*waits.tolist()} == {*standing.predecessors(partner[operation]).tolist()}


def groups(shifts: Shifts | None) -> Iterator[Shifts]:
    """The groups of some shifts, but for that of no shift at all."""
    if shifts is None:
        return
    divisors = [
        [d for d in range(least, extent + 1) if extent % d == 0 and d % least == 0]
        for extent, least in zip(shifts.shape, shifts.strides, strict=True)
    ]
    for strides in product(*divisors):
        if prod(strides) < shifts.ranks:
            yield Shifts(shifts.shape, strides)


def machines(ranks: int) -> Iterator[Topology]:
    """Machines that look the same from all ranks, from those of a node, and from none."""
    link = {"bandwidth": 2.0, "latency": 0.5}
    yield SHAPES["star"](ranks, **link, reduction=0.25)
    yield SHAPES["star"](ranks, bandwidth=2.0)
    yield SHAPES["ring"](ranks, **link)
    yield SHAPES["ring"](ranks, bandwidth=2.0)
    yield SHAPES["nodes"](ranks, **link, per_node=2)
    yield SHAPES["nodes"](ranks, **link, per_node=4, reduction=0.125)
    yield SHAPES["full_mesh"](ranks, **link)
    yield SHAPES["full_mesh"](ranks, **link, ports="one")
    yield SHAPES["torus"](ranks, bandwidth=2.0)
    yield SHAPES["bus"](ranks, bandwidth=2.0)
    yield SHAPES["line"](ranks, **link)
    if ranks & (ranks - 1) == 0:
        yield SHAPES["hypercube"](ranks, **link)
