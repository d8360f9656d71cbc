"""Folded schedules: operations of one rank of each orbit, which stand for all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Accesses
from simulator.schedules.shifts import Longs, Numbers, Shifts, SlotMove
from topologies.errors import InputError
from topologies.topology import Ints


@dataclass(frozen=True, eq=False)
class Fold:
    """How the operations of a folded schedule stand for those of all ranks."""

    shifts: Shifts
    """The shifts that take each operation to those for which it stands."""
    moves: tuple[SlotMove, ...]
    """The slots that move with the ranks."""
    call: Ints
    """The call of the builder, or the step of a call, that wrote each operation."""
    channels: tuple[SlotMove, ...] = ()
    """The channels that move with the ranks."""

    def __post_init__(self) -> None:
        """Raises InputError where slots would move along an axis in two ways."""
        for move, later in pairwise(sorted(self.moves)):
            if later.axis == move.axis and later.first < move.end:
                raise InputError(
                    f"slots {later.first} to {later.end - 1} move in another way than slots "
                    f"{move.first} to {move.end - 1}"
                )

    @property
    def order(self) -> int:
        """The number of operations for which each stands."""
        return self.shifts.order

    def channel(self, channel: Numbers, element: Numbers) -> Longs:
        """Each channel after a shift."""
        moved = self.shifts.slots_shifted(channel, element, self.channels)
        return np.broadcast_to(moved, np.broadcast_shapes(np.shape(channel), np.shape(element)))

    def cells(self, rank: Numbers, slot: Numbers) -> Longs:
        """The slot of the representative of each rank that stands for a slot of it; -1 stays."""
        back = self.shifts.slots_back(slot, self.shifts.element(rank), self.moves)
        return np.where(np.asarray(slot) < 0, -1, back)


def accesses(fold: Fold, rows: Accesses) -> Accesses:
    """What operations read and write, slot by slot, as slots of representatives; ranks are places
    among these."""
    row, offset = spread(rows.count)
    row, offset = row.astype(np.int32), offset.astype(np.int32)
    ranks, slots = [], []
    for rank, first in ((rows.rank, rows.source), (rows.peer, rows.target)):
        slot, moves = np.where(first[row] < 0, -1, first[row] + offset), fold.shifts.element(rank)
        away = np.flatnonzero((moves != 0)[row])
        slot[away] = fold.cells(rank[row[away]], slot[away])
        ranks.append(fold.shifts.place(rank).astype(np.int32)[row])
        slots.append(slot.astype(np.int32, copy=False))
    one = np.ones(len(row), dtype=np.int32)
    return Accesses(rows.owner[row], ranks[0], ranks[1], slots[0], slots[1], one)


def spread(count: npt.NDArray[np.integer]) -> tuple[Longs, Longs]:
    """The number of the range, and the place in it, of every member of ranges of `count` members.

    >>> [column.tolist() for column in spread(np.array([2, 0, 1]))]
    [[0, 0, 2], [0, 1, 0]]
    """
    if len(count) and count.min() == count.max() == 1:
        return np.arange(len(count)), np.zeros(len(count), dtype=np.int64)
    owner = np.repeat(np.arange(len(count)), count)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
