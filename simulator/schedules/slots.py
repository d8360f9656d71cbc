"""The slots of a schedule while it is written, and the calls of its builder that use them: which
operations see the same state, and what they wait for besides the slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.kernels import dependencies
from simulator.kernels.dependencies import Groups, Waits
from simulator.kernels.records import Accesses, Csr
from simulator.schedules.schedule import COMPUTE, LIMIT
from simulator.schedules.whole_numbers import whole_number
from topologies.errors import InputError
from topologies.jit import kernel
from topologies.topology import Floats, Ints, Longs, Numbers

Cut = int | Sequence[float] | Floats
"""A number of slots; or their shares of V, in a row for all ranks or in a row for each rank."""


Sizes = tuple[int | Ints, int | Ints]
"""Sizes of calls, and how many calls have each."""


class Slots:
    """The buffer and the scratch of every rank, as the builder describes them."""

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

    def __len__(self) -> int:
        return int(self.shares.shape[-1])

    def in_order(self, slot: Ints) -> Ints:
        """The slots from which dependencies are derived, -1 for the others."""
        return (
            slot
            if self._ordered == len(self)
            else np.where(slot < self._ordered, slot, np.int32(-1))
        )

    def bytes_of(self, rank: Numbers, slot: Numbers, count: Numbers) -> Floats:
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

    def check(self, slot: Numbers, target: Numbers, count: Numbers) -> None:
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


class Calls:
    """The calls of a builder, in their order. Each step of a call counts as one."""

    def __init__(self) -> None:
        self.sizes: list[Sizes] = []
        self.waits: list[tuple[Ints, Ints]] = []
        """Pairs of operations of which the first waits for the second."""

    @property
    def numbers(self) -> Ints:
        """The call of every operation."""
        if not self.sizes:
            return np.zeros(0, dtype=np.int32)
        sizes, counts = (
            np.concatenate(list(map(np.atleast_1d, each))) for each in zip(*self.sizes, strict=True)
        )
        sizes = np.repeat(sizes, counts)
        return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    def derive(self, rows: Accesses, columns: dict[str, Any], ranks: int, slots: int) -> Csr:
        """What operations wait for: by what they read and write in the `slots` of so many ranks,
        and besides. Raises InputError where two operations of a step are in each other's way."""
        operations, none = len(columns["kind"]), np.zeros(0, np.int32)
        derive = kernel(dependencies.derive, max(operations, len(rows.owner)))
        local, calls, more = (
            (columns["kind"] == COMPUTE).astype(np.int8),
            self.numbers,
            Csr(none, none),
        )
        if self.waits:
            waiting, awaited = map(np.concatenate, zip(*self.waits, strict=True))
            more = Csr.of(waiting, awaited, operations)
        room, needed = -1, 2 * operations
        while needed > room:
            room = needed
            groups, waits = Groups.none(ranks, slots, rows), Waits.none(operations, room)
            needed = derive(rows, calls, local, columns["reduces"], groups, more, waits)
        first, second, cell, overwrites = waits.conflict.tolist()
        if first < 0:
            return Csr(waits.indptr, waits.indices[:needed])
        where = ", ".join(
            f"rank {columns['rank'][number]} to {columns['peer'][number]}"
            for number in (first, second)
        )
        if overwrites:
            raise InputError(
                f"two operations of one step overwrite the same slot, {cell % slots} ({where}): "
                f"use two steps"
            )
        raise InputError(
            f"one operation of a step writes what another reads, slot {cell % slots} ({where}): "
            f"go through scratch, or use two steps"
        )


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
