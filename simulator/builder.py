"""Writes schedules: an algorithm states who sends what to whom, the builder derives who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator import _kernels
from simulator._compile import kernel
from simulator.schedule import COMPUTE, TRANSFER, Schedule
from topologies.errors import InputError
from topologies.topology import Ints

Index = int | Sequence[int] | npt.NDArray[np.integer]
LIMIT = 2**30
"""Operations of a schedule, and slots of all its ranks together: indices are 32 bits wide."""
_COLUMNS = {
    "kind": np.int8,
    "rank": np.int32,
    "peer": np.int32,
    "source": np.int32,
    "target": np.int32,
    "count": np.int32,
    "reduces": np.int8,
    "nbytes": np.float64,
    "seconds": np.float64,
    "lane": np.int16,
    "phase": np.int16,
}


class ScheduleBuilder:
    """Collects operations in vectorised calls; all operations of one call see the state before the call.

    `slots` cuts the buffer of V = `nbytes` bytes: a number of equal shares, or the shares themselves. `scratch` slots
    come after the buffer: a number of them, each as large as the first slot, or their shares. `servers` are ranks
    after the `ranks` workers that own no data of the collective.
    """

    def __init__(
        self,
        ranks: int,
        nbytes: float,
        *,
        slots: int | Sequence[float] = 1,
        scratch: int | Sequence[float] = 0,
        servers: int = 0,
        phase: str = "transfer",
    ) -> None:
        if ranks < 2:
            raise InputError(f"ranks must be at least 2, got {ranks}")
        if not 0 < nbytes < np.inf:
            raise InputError(f"nbytes is {nbytes}: it is above 0")
        shares = [1 / slots] * slots if isinstance(slots, int) else list(slots)
        self.ranks, self.workers = ranks + servers, ranks
        self.nbytes = nbytes
        self.buffer = len(shares)
        self.shares = np.array(shares + ([shares[0]] * scratch if isinstance(scratch, int) else list(scratch)))
        if not np.all(self.shares >= 0) or not np.isclose(self.shares[: self.buffer].sum(), 1.0):
            raise InputError(f"shares are {shares}: they are 0 or more and add up to 1")
        self._slot_bytes = nbytes / slots if isinstance(slots, int) else None
        self._equal = self._slot_bytes is not None and bool(np.all(self.shares == self.shares[0]))
        self._size = 0
        self._columns = {name: np.zeros(1024, dtype=dtype) for name, dtype in _COLUMNS.items()}
        self._after: list[tuple[Ints, Ints]] = []
        if self.ranks * len(self.shares) > LIMIT:
            raise InputError(
                f"{self.ranks} ranks of {len(self.shares)} slots: at most {LIMIT} slots in all, take fewer ranks"
            )
        self._writes = 1
        self._written = np.zeros(self.ranks * len(self.shares), dtype=np.int64)
        self._phases: dict[str, int] = {}
        self._lanes = 1
        self.phase(phase)

    def __len__(self) -> int:
        return self._size

    def phase(self, name: str) -> None:
        """Name the phase of the operations that follow: what pictures are coloured by."""
        self._phase = name

    def reduce(
        self,
        rank: Index,
        peer: Index,
        *,
        slot: Index,
        target: Index | None = None,
        count: Index = 1,
        after: Index = (),
    ) -> Ints:
        """`rank` sends `count` slots from `slot` on; `peer` adds them to what it holds at `target` (the same slots).

        Returns the numbers of the operations. `after` are operations to wait for besides what the slots imply: the same
        for all, shape (n,), or a row each, shape (operations, n), in which -1 is none.
        """
        return self._transfer(rank, peer, slot, slot if target is None else target, count, True, after)

    def copy(
        self,
        rank: Index,
        peer: Index,
        *,
        slot: Index,
        target: Index | None = None,
        count: Index = 1,
        after: Index = (),
    ) -> Ints:
        """As :meth:`reduce`, but `peer` overwrites what it holds."""
        return self._transfer(rank, peer, slot, slot if target is None else target, count, False, after)

    def signal(self, rank: Index, peer: Index, *, nbytes: float = 0.0, after: Index = ()) -> Ints:
        """A control message: it carries no slot, and waits for `after` alone."""
        return self._append(after, kind=TRANSFER, rank=rank, peer=peer, source=-1, target=-1, nbytes=nbytes)

    def compute(
        self,
        rank: Index,
        seconds: float | npt.NDArray[np.float64],
        *,
        lane: Index = 0,
        reads: Index = -1,
        writes: Index = -1,
        count: Index = 1,
        after: Index = (),
    ) -> Ints:
        """A computation on a serial lane of `rank` that reads and produces `count` slots (-1: none)."""
        if np.any(~(np.asarray(seconds) >= 0)):
            raise InputError(f"a computation takes {seconds} s: it is 0 or more")
        self._lanes = max(self._lanes, int(np.max(lane)) + 1)
        return self._append(
            after,
            kind=COMPUTE,
            rank=rank,
            peer=rank,
            source=reads,
            target=writes,
            count=count,
            seconds=seconds,
            lane=lane,
        )

    def inline(self, child: Schedule, *, ranks: Index | None = None, slot: int = 0, after: Index = ()) -> Ints:
        """Add the operations of `child`: its rank r becomes `ranks[r]`, its slot s becomes s + `slot`."""
        place = np.arange(child.ranks) if ranks is None else np.asarray(ranks)
        if len(place) != child.ranks:
            raise InputError(f"{len(place)} ranks for a schedule of {child.ranks}: name one for each")
        names = np.array([self._phases.setdefault(name, len(self._phases)) for name in child.phases])
        first = self._size
        added = self._append(
            after,
            kind=child.kind,
            rank=place[child.rank],
            peer=place[child.peer],
            source=np.where(child.source < 0, -1, child.source + slot),
            target=np.where(child.target < 0, -1, child.target + slot),
            count=child.count,
            reduces=child.reduces,
            nbytes=child.nbytes,
            seconds=child.seconds,
            lane=child.lane,
            phase=names[child.phase],
        )
        waits = np.repeat(np.arange(len(child), dtype=np.int32), np.diff(child.indptr))
        self._after.append((waits + np.int32(first), child.indices + np.int32(first)))
        self._lanes = max(self._lanes, child.lanes)
        return added

    def build(self) -> Schedule:
        """The schedule, with the predecessors of every operation."""
        columns = {name: column[: self._size] for name, column in self._columns.items()}
        touched = [columns[name] for name in ("rank", "peer", "source", "target", "count", "reduces")]
        derive = kernel(_kernels.derive, self._size)
        indptr, indices = kernel(_kernels.merge, self._size)(
            *derive(*touched, self.ranks, len(self.shares)), *self._explicit()
        )
        return Schedule(
            ranks=self.ranks,
            workers=self.workers,
            nbytes_total=self.nbytes,
            buffer=self.buffer,
            shares=self.shares,
            phases=tuple(self._phases),
            lanes=self._lanes,
            indptr=indptr,
            indices=indices,
            **columns,
        )

    def _transfer(
        self, rank: Index, peer: Index, slot: Index, target: Index, count: Index, reduces: bool, after: Index
    ) -> Ints:
        rank, peer, slot, target, count = np.broadcast_arrays(rank, peer, slot, target, count)
        self._check_slots(rank, peer, slot, target, count, reduces)
        nbytes = self._bytes_of(slot, count)
        return self._append(
            after,
            kind=TRANSFER,
            rank=rank,
            peer=peer,
            source=slot,
            target=target,
            count=count,
            reduces=reduces,
            nbytes=nbytes,
        )

    def _bytes_of(self, slot: npt.NDArray[np.integer], count: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Bytes in `count` slots from `slot` on: exact multiples where all shares are equal, so that ties stay ties."""
        if self._equal and self._slot_bytes is not None:
            return np.asarray(count * self._slot_bytes, dtype=np.float64)
        sums = np.concatenate(([0.0], np.cumsum(self.shares)))
        return np.asarray((sums[slot + count] - sums[slot]) * self.nbytes)

    def _check_slots(
        self,
        rank: npt.NDArray[np.integer],
        peer: npt.NDArray[np.integer],
        slot: npt.NDArray[np.integer],
        target: npt.NDArray[np.integer],
        count: npt.NDArray[np.integer],
        reduces: bool,
    ) -> None:
        slots = len(self.shares)
        if slot.size == 0:
            return
        if min(slot.min(), target.min()) < 0 or max((slot + count).max(), (target + count).max()) > slots:
            raise InputError(f"slots {slot.min()} to {(slot + count).max() - 1} are not all there: a rank has {slots}")
        reads, writes = _spread(rank * slots + slot, count), _spread(peer * slots + target, count)
        serial = np.arange(self._writes, self._writes + len(writes))
        self._writes += len(writes)
        self._written[writes] = serial
        if not reduces and np.any(self._written[writes] != serial):
            raise InputError("two operations of one call overwrite the same slot: use two calls")
        if np.any(self._written[reads] >= serial[0]):
            raise InputError("one operation of a call writes what another reads: go through scratch, or use two calls")

    def _append(self, after: Index, **values: Index | bool | float | npt.NDArray[np.floating]) -> Ints:
        size = np.broadcast_shapes(*(np.shape(value) for value in values.values()), (1,))[0]
        self._check_ranks(values["rank"], values["peer"])
        first, last = self._size, self._size + size
        if size and "phase" not in values:
            values["phase"] = self._phases.setdefault(self._phase, len(self._phases))
        self._grow(last)
        for name, column in self._columns.items():
            column[first:last] = values.get(name, 0)
        self._size = last
        added = np.arange(first, last, dtype=np.int32)
        self._wait(added, np.asarray(after, dtype=np.int32))
        return added

    def _check_ranks(self, *ends: object) -> None:
        for end in ends:
            ranks = np.asarray(end)
            if ranks.size and not (ranks.min() >= 0 and ranks.max() < self.ranks):
                raise InputError(f"rank {ranks.min()} to {ranks.max()}: ranks run from 0 to {self.ranks - 1}")

    def _wait(self, added: Ints, after: Ints) -> None:
        if after.size == 0 or added.size == 0:
            return
        if after.min() < -1 or after.max() >= added[0]:
            raise InputError(f"an operation waits for {after.max()}: it can wait for earlier ones only")
        waits = np.broadcast_to(after if after.ndim == 2 else after.reshape(1, -1), (len(added), after.shape[-1]))
        given = waits.ravel() >= 0
        self._after.append((np.repeat(added, waits.shape[1])[given], waits.ravel()[given]))

    def _grow(self, size: int) -> None:
        capacity = len(self._columns["kind"])
        if size > LIMIT:
            raise InputError(f"{size} operations: a schedule has at most {LIMIT}, take fewer ranks")
        if size > capacity:
            for column in self._columns.values():
                column.resize(max(size, 2 * capacity), refcheck=False)

    def _explicit(self) -> tuple[npt.NDArray[np.int64], Ints]:
        waits = np.concatenate([np.zeros(0, np.int32), *(waits for waits, _ in self._after)])
        indices = np.concatenate([np.zeros(0, np.int32), *(indices for _, indices in self._after)])
        indptr = np.zeros(self._size + 1, dtype=np.int64)
        np.cumsum(np.bincount(waits, minlength=self._size), out=indptr[1:])
        return indptr, indices[np.argsort(waits, kind="stable")]


def _spread(first: npt.NDArray[np.integer], count: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """The cells `first`, `first + 1`, ... of every range, one after another."""
    if count.size and count.max() == 1 == count.min():
        return first.ravel()
    starts = np.repeat(first - np.concatenate(([0], np.cumsum(count)[:-1])), count)
    return np.asarray(starts + np.arange(len(starts)))
