"""The calls of a builder: which operations see the same state, and what they wait for besides the
slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.kernels import dependencies
from simulator.kernels.dependencies import Groups, Waits
from simulator.kernels.records import Accesses, Csr, Flags
from topologies.errors import InputError
from topologies.jit import kernel
from topologies.topology import Ints

Longs = npt.NDArray[np.int64]
Sizes = tuple[int | Ints, int | Ints]
"""Sizes of calls, and how many calls have each."""


class Calls:
    """The calls of a builder, in their order. Each step of a call counts as one."""

    def __init__(self) -> None:
        self._sizes: list[Sizes] = []
        self._after: list[tuple[Ints, Ints]] = []

    def add(self, sizes: Sizes) -> None:
        """More calls."""
        self._sizes.append(sizes)

    def wait(self, operation: Ints, awaited: Ints) -> None:
        """Pairs of operations of which the first waits for the second."""
        self._after.append((operation, awaited))

    @property
    def numbers(self) -> Ints:
        """The call of every operation."""
        if not self._sizes:
            return np.zeros(0, dtype=np.int32)
        sizes, counts = (
            np.concatenate(list(map(np.atleast_1d, each)))
            for each in zip(*self._sizes, strict=True)
        )
        sizes = np.repeat(sizes, counts)
        return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    def derive(
        self, rows: Accesses, local: Flags, reduces: Flags, cells: tuple[int, int]
    ) -> tuple[Csr, list[int]]:
        """What operations wait for, by what they read and write in `cells` (ranks, slots), and
        besides; and a conflict, for :func:`conflict_message`."""
        operations, (ranks, slots) = len(reduces), cells
        derive = kernel(dependencies.derive, max(operations, len(rows.owner)))
        calls = self.numbers
        more, room, needed = self.waits(operations), -1, 2 * operations
        while needed > room:
            room = needed
            groups, waits = Groups.none(ranks, slots, rows), Waits.none(operations, room)
            needed = derive(rows, calls, local, reduces, groups, more, waits)
        first, second, cell, both = waits.conflict.tolist()
        return Csr(waits.indptr, waits.indices[:needed]), [
            first,
            second,
            cell % max(slots, 1),
            both,
        ]

    def waits(self, operations: int) -> Csr:
        """What each of so many operations waits for; without rows if there is nothing."""
        none = np.zeros(0, np.int32)
        if not self._after:
            return Csr(none, none)
        waiting = np.concatenate([none, *(pairs[0] for pairs in self._after)])
        indices = np.concatenate([none, *(pairs[1] for pairs in self._after)])
        indptr = np.zeros(operations + 1, dtype=np.int32)
        np.cumsum(np.bincount(waiting, minlength=operations), out=indptr[1:])
        return Csr(indptr, indices[np.argsort(waiting, kind="stable")])


def pairs_of(first: int, last: int, after: Longs) -> tuple[Ints, Ints]:
    """Pairs (operation, operation that it waits for) of the new operations `first` to `last` -
    1."""
    if after.ndim > 2 or (after.ndim == 2 and len(after) not in (1, last - first)):
        raise InputError(
            f"operations to wait for have the shape {after.shape}: (n,) for all, or a row for each"
        )
    if after.size and (after.min() < -1 or after.max() >= first):
        raise InputError(
            f"an operation waits for {after.min()} to {after.max()}: it can wait for earlier "
            f"ones only"
        )
    row = after if after.ndim == 2 else after.reshape(1, -1)
    rows = np.broadcast_to(row, (last - first, row.shape[1]))
    operation = np.repeat(np.arange(first, last, dtype=np.int32), rows.shape[1])
    present = rows.ravel() >= 0
    return operation[present], rows.ravel()[present].astype(np.int32)


def conflict_message(columns: dict[str, Any], first: int, other: int, slot: int, both: int) -> str:
    """The message for two operations of a step that are in each other's way."""
    where = ", ".join(
        f"rank {columns['rank'][number]} to {columns['peer'][number]}" for number in (first, other)
    )
    if both:
        return (
            f"two operations of one step overwrite the same slot, {slot} ({where}): use two steps"
        )
    return (
        f"one operation of a step writes what another reads, slot {slot} ({where}): go through "
        f"scratch, or use two steps"
    )
