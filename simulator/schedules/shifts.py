"""Shifts of ranks, and of slots with them, that map a schedule onto itself.

A schedule that does the same at many ranks is written for some of them alone: one of each orbit of
a group of shifts stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from simulator.kernels.records import Accesses
from topologies.columns import spread
from topologies.errors import InputError
from topologies.topology import Ints, Longs, Numbers


class SlotMove(NamedTuple):
    """Slots, or channels, that move along when the ranks are shifted along an axis."""

    axis: int
    """The axis of the ranks."""
    first: int
    """The first of the slots."""
    inner: int
    """Slots from one place along the axis to the next: a shift by 1 adds so many."""
    end: int
    """The slot after the last."""


@dataclass(frozen=True)
class Shifts:
    """Shifts of ranks along axes, by multiples of a stride on each.

    Ranks lie in a box, in row-major order. All shifts together are a group. It takes every rank to
    as many others as it has shifts, so that all orbits are equally large.

    >>> Shifts((4,), (2,)).order, Shifts((4,), (2,)).representatives.tolist()
    (2, [0, 1])
    """

    shape: tuple[int, ...]
    """The extent of each axis; together they multiply to the ranks."""
    strides: tuple[int, ...]
    """The stride on each axis divides its extent; a stride of the whole extent moves nothing."""

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides) or any(
            extent < 1 or stride < 1 or extent % stride
            for extent, stride in zip(self.shape, self.strides, strict=False)
        ):
            raise InputError(
                f"shifts of {self.shape} by multiples of {self.strides}: a stride divides its "
                f"extent"
            )

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return prod(self.shape)

    @property
    def order(self) -> int:
        """The number of shifts, and of ranks for which one stands."""
        return self.ranks // prod(self.strides)

    @property
    def along_each_axis(self) -> list[Shifts]:
        """The shifts along each axis that they move."""
        return [
            Shifts(self.shape, (*self.shape[:axis], self.strides[axis], *self.shape[axis + 1 :]))
            for axis, _ in self._moved_axes
        ]

    @cached_property
    def representatives(self) -> Longs:
        """The first rank of each orbit, in ascending order."""
        return _sums(np.arange(stride) * inner for _, stride, inner in self._axes)

    @cached_property
    def elements(self) -> Longs:
        """All shifts, each as the rank to which it takes rank 0, in ascending order."""
        return _sums(np.arange(0, extent, stride) * inner for extent, stride, inner in self._axes)

    def element(self, rank: Numbers) -> Longs:
        """The shift that takes the representative of each rank to it."""
        if np.size(rank) > TABLE_RATIO * self.ranks:
            return self._elements_of_all[rank]
        return self._element(rank)

    def _element(self, rank: Numbers) -> Longs:
        taken = np.zeros(np.shape(rank), dtype=np.int64)
        for axis, (_, stride, step) in self._moved_axes:
            place = self._place(rank, axis)
            taken += place * step if stride == 1 else (place - place % stride) * step
        return taken

    def folded(self, rank: Numbers) -> Longs:
        """The representative of each rank."""
        return np.asarray(rank - self.element(rank), dtype=np.int64)

    def place(self, rank: Numbers) -> Longs:
        """The place of the representative of each rank among the representatives."""
        if np.size(rank) > TABLE_RATIO * self.ranks:
            return self._places_of_all[rank]
        return np.searchsorted(self.representatives, self.folded(rank))

    @cached_property
    def _elements_of_all(self) -> Longs:
        return self._element(np.arange(self.ranks))

    @cached_property
    def _places_of_all(self) -> Longs:
        return np.searchsorted(self.representatives, np.arange(self.ranks) - self._elements_of_all)

    @cached_property
    def steps(self) -> list[int]:
        """Ranks from one place along each axis to the next."""
        return [prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]

    @cached_property
    def _axes(self) -> list[tuple[int, int, int]]:
        return list(zip(self.shape, self.strides, self.steps, strict=True))

    @cached_property
    def _moved_axes(self) -> list[tuple[int, tuple[int, int, int]]]:
        return [(k, axis) for k, axis in enumerate(self._axes) if axis[1] < axis[0]]

    def _place(self, rank: Numbers, axis: int) -> Numbers:
        """Where ranks are on an axis. Division takes time: the outermost and the innermost need
        less of it."""
        extent, _, step = self._axes[axis]
        place = rank if step == 1 else rank // step
        return place % extent if step * extent < self.ranks else place

    def back(self, rank: Numbers, element: Numbers) -> Longs:
        """Each rank before a shift."""
        return self.shifted(rank, element, -1)

    def shifted(self, rank: Numbers, element: Numbers, sign: int = 1) -> Longs:
        """Each rank after a shift, or with sign -1 before it."""
        result = np.asarray(rank, dtype=np.int64)
        if max(self.shape, default=0) == 2:
            return result ^ element  # a million ranks have 20 axes: bit by bit takes minutes
        for axis, (extent, _, step) in self._moved_axes:
            place, by = self._place(result, axis), self._place(element, axis)
            change = _around(place, sign * by, sign * extent) - place
            result = result + (change if step == 1 else change * step)
        return result

    def slots_shifted(
        self, slot: Numbers, element: Numbers, moves: tuple[SlotMove, ...], sign: int = 1
    ) -> Longs:
        """Each slot after a shift, or with sign -1 before it; -1 stays."""
        result = np.asarray(slot, dtype=np.int64)
        if len(moves) > TABLE_MOVES:
            return self._moved_by_table(result, element, moves, sign)
        for axis, first, inner, end in moves:
            extent, stride, _ = self._axes[axis]
            if stride == extent:
                continue
            place = result - first if inner == 1 else (result - first) // inner
            if extent * inner < end - first:
                place = place % extent
            change = _around(place, sign * self._place(element, axis), sign * extent) - place
            inside = (result >= first) & (result < end)
            result = result + np.where(inside, change if inner == 1 else change * inner, 0)
        return result

    def _moved_by_table(
        self, slot: Longs, element: Numbers, moves: tuple[SlotMove, ...], sign: int
    ) -> Longs:
        """The same for many moves. Those along an axis move different slots."""
        result = slot
        for axis, (extent, _, _) in self._moved_axes:
            along = sorted(move for move in moves if move.axis == axis)
            if not along:
                continue
            _, first, inner, end = (np.array(column) for column in zip(*along, strict=True))
            number = np.maximum(np.searchsorted(first, result, side="right") - 1, 0)
            inside = (result >= first[number]) & (result < end[number])
            place = (result - first[number]) // inner[number] % extent
            change = _around(place, sign * self._place(element, axis), sign * extent) - place
            result = result + np.where(inside, change * inner[number], 0)
        return result


TABLE_RATIO = 4
"""Ranks that are more than so many times all ranks are looked up in a table."""
TABLE_MOVES = 8
"""More moves than these are looked up in a table."""


def _sums(places: Iterable[Longs]) -> Longs:
    """All sums of a place on each axis."""
    return reduce(
        lambda sums, place: (sums[:, None] + place).ravel(), places, np.zeros(1, np.int64)
    )


def _around(place: Numbers, by: Numbers, extent: int) -> Longs:
    """Places after moves by less than an extent, brought back where they leave it. Moves back have
    a negative extent."""
    moved = np.asarray(place + by, dtype=np.int64)
    # Unsigned, a negative number is larger than any place.
    inside = np.minimum(moved.view(np.uint64), (moved - extent).view(np.uint64))
    return inside.view(np.int64)


class Folded(NamedTuple):
    """Ranks of which some stand for all."""

    shifts: Shifts
    """What takes those to all."""
    moves: tuple[SlotMove, ...]
    """The slots that go along with the ranks; the others stay."""
    channels: tuple[SlotMove, ...] = ()
    """The channels that go along with the ranks; the others stay."""


def fold(
    ranks: int, shifts: Shifts | None, *moves: SlotMove, channels: Iterable[SlotMove] = ()
) -> int | Folded:
    """The ranks of a schedule: folded if there are shifts, else their number."""
    return ranks if shifts is None else Folded(shifts, moves, tuple(channels))


def halves(rounds: int) -> list[SlotMove]:
    """The moves of 2^rounds slots along as many axes of two: slot s goes where rank s goes.

    >>> halves(2)
    [SlotMove(axis=0, first=0, inner=2, end=4), SlotMove(axis=1, first=0, inner=1, end=4)]
    """
    slots = 1 << rounds
    return [SlotMove(axis, 0, slots >> axis + 1, slots) for axis in range(rounds)]


def in_pairs(ranks: int) -> Shifts:
    """The shifts of ranks in a ring by even numbers; by all if the ranks are odd."""
    return rotations(ranks) if ranks % 2 else Shifts((ranks // 2, 2), (1, 2))


def bits(ranks: int) -> Shifts | None:
    """The flips of each bit of ranks of a power of two."""
    axes = ranks.bit_length() - 1
    return Shifts((2,) * axes, (1,) * axes) if ranks == 1 << axes else None


def rotations(ranks: int, stride: int = 1) -> Shifts:
    """The shifts of ranks in a ring by multiples of a stride."""
    return Shifts((ranks,), (stride,))


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
        back = self.shifts.slots_shifted(slot, self.shifts.element(rank), self.moves, -1)
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
    count = np.ones(len(row), dtype=np.int32)
    return Accesses(rows.owner[row], ranks[0], ranks[1], slots[0], slots[1], count)
