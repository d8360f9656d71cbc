"""Writes schedules: an algorithm states who sends what to whom, the builder derives who waits for
whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.kernels import dependencies
from simulator.schedules.schedule import COMPUTE, LIMIT, TRANSFER, Schedule
from simulator.schedules.slots import Slots
from simulator.schedules.whole_numbers import Column, Index, whole_number, whole_numbers
from topologies._compile import kernel
from topologies.errors import InputError
from topologies.topology import Ints

LANES = 1023
PHASES = 2**15 - 1
_ONE = np.zeros(1)
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
    """Collects operations in vectorised calls; all operations of one call see the state before the
    call.

    `slots` cuts the buffer of V = `nbytes` bytes: a number of equal shares, or the shares
    themselves. `scratch` slots come after the buffer: a number of them, each as large as the first
    slot, or their shares. The last `unordered` of them are state that is shared in no fixed order:
    from them no dependency is derived, the order is that of service. `servers` are ranks after the
    `ranks` workers that own no data of the collective; the `switches` after them are switches that
    reduce and multicast what passes through: they begin with zeros and hold no memory that counts.
    """

    def __init__(
        self,
        ranks: int,
        nbytes: float,
        *,
        slots: int | Sequence[float] = 1,
        scratch: int | Sequence[float] = 0,
        unordered: int = 0,
        servers: int = 0,
        switches: int = 0,
        phase: str = "transfer",
    ) -> None:
        ranks, servers, switches = map(
            whole_number, ("ranks", "servers", "switches"), (ranks, servers, switches)
        )
        if ranks < 1:
            raise InputError(f"ranks must be at least 1, got {ranks}")
        if min(servers, switches) < 0:
            raise InputError(f"servers are {servers}, switches {switches}: 0 or more")
        if not 0 < nbytes < np.inf:
            raise InputError(f"nbytes is {nbytes}: it is above 0")
        self.ranks, self.workers, self.switches = ranks + servers + switches, ranks, switches
        self.slots = Slots(self.ranks, nbytes, slots, scratch, unordered)
        self._size = 0
        self._columns = {name: np.zeros(1024, dtype=dtype) for name, dtype in _COLUMNS.items()}
        self._built = False
        self._after: list[tuple[Ints, Ints]] = []
        self._phases: dict[str, int] = {}
        self._lanes = 1
        self.phase(phase)

    def __len__(self) -> int:
        return self._size

    def phase(self, name: str) -> None:
        """Name the phase of the operations that follow: what pictures are coloured by."""
        if len(self._phases) >= PHASES:
            raise InputError(f"phase {name!r} is one too many: a schedule has at most {PHASES}")
        self._phase = name

    def reduce(
        self,
        rank: Index,
        peer: Index,
        *,
        slot: Index,
        target: Index | None = None,
        count: Index = 1,
        channel: Index = 0,
        after: Index = (),
    ) -> Ints:
        """`rank` sends `count` slots from `slot` on; `peer` adds them to what it holds at `target`
        (the same slots).

        Returns the numbers of the operations. Among equally short routes the `channel` chooses.
        `after` are operations to wait for besides what the slots imply: the same for all, shape
        (n,), or a row each, shape (operations, n), in which -1 is none.
        """
        return self._transfer(
            rank, peer, slot, slot if target is None else target, count, channel, True, after
        )

    def copy(
        self,
        rank: Index,
        peer: Index,
        *,
        slot: Index,
        target: Index | None = None,
        count: Index = 1,
        channel: Index = 0,
        after: Index = (),
    ) -> Ints:
        """As :meth:`reduce`, but `peer` overwrites what it holds."""
        return self._transfer(
            rank, peer, slot, slot if target is None else target, count, channel, False, after
        )

    def signal(self, rank: Index, peer: Index, *, nbytes: float = 0.0, after: Index = ()) -> Ints:
        """A control message: it carries no slot, and waits for `after` alone."""
        if not 0 <= nbytes < np.inf:
            raise InputError(f"a message has {nbytes} bytes: 0 or more")
        rank, peer = whole_numbers("rank", rank), whole_numbers("peer", peer)
        self._check_ranks(rank, peer)
        return self._append(
            after, kind=TRANSFER, rank=rank, peer=peer, source=-1, target=-1, nbytes=nbytes
        )

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
        """A computation on a serial lane of `rank` that reads and produces `count` slots (-1:
        none)."""
        if np.any(~((np.asarray(seconds) >= 0) & np.isfinite(seconds))):
            raise InputError(f"a computation takes {seconds} s: 0 or more")
        lane = whole_numbers("lane", lane)
        if np.any((lane < 0) | (lane > LANES)):
            raise InputError(f"lane {lane}: lanes run from 0 to {LANES}")
        names = "rank", "reads", "writes", "count"
        columns = np.broadcast_arrays(*map(whole_numbers, names, (rank, reads, writes, count)))
        self._check_ranks(columns[0])
        self.slots.check(*(columns[k].ravel() for k in (0, 0, 1, 2, 3)), reduces=False, local=True)
        used = np.where((columns[1] < 0) & (columns[2] < 0), 0, columns[3])
        places = {
            "rank": columns[0],
            "peer": columns[0],
            "source": columns[1],
            "target": columns[2],
            "count": used,
        }
        added = self._append(after, kind=COMPUTE, seconds=seconds, lane=lane, **places)
        self._lanes = max(self._lanes, int(np.max(lane)) + 1)
        return added

    def inline(
        self,
        child: Schedule,
        *,
        ranks: Index | None = None,
        slot: int = 0,
        scratch: int | None = None,
        phase: str | None = None,
        after: Index = (),
    ) -> Ints:
        """Add the operations of `child`: its rank r becomes `ranks[r]`, its slot s becomes s +
        `slot`.

        With `scratch` the child's scratch slots become those from `scratch` on instead. All its
        phases become `phase` if that is given.
        """
        place = (
            np.arange(child.ranks)
            if ranks is None
            else np.atleast_1d(whole_numbers("ranks", ranks))
        )
        if len(place) != child.ranks:
            raise InputError(
                f"{len(place)} ranks for a schedule of {child.ranks}: name one for each"
            )
        self._check_ranks(place, place)
        slot = whole_number("slot", slot)
        behind = slot + child.buffer if scratch is None else whole_number("scratch", scratch)
        for begin, count in ((slot, child.buffer), (behind, child.slots - child.buffer)):
            if begin < 0 or begin + count > len(self.slots):
                raise InputError(
                    f"slots {begin} to {begin + count - 1} are not all there: a rank has "
                    f"{len(self.slots)}"
                )
        place_of = np.concatenate(
            (slot + np.arange(child.buffer), behind + np.arange(child.slots - child.buffer), [-1])
        )
        if phase is not None:
            self.phase(phase)
        names = np.array(
            [self._phases.setdefault(phase or name, len(self._phases)) for name in child.phases],
            dtype=np.int16,
        )
        first = self._size
        added = self._append(
            after,
            kind=child.kind,
            rank=place[child.rank],
            peer=place[child.peer],
            source=place_of[child.source],
            target=place_of[child.target],
            count=child.count,
            reduces=child.reduces,
            nbytes=child.nbytes,
            seconds=child.seconds,
            lane=child.lane,
            phase=names[child.phase] if len(child) else child.phase,
        )
        waits = np.repeat(np.arange(len(child), dtype=np.int32), np.diff(child.indptr))
        self._after.append((waits + np.int32(first), child.indices + np.int32(first)))
        self._lanes = max(self._lanes, child.lanes)
        return added

    def build(self) -> Schedule:
        """The schedule, with the predecessors of every operation."""
        for column in self._columns.values():
            column.resize(self._size, refcheck=False)
        self._built = True
        columns = dict(self._columns)
        source, target = (self.slots.in_order(columns[name]) for name in ("source", "target"))
        touched = (
            columns["rank"],
            columns["peer"],
            source,
            target,
            columns["count"],
            columns["reduces"],
        )
        derive = kernel(dependencies.derive, self._size)
        indptr, indices = kernel(dependencies.merge, self._size)(
            *derive(*touched, self.ranks, len(self.slots)), *self._explicit()
        )
        return Schedule(
            ranks=self.ranks,
            workers=self.workers,
            switches=self.switches,
            nbytes_total=self.slots.nbytes,
            buffer=self.slots.buffer,
            shares=self.slots.shares,
            phases=tuple(self._phases),
            lanes=self._lanes,
            indptr=indptr,
            indices=indices,
            **columns,
        )

    def _transfer(
        self,
        rank: Index,
        peer: Index,
        slot: Index,
        target: Index,
        count: Index,
        channel: Index,
        reduces: bool,
        after: Index,
    ) -> Ints:
        names = "rank", "peer", "slot", "target", "count", "channel"
        whole = map(whole_numbers, names, (rank, peer, slot, target, count, channel))
        columns = [column.ravel() for column in np.broadcast_arrays(*whole)]
        if np.min(columns[5], initial=0) < 0 or np.max(columns[5], initial=0) > LANES:
            raise InputError(f"channel {channel}: channels run from 0 to {LANES}")
        if np.any(columns[2] < 0) or np.any(columns[3] < 0) or np.any(columns[4] < 1):
            raise InputError(
                f"slot {slot} to {target}, {count} of them: one or more, and a rank has "
                f"{len(self.slots)}"
            )
        self._check_ranks(columns[0], columns[1])
        self.slots.check(*columns[:5], reduces=reduces, local=False)
        places = dict(
            zip(("rank", "peer", "source", "target", "count", "lane"), columns, strict=True)
        )
        nbytes = self.slots.bytes_of(columns[2], columns[4])
        return self._append(after, kind=TRANSFER, reduces=reduces, nbytes=nbytes, **places)

    def _append(
        self, after: Index, **values: Index | bool | float | npt.NDArray[np.floating]
    ) -> Ints:
        earlier = whole_numbers("after", after)
        size = np.broadcast(*values.values(), _ONE).size
        first, last = self._size, self._size + size
        waits = _waits(first, last, earlier) if earlier.size else None
        self._grow(last)
        if size and "phase" not in values:
            values["phase"] = self._phases.setdefault(self._phase, len(self._phases))
        for name, column in self._columns.items():
            column[first:last] = values.get(name, 0)
        self._size = last
        if waits is not None:
            self._after.append(waits)
        return np.arange(first, last, dtype=np.int32)

    def _check_ranks(self, *ends: Column) -> None:
        for ranks in ends:
            if ranks.size and (ranks.min() < 0 or ranks.max() >= self.ranks):
                raise InputError(
                    f"rank {ranks.min()} to {ranks.max()}: ranks run from 0 to {self.ranks - 1}"
                )

    def _grow(self, size: int) -> None:
        if size > LIMIT:
            raise InputError(f"{size} operations: a schedule has at most {LIMIT}, take fewer ranks")
        if self._built:
            self._columns = {name: column.copy() for name, column in self._columns.items()}
            self._built = False
        capacity = len(self._columns["kind"])
        if size > capacity:
            for column in self._columns.values():
                column.resize(max(size, 2 * capacity), refcheck=False)

    def _explicit(self) -> tuple[npt.NDArray[np.int64], Ints]:
        waits = np.concatenate([np.zeros(0, np.int32), *(waits for waits, _ in self._after)])
        indices = np.concatenate([np.zeros(0, np.int32), *(indices for _, indices in self._after)])
        indptr = np.zeros(self._size + 1, dtype=np.int64)
        np.cumsum(np.bincount(waits, minlength=self._size), out=indptr[1:])
        return indptr, indices[np.argsort(waits, kind="stable")]


def _waits(first: int, last: int, after: npt.NDArray[np.int64]) -> tuple[Ints, Ints]:
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
