"""The slots of a schedule while it is written: their bytes, and the races within a call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.schedules.folding import spread
from simulator.schedules.schedule import LIMIT
from simulator.schedules.whole_numbers import Column, whole_number
from topologies.errors import InputError
from topologies.topology import Ints


class Slots:
    """The buffer and the scratch of every rank, as the builder describes them, and which call
    wrote each slot last."""

    def __init__(
        self,
        ranks: int,
        nbytes: float,
        slots: int | Sequence[float],
        scratch: int | Sequence[float],
        unordered: int,
    ) -> None:
        shares = _shares("slots", slots)
        if not shares or not np.isclose(sum(shares), 1.0):
            raise InputError(f"slots are {slots}: one or more, whose shares add up to 1")
        self.nbytes = nbytes
        self.buffer = len(shares)
        self.shares = np.array(shares + _shares("scratch", scratch, shares[0]))
        unordered = whole_number("unordered", unordered)
        if not 0 <= unordered <= len(self.shares) - self.buffer:
            raise InputError(
                f"{unordered} slots are unordered: 0 to {len(self.shares) - self.buffer}, "
                f"scratch alone"
            )
        self._ordered = len(self.shares) - unordered
        if ranks * len(self.shares) > LIMIT:
            raise InputError(
                f"{ranks} ranks of {len(self.shares)} slots: take fewer, at most {LIMIT} slots in "
                f"all"
            )
        self._slot_bytes = nbytes / self.buffer if np.ndim(slots) == 0 else None
        self._equal = self._slot_bytes is not None and bool(np.all(self.shares == self.shares[0]))
        self._writes, self._cells = 1, ranks * len(self.shares)
        self._written: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.shares)

    def in_order(self, slot: Ints) -> Ints:
        """The slots from which dependencies are derived, -1 for the others."""
        return (
            slot
            if self._ordered == len(self.shares)
            else np.where(slot < self._ordered, slot, np.int32(-1))
        )

    def bytes_of(self, slot: Column, count: Column) -> npt.NDArray[np.float64]:
        """Bytes in `count` slots from `slot` on: exact multiples where all shares are equal, so
        that ties stay ties."""
        if self._equal and self._slot_bytes is not None:
            return np.asarray(count * self._slot_bytes, dtype=np.float64)
        sums = np.concatenate(([0.0], np.cumsum(self.shares)))
        return np.asarray((sums[slot + count] - sums[slot]) * self.nbytes)

    def check(self, slot: Column, target: Column, count: Column) -> None:
        """Refuse slots that are not there; -1 is none."""
        if not slot.size or not target.size or not count.size:
            return
        most = max(int((slot + count).max()), int((target + count).max()))
        if min(slot.min(), target.min()) < -1 or most > len(self.shares) or count.min() < 1:
            raise InputError(
                f"slots {slot} to {target}, {count} of them, are not all there: a rank has "
                f"{len(self.shares)}"
            )

    def check_races(
        self, columns: Sequence[Column], *, reduces: bool = False, local: bool = False
    ) -> None:
        """Refuse races within a call, whose columns are rank, peer, slot, target and count; `local`
        operations may replace what they read."""
        rank, peer, slot, target, count = (
            column.ravel() for column in np.broadcast_arrays(*columns)
        )
        if not len(rank):
            return
        if self._written is None:
            self._written = np.zeros(self._cells, dtype=np.int64)
        slots = len(self.shares)
        reads, readers = _cells(rank * slots + slot, count, (slot >= 0) & (slot < self._ordered))
        writes, writers = _cells(
            peer * slots + target, count, (target >= 0) & (target < self._ordered)
        )
        self._written[writes] = self._writes + writers
        twice = not reduces and bool(np.any(self._written[writes] != self._writes + writers))
        last_write = self._written[reads]
        race = bool(
            np.any((last_write >= self._writes) & ~(local & (last_write == self._writes + readers)))
        )
        self._writes += len(rank)
        if twice:
            raise InputError("two operations of one call overwrite the same slot: use two calls")
        if race:
            raise InputError(
                "one operation of a call writes what another reads: go through scratch, or use "
                "two calls"
            )


def _shares(
    name: str, slots: int | Sequence[float], share_of_slot: float | None = None
) -> list[float]:
    """The shares of V of all slots, from their number or from the shares themselves.

    A number of slots has slots of share `share_of_slot`, or of such that they add up to 1.
    """
    if np.ndim(slots) == 0:
        count = whole_number(name, slots)
        if count < 0:
            raise InputError(f"{name} is {count}: 0 or more")
        return [1 / max(1, count) if share_of_slot is None else share_of_slot] * count
    shares: list[float] = np.asarray(slots, dtype=np.float64).tolist()
    if not all(0 <= share < np.inf for share in shares):
        raise InputError(f"{name} has the shares {shares}: each is 0 or more")
    return shares


def _cells(first: Column, count: Column, present: npt.NDArray[np.bool_]) -> tuple[Column, Column]:
    """The cells `first`, `first + 1`, ... of every range that is there, and the number of its
    range."""
    if count.max() == 1 and present.all():
        return first, np.arange(len(first))
    number, offset = spread(count * present)
    return np.asarray(first[number] + offset), number
