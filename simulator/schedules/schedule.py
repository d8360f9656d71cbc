"""A schedule: who sends what to whom, and after what. One row an operation, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simulator.kernels import dependencies
from simulator.kernels.records import Csr, Operations
from simulator.kernels.records import Flags as Flags
from topologies._compile import kernel
from topologies.errors import InputError
from topologies.topology import Floats, Ints

COMPUTE, TRANSFER = 0, 1
LIMIT = 2**30
"""Operations of a schedule, and slots of all its ranks together: indices are 32 bits wide."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Operations on the slots of ranks, built by
    :class:`simulator.schedules.schedule_builder.ScheduleBuilder`.

    Operation i runs at `rank[i]`. A transfer reads the `count[i]` slots from `source[i]` on and
    writes as many at `peer[i]` from `target[i]` on: it adds to them where `reduces[i]`, else
    overwrites; -1 is no slot. It moves `nbytes[i]` bytes. With `rank == peer` it is local. A
    computation lasts `seconds[i]` on lane `lane[i]` of its rank; the lane of a transfer is its
    channel. It waits for `indices[indptr[i]:indptr[i + 1]]`, all lower than i. `phase[i]` indexes
    `phases`.

    The buffer of a rank is the first `buffer` slots; the others are scratch. Slot s holds
    `shares[s]` of the `nbytes_total` bytes (V). The first `workers` ranks own data, further ones
    serve; the last `switches` are switches that reduce and multicast.
    """

    ranks: int
    workers: int
    switches: int
    nbytes_total: float
    buffer: int
    shares: Floats
    phases: tuple[str, ...]
    lanes: int
    kind: Flags
    rank: Ints
    peer: Ints
    source: Ints
    target: Ints
    count: Ints
    reduces: Flags
    nbytes: Floats
    seconds: Floats
    lane: npt.NDArray[np.int16]
    phase: npt.NDArray[np.int16]
    indptr: Ints
    indices: Ints

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def slots(self) -> int:
        """Slots a rank, scratch included."""
        return len(self.shares)

    @cached_property
    def remote(self) -> npt.NDArray[np.bool_]:
        """Which operations are transfers between two ranks."""
        return np.asarray((self.kind == TRANSFER) & (self.rank != self.peer), dtype=np.bool_)

    @property
    def volume(self) -> float:
        """Bytes that all transfers between ranks move together."""
        return float(self.nbytes[self.remote].sum())

    @cached_property
    def steps(self) -> int:
        """Transfers between ranks on the longest dependency chain."""
        chain = kernel(dependencies.chain, len(self))
        return int(chain(self.remote.astype(np.int8), self.indptr, self.indices).max(initial=0))

    @cached_property
    def successors(self) -> Csr:
        """The operations that wait for each operation: the predecessors turned round."""
        return Csr(*kernel(dependencies.invert, len(self))(self.indptr, self.indices))

    @property
    def operations(self) -> Operations:
        """The columns for kernels."""
        return Operations(*(getattr(self, name) for name in Operations._fields))

    def sent(self) -> Floats:
        """Bytes that each rank sends to others, shape (ranks,)."""
        return np.asarray(
            np.bincount(self.rank[self.remote], self.nbytes[self.remote], self.ranks),
            dtype=np.float64,
        )

    def exchanged(self, beyond: float, node: Ints) -> Floats:
        """The longest message of each step in which ranks on two nodes send to each other messages
        of more than `beyond` bytes: bytes, in the order of the steps. `node` is that of every rank,
        shape (ranks,). Transfers are of one step if as many must precede them."""
        apart = node[self.rank] != node[self.peer]
        chosen = np.flatnonzero(self.remote & apart & (self.nbytes > beyond))
        if not len(chosen):
            return np.zeros(0)
        chain = kernel(dependencies.chain, len(self))(
            self.remote.astype(np.int8), self.indptr, self.indices
        )
        step, rank, peer = (
            column[chosen].astype(np.int64) for column in (chain, self.rank, self.peer)
        )
        mutual = np.isin(
            (step * self.ranks + rank) * self.ranks + peer,
            (step * self.ranks + peer) * self.ranks + rank,
        )
        longest = np.zeros(int(step.max()) + 1)
        np.maximum.at(longest, step[mutual], self.nbytes[chosen][mutual])
        return longest[longest > 0]

    def scaled(self, nbytes: float) -> Schedule:
        """The same for V = `nbytes`; every column but one is shared, and so is what was computed of
        them. Messages without slots keep their size."""
        if not 0 < nbytes < np.inf:
            raise InputError(f"nbytes is {nbytes}: it is above 0")
        moved = np.where(self.source >= 0, self.nbytes * (nbytes / self.nbytes_total), self.nbytes)
        changed = replace(self, nbytes_total=nbytes, nbytes=moved)
        vars(changed).update({name: vars(self)[name] for name in _SIZELESS if name in vars(self)})
        return changed

    def predecessors(self, operation: int) -> Ints:
        """The operations that `operation` waits for."""
        return self.indices[self.indptr[operation] : self.indptr[operation + 1]]


_SIZELESS = ("remote", "successors", "steps")
"""What is computed of a schedule once, whatever its size."""
