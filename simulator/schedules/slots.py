"""The slots of a schedule while it is written: their bytes, and the races within a call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import LIMIT
from simulator.schedules.shifts import spread
from simulator.schedules.whole_numbers import Column, whole_number
from topologies.errors import InputError
from topologies.topology import Floats, Ints

Cut = int | Sequence[float] | Floats
"""A number of slots; or their shares of V, in a row for all ranks or in a row for each rank."""


class Slots:
    """The buffer and the scratch of every rank, as the builder describes them, and which call
    wrote each slot last."""

    def __init__(
        self,
        ranks: int,
        nbytes: float,
        slots: Cut,
        scratch: Cut,
        unordered: int,
    ) -> None:
        shares = _shares("slots", slots)
        if shares.ndim == 1 and not (len(shares) and np.isclose(shares.sum(), 1.0)):
            raise InputError(f"slots are {slots}: one or more, whose shares add up to 1")
        self.nbytes = nbytes
        self.buffer = shares.shape[-1]
        behind = _shares("scratch", scratch, shares[..., 0] if self.buffer else 0.0)
        self.shares = _beside(ranks, shares, behind)
        size = len(self)
        unordered = whole_number("unordered", unordered)
        if not 0 <= unordered <= size - self.buffer:
            raise InputError(
                f"{unordered} slots are unordered: 0 to {size - self.buffer}, scratch alone"
            )
        self._ordered = size - unordered
        if ranks * size > LIMIT:
            raise InputError(
                f"{ranks} ranks of {size} slots: take fewer, at most {LIMIT} slots in all"
            )
        self._slot_bytes = nbytes / self.buffer if np.ndim(slots) == 0 else None
        self._equal = self._slot_bytes is not None and bool(np.all(self.shares == self.shares[0]))
        self._by_rank = np.ndim(slots) == 2
        self._writes, self._cells = 1, ranks * size
        self._written: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return int(self.shares.shape[-1])

    def in_order(self, slot: Ints) -> Ints:
        """The slots from which dependencies are derived, -1 for the others."""
        return (
            slot
            if self._ordered == len(self)
            else np.where(slot < self._ordered, slot, np.int32(-1))
        )

    def bytes_of(self, rank: Column, slot: Column, count: Column) -> npt.NDArray[np.float64]:
        """Bytes of each rank in `count` slots from `slot` on: exact multiples where all shares are
        equal, so that ties stay ties."""
        if self._equal and self._slot_bytes is not None:
            return np.asarray(count * self._slot_bytes, dtype=np.float64)
        row = () if self.shares.ndim == 1 else (rank,)
        sums = np.zeros((*self.shares.shape[:-1], len(self) + 1))
        np.cumsum(self.shares, axis=-1, out=sums[..., 1:])
        several = sums[*row, slot + count] - sums[*row, slot]
        if self._by_rank:
            several = np.where(count == 1, self.shares[*row, slot], several)
        return np.asarray(several * self.nbytes)

    def check(self, slot: Column, target: Column, count: Column) -> None:
        """Refuse slots that are not there; -1 is none."""
        if not slot.size or not target.size or not count.size:
            return
        most = max(int(slot.max()), int(target.max())) + int(count.max())
        if most > len(self):
            most = max(int((slot + count).max()), int((target + count).max()))
        if min(slot.min(), target.min()) < -1 or most > len(self) or count.min() < 1:
            raise InputError(
                f"slots {slot} to {target}, {count} of them, are not all there: a rank has "
                f"{len(self)}"
            )

    def check_races(
        self, columns: Sequence[Column], *, reduces: bool = False, local: bool = False
    ) -> None:
        """Refuse races within a call, whose columns are rank, peer, slot, target and count; `local`
        operations may replace what they read."""
        if columns[3].max(initial=-1) < 0:
            return
        rank, peer, slot, target, count = (
            column.ravel() for column in np.broadcast_arrays(*columns)
        )
        if not len(rank):
            return
        if self._written is None:
            self._written = np.zeros(self._cells, dtype=np.int64)
        slots = len(self)
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


def _shares(name: str, slots: Cut, share_of_slot: npt.ArrayLike | None = None) -> Floats:
    """The shares of V of all slots, from their number or from the shares themselves.

    A number of slots has slots of share `share_of_slot`, or of such that they add up to 1.
    """
    if np.ndim(slots) == 0:
        count = whole_number(name, slots)
        if count < 0:
            raise InputError(f"{name} is {count}: 0 or more")
        share = np.asarray(1 / max(1, count) if share_of_slot is None else share_of_slot)
        return np.repeat(share[..., None], count, axis=-1)
    shares = np.array(slots, dtype=np.float64)
    if shares.ndim > 2 or not ((shares >= 0) & (shares < np.inf)).all():
        raise InputError(
            f"{name} has the shares {_short(shares)}: each is 0 or more, in a row for all ranks or "
            f"a row for each"
        )
    return shares


def _short(shares: Floats) -> object:
    return shares.tolist() if shares.size < 9 else f"{shares.ravel()[:8].tolist()} and more"


def _beside(ranks: int, buffer: Floats, scratch: Floats) -> Floats:
    """The shares of all slots: a row for all ranks if these are alike, else a row for each."""
    if buffer.ndim == scratch.ndim == 1:
        return np.concatenate((buffer, scratch))
    for rows in (buffer, scratch):
        if rows.ndim == 2 and len(rows) != ranks:
            raise InputError(f"slots of {len(rows)} ranks: there are {ranks}, a row for each")
    both = [np.broadcast_to(rows, (ranks, rows.shape[-1])) for rows in (buffer, scratch)]
    joined = np.concatenate(both, axis=1)
    return joined[0].copy() if (joined == joined[0]).all() else joined


def _cells(first: Column, count: Column, present: npt.NDArray[np.bool_]) -> tuple[Column, Column]:
    """The cells `first`, `first + 1`, ... of every range that is there, and the number of its
    range."""
    if count.max() == 1 and present.all():
        return first, np.arange(len(first))
    number, offset = spread(count * present)
    return np.asarray(first[number] + offset), number
