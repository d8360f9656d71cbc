"""Writes schedules: an algorithm states who sends what to whom, the builder derives who waits for
whom."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from simulator.kernels.records import Accesses, Csr
from simulator.schedules.schedule import COMPUTE, LIMIT, TRANSFER, Schedule
from simulator.schedules.shifts import Fold, Folded, SlotMove, accesses, rotations
from simulator.schedules.slots import Calls, Cut, Sizes, Slots, pairs_of
from simulator.schedules.whole_numbers import Index, whole_number, whole_numbers
from topologies.columns import owners
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Numbers

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
    call. :meth:`build` refuses calls whose operations are in each other's way.

    `slots` cuts the buffer of V = `nbytes` bytes: a number of equal shares, or the shares
    themselves. If ranks differ, the shares have a row for each rank. `scratch` slots come after the
    buffer: a number of them, each as large as the first slot, or their shares. The last `unordered`
    of them are state that is shared in no fixed order: from them no dependency is derived, the
    order is that of service. `servers` are ranks after the `ranks` workers that own no data of the
    collective; the `switches` after them are switches that reduce and multicast what passes
    through: they begin with zeros and hold no memory that counts.

    With folded `ranks` the operations are those of one rank of each orbit, which stand for all:
    see :func:`simulator.schedules.shifts.fold`.
    """

    def __init__(
        self,
        ranks: int | Folded,
        nbytes: float,
        *,
        slots: Cut = 1,
        scratch: Cut = 0,
        unordered: int = 0,
        servers: int = 0,
        switches: int = 0,
        phase: str = "transfer",
    ) -> None:
        folded = ranks if isinstance(ranks, Folded) else Folded(rotations(1), ())
        count = folded.shifts.ranks if isinstance(ranks, Folded) else ranks
        ranks, servers, switches = map(
            whole_number, ("ranks", "servers", "switches"), (count, servers, switches)
        )
        if ranks < 1:
            raise InputError(f"ranks must be at least 1, got {ranks}")
        if min(servers, switches) < 0:
            raise InputError(f"servers are {servers}, switches {switches}: 0 or more")
        if folded.shifts.order > 1 and servers + switches:
            raise InputError(f"servers are {servers}, switches {switches}: folded, 0 of both")
        if not 0 < nbytes < np.inf:
            raise InputError(f"nbytes is {nbytes}: it is above 0")
        self.ranks, self.workers, self.switches = ranks + servers + switches, ranks, switches
        self.shifts = folded.shifts if folded.shifts.order > 1 else None
        self.slots = Slots(self.ranks // folded.shifts.order, nbytes, slots, scratch, unordered)
        self._moves, self._channels, self._calls = list(folded.moves), folded.channels, Calls()
        self._size = 0
        self._columns = {name: np.zeros(1024, dtype=dtype) for name, dtype in _COLUMNS.items()}
        self._used = set[str]()
        """Columns with anything but zeros. The others take no memory."""
        self._built = False
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

    def each(self, ranks: Numbers | None = None) -> Numbers:
        """The ranks to write operations for: all, or of `ranks` those given; of a folded schedule
        the representatives among them."""
        chosen = np.arange(self.ranks) if ranks is None else ranks
        if self.shifts is None:
            return chosen
        return np.asarray(chosen[self.shifts.element(chosen) == 0])

    def place(self, rank: Numbers) -> Numbers:
        """Where the operation of each rank stands in an array of the operations of :meth:`each`."""
        return rank if self.shifts is None else self.shifts.place(rank)

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
        steps: int = 0,
    ) -> Ints:
        """`rank` sends `count` slots from `slot` on; `peer` adds them to what it holds at `target`
        (the same slots).

        Returns the numbers of the operations. Among equally short routes the `channel` chooses.
        `after` are operations to wait for besides what the slots imply: the same for all, shape
        (n,), or a row each, shape (operations, n), in which -1 is none. The first `steps` axes of
        the operands are steps: each sees the state after the step before.
        """
        places = {"rank": rank, "peer": peer, "slot": slot, "count": count, "channel": channel}
        return self._transfer(places, slot if target is None else target, True, after, steps)

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
        steps: int = 0,
    ) -> Ints:
        """As :meth:`reduce`, but `peer` overwrites what it holds."""
        places = {"rank": rank, "peer": peer, "slot": slot, "count": count, "channel": channel}
        return self._transfer(places, slot if target is None else target, False, after, steps)

    def signal(self, rank: Index, peer: Index, *, nbytes: float = 0.0, after: Index = ()) -> Ints:
        """A control message: it carries no slot, and waits for `after` alone."""
        if not 0 <= nbytes < np.inf:
            raise InputError(f"a message has {nbytes} bytes: 0 or more")
        rank, peer = whole_numbers("rank", rank), whole_numbers("peer", peer)
        self._check_ranks(rank, peer)
        places = {"rank": rank, "peer": peer, "source": -1, "target": -1}
        return self._append(after, {"kind": TRANSFER, "nbytes": nbytes} | places)

    def compute(
        self,
        rank: Index,
        seconds: float | Floats,
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
        ranks, source, target, number = columns
        self._check_ranks(ranks)
        self.slots.check(source, target, number)
        used = np.where((source < 0) & (target < 0), 0, number)
        places = {
            "rank": ranks,
            "peer": ranks,
            "source": source,
            "target": target,
            "count": used,
        }
        added = self._append(after, {"kind": COMPUTE, "seconds": seconds, "lane": lane} | places)
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
        place = place.astype(np.int32)
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
        ).astype(np.int32)
        if phase is not None:
            self.phase(phase)
        names = np.array(
            [self._phases.setdefault(phase or name, len(self._phases)) for name in child.phases],
            dtype=np.int16,
        )
        first = self._size
        columns = {name: getattr(child, name) for name in _COLUMNS} | {
            "rank": place[child.rank],
            "peer": place[child.peer],
            "source": place_of[child.source],
            "target": place_of[child.target],
            "phase": names[child.phase] if len(child) else child.phase,
        }
        added = self._append(after, columns, calls=self._calls_of(child, slot, behind))
        waits = owners(child.indptr)
        self._calls.waits.append((waits + np.int32(first), child.indices + np.int32(first)))
        self._lanes = max(self._lanes, child.lanes)
        return added

    def build(self) -> Schedule:
        """The schedule, with the predecessors of every operation. Raises InputError where one
        operation of a step writes what another reads, or two overwrite the same slot."""
        for column in self._columns.values():
            column.resize(self._size, refcheck=False)
        self._built = True
        columns = dict(self._columns)
        fold = None
        if self.shifts is not None:
            moves = tuple(dict.fromkeys(self._moves))
            fold = Fold(self.shifts, moves, self._calls.numbers, self._channels)
        indptr, indices = self._derived(columns, fold)
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
            fold=fold,
            **columns,
        )

    def _derived(self, columns: dict[str, Any], fold: Fold | None) -> Csr:
        source, target = (self.slots.in_order(columns[name]) for name in ("source", "target"))
        owner, ranks = np.arange(self._size, dtype=np.int32), self.ranks
        rows = Accesses(owner, columns["rank"], columns["peer"], source, target, columns["count"])
        if fold is not None:
            rows, ranks = accesses(fold, rows), ranks // fold.order
        return self._calls.derive(rows, columns, ranks, len(self.slots))

    def _calls_of(self, child: Schedule, slot: int, scratch: int) -> Sizes:
        """The calls of a schedule that is added: the sizes, and how many have each. Its slots move
        as they did."""
        fold = (None, ()) if child.fold is None else (child.fold.shifts, child.fold.channels)
        if fold != (self.shifts, self._channels) and len(child):
            raise InputError("a schedule is added to one that is folded alike")
        if child.fold is None:
            return 1, len(child)
        for axis, first, inner, end in child.fold.moves:
            base = slot if first < child.buffer else scratch - child.buffer
            self._moves.append(SlotMove(axis, base + first, inner, base + end))
        sizes = np.bincount(child.fold.call).astype(np.int32)
        return sizes, np.ones(len(sizes), dtype=np.int32)

    def _transfer(
        self, places: dict[str, Index], target: Index, reduces: bool, after: Index, steps: int
    ) -> Ints:
        rank, peer, slot, count, channel = map(whole_numbers, *zip(*places.items(), strict=True))
        target = whole_numbers("target", target)
        if np.min(channel, initial=0) < 0 or np.max(channel, initial=0) > LANES:
            raise InputError(f"channel {places['channel']}: channels run from 0 to {LANES}")
        if np.any(slot < 0) or np.any(target < 0) or np.any(count < 1):
            raise InputError(
                f"slot {slot} to {target}, {count} of them: one or more, and a rank has "
                f"{len(self.slots)}"
            )
        self._check_ranks(rank, peer)
        self.slots.check(slot, target, count)
        nbytes = self.slots.bytes_of(rank, slot, count)
        columns = {
            "kind": TRANSFER,
            "rank": rank,
            "peer": peer,
            "source": slot,
            "target": target,
            "count": count,
            "reduces": reduces,
            "nbytes": nbytes,
            "lane": channel,
        }
        return self._append(after, columns, steps=steps)

    def _append(
        self,
        after: Index,
        values: dict[str, Any],
        *,
        steps: int = 0,
        calls: Sizes | None = None,
    ) -> Ints:
        earlier = whole_numbers("after", after)
        shape = np.broadcast(*values.values(), _ONE).shape
        first, last = self._size, self._size + prod(shape)
        waits = pairs_of(first, last, earlier) if earlier.size else None
        self._grow(last)
        if last > first and "phase" not in values:
            values["phase"] = self._phases.setdefault(self._phase, len(self._phases))
        for name, value in values.items():
            if name in self._used or np.any(value):
                self._used.add(name)
                self._columns[name][first:last].reshape(shape)[...] = value
        if self.shifts is not None and np.any(
            self.shifts.element(self._columns["rank"][first:last])
        ):
            raise InputError("a folded schedule is written for its representatives: see each()")
        self._size = last
        rows = prod(shape[:steps])
        self._calls.sizes.append(((last - first) // max(1, rows), rows) if calls is None else calls)
        if waits is not None:
            self._calls.waits.append(waits)
        return np.arange(first, last, dtype=np.int32)

    def _check_ranks(self, *ends: Numbers) -> None:
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
            for name, column in self._columns.items():
                longer = np.zeros(max(size, 2 * capacity), column.dtype)
                if name in self._used:
                    longer[: self._size] = column[: self._size]
                self._columns[name] = longer
