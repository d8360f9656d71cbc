"""A folded schedule written out, at all ranks, for a few slots that stand for all of them.

Data change slots only where an operation writes another slot than it reads. So slots fall into
parts that never mix; of the parts that shifts take to each other, one suffices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.kernels.records import Operations
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Fold, Shifts
from topologies.columns import spread
from topologies.errors import InputError
from topologies.topology import Flags, Ints, Longs, Numbers

FOLLOWED_OPERATIONS = 2**28
"""Operations that are written out at most."""


@dataclass(frozen=True, eq=False)
class Followed:
    """The operations of all ranks that touch some slots, one slot an operation."""

    slots: Ints
    """The slots that are followed, in ascending order."""
    weight: Longs
    """The number of slots for which each stands."""
    operation: Ints
    """The operation of the folded schedule that stands for each."""
    operations: Operations
    """The columns, without bytes; slots are places in `slots`."""


def follow_slots(schedule: Schedule) -> Followed:
    """The operations of a folded schedule on one slot of each orbit, or on all slots of orbits that
    mix. They are kept with the schedule, as what it computes of itself.

    Raises InputError if there are too many to write out.
    """
    known: dict[str, Followed] = vars(schedule)
    if "followed" not in known:
        known["followed"] = _followed(schedule)
    return known["followed"]


def _followed(schedule: Schedule) -> Followed:
    fold = schedule.fold
    assert fold is not None
    every = np.arange(schedule.slots)
    first = _first_slots(fold, every)
    mixed = _mixed(schedule, first)
    slots = np.flatnonzero(mixed | (first == every)).astype(np.int32)
    weight = np.where(mixed, 1, np.bincount(first, minlength=schedule.slots))[slots]
    owner, offset = (column.astype(np.int32) for column in spread(schedule.count))
    touched = np.where(schedule.source >= 0, schedule.source, schedule.target)[owner] + offset
    rows, element = _members(fold, touched, mixed, first)
    operation, offset = owner[rows], offset[rows]
    place = np.full(schedule.slots + 1, -1, dtype=np.int32)
    place[slots] = np.arange(len(slots))
    stays, ends = place[first[touched[rows]]], []
    turned = np.flatnonzero(mixed[touched[rows]]) if mixed.any() else slice(0)
    for column in (schedule.source, schedule.target):
        end = np.where(column[operation] < 0, np.int32(-1), stays)
        slot = column[operation[turned]]
        slot = np.where(slot < 0, -1, slot + offset[turned])
        end[turned] = place[fold.shifts.slots_shifted(slot, element[turned], fold.moves)]
        ends.append(end)
    count = np.ones(len(operation), dtype=np.int32)
    columns = Operations(
        kind=schedule.kind[operation],
        rank=fold.shifts.shifted(schedule.rank[operation], element).astype(np.int32),
        peer=fold.shifts.shifted(schedule.peer[operation], element).astype(np.int32),
        source=ends[0],
        target=ends[1],
        count=count,
        reduces=schedule.reduces[operation],
        nbytes=np.zeros(len(operation)),
        seconds=schedule.seconds[operation],
        lane=schedule.lane[operation],
    )
    return Followed(slots, weight, operation.astype(np.int32), columns)


def _first_slots(fold: Fold, slot: Longs) -> Longs:
    """The first slot of the orbit of each."""
    first = slot.copy()
    for move in fold.moves:
        extent, stride = fold.shifts.shape[move.axis], fold.shifts.strides[move.axis]
        rows = slice(move.first, move.end)
        place = (first[rows] - move.first) // move.inner % extent
        first[rows] -= (place - place % stride) * move.inner
    return first


def _mixed(schedule: Schedule, first: Longs) -> Flags:
    """Whether data change between a slot and others."""
    moves = (schedule.source >= 0) & (schedule.target >= 0) & (schedule.source != schedule.target)
    owner, offset = spread(np.where(moves, schedule.count, 0))
    mixed = np.zeros(schedule.slots, dtype=np.bool_)
    for column in (schedule.source, schedule.target):
        mixed[first[column[owner] + offset]] = True
    return mixed[first]


def _members(fold: Fold, touched: Numbers, mixed: Flags, first: Longs) -> tuple[Longs, Longs]:
    """For each of the slots that are touched: its place, and the shifts that take it to a slot that
    is followed, a row each, in the order of the places."""
    base, group = (column[touched] for column in _shifts_to_first(fold, first))
    base, group = np.where(mixed[touched], 0, base), np.where(mixed[touched], 0, group)
    rows, elements = [], []
    for axes in np.flatnonzero(np.bincount(group)):
        chosen, free = np.flatnonzero(group == axes), _fixing(fold.shifts, int(axes))
        rows.append(np.repeat(chosen, len(free)))
        elements.append((base[chosen, None] + free).ravel())
    if not rows:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    row, element = np.concatenate(rows), np.concatenate(elements)
    if len(row) > FOLLOWED_OPERATIONS:
        raise InputError(
            f"{len(row)} operations are too many to prove: {FOLLOWED_OPERATIONS} at most"
        )
    order = np.argsort(row, kind="stable") if len(rows) > 1 else slice(None)
    return row[order], element[order]


def _shifts_to_first(fold: Fold, first: Longs) -> tuple[Longs, Longs]:
    """A shift that takes each slot to the first of its orbit, and the axes along which it moves, as
    the bits of a number."""
    shifts = fold.shifts
    base, group = np.zeros((2, len(first)), dtype=np.int64)
    for axis, begin, inner, end in fold.moves:
        extent, stride = shifts.shape[axis], shifts.strides[axis]
        if stride == extent:
            continue
        rows = slice(begin, end)
        place, goal = (
            (column - begin) // inner % extent for column in (np.arange(begin, end), first[rows])
        )
        base[rows] += (goal - place) % extent * shifts.steps[axis]
        group[rows] |= 1 << axis
    return base, group


def _fixing(shifts: Shifts, axes: int) -> Longs:
    """The shifts along other axes than those."""
    fixed = [
        extent if axes >> k & 1 else stride
        for k, (extent, stride) in enumerate(zip(shifts.shape, shifts.strides, strict=True))
    ]
    return Shifts(shifts.shape, tuple(fixed)).elements
