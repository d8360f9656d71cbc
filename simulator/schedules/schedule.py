"""A schedule as columns, a row for each operation: which rank sends what to which rank, and after
what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simulator.kernels import dependencies
from simulator.kernels.records import COMPUTE as COMPUTE
from simulator.kernels.records import TRANSFER as TRANSFER
from simulator.kernels.records import Csr, Operations
from simulator.kernels.records import Flags as Flags
from simulator.schedules.shifts import Fold
from topologies.errors import InputError
from topologies.html_tables import facts, table
from topologies.jit import kernel
from topologies.topology import Floats, Ints
from topologies.units import format_bytes

LIMIT = 2**30
"""Operations of a schedule, and slots of all its ranks together: indices are 32 bits wide."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Operations on the slots of ranks, built by
    :class:`simulator.schedules.schedule_builder.ScheduleBuilder`.

    Every slot of a rank is either in its buffer or scratch. Columns have a row for each operation.
    """

    ranks: int
    """All ranks: workers, then servers, then switches."""
    workers: int
    """The ranks that own data."""
    switches: int
    """The ranks that are switches that reduce and multicast."""
    nbytes_total: float
    """V in bytes."""
    buffer: int
    """The slots of a rank that are its buffer: the first ones. The others are scratch."""
    shares: Floats
    """The size of each slot as a share of V: of shape (slots,) if all ranks are alike, else
    (ranks, slots)."""
    phases: tuple[str, ...]
    """The names of the phases."""
    lanes: int
    """The number of lanes of a rank."""
    kind: Flags
    """COMPUTE or TRANSFER."""
    rank: Ints
    """The rank that computes or sends."""
    peer: Ints
    """The rank that receives. A transfer from a rank to itself is local."""
    source: Ints
    """The first slot to read; -1 for none."""
    target: Ints
    """The first slot to write; -1 for none."""
    count: Ints
    """The number of slots to read and write."""
    reduces: Flags
    """Whether the transfer adds to the target; otherwise it overwrites the target."""
    nbytes: Floats
    """The bytes of a transfer."""
    seconds: Floats
    """The duration of a computation."""
    lane: npt.NDArray[np.int16]
    """The lane of a computation, or the channel of a transfer."""
    phase: npt.NDArray[np.int16]
    """The phase, as a place in `phases`."""
    indptr: Ints
    """Operation i waits for `indices[indptr[i]:indptr[i + 1]]`."""
    indices: Ints
    """The numbers of these operations: all are lower than i."""
    fold: Fold | None = None
    """How the operations stand for those of all ranks, if they do: then the columns are those of
    one rank of each orbit."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def slots(self) -> int:
        """Slots a rank, scratch included."""
        return int(self.shares.shape[-1])

    @cached_property
    def remote(self) -> npt.NDArray[np.bool_]:
        """Which operations are transfers between two ranks."""
        return np.asarray((self.kind == TRANSFER) & (self.rank != self.peer), dtype=np.bool_)

    @property
    def volume(self) -> float:
        """Bytes that all transfers between ranks move together."""
        return float(self.nbytes[self.remote].sum()) * self.members

    @property
    def members(self) -> int:
        """The number of operations for which each stands: one, unless the schedule is folded."""
        return 1 if self.fold is None else self.fold.order

    @cached_property
    def steps(self) -> int:
        """Transfers between ranks on the longest dependency chain."""
        return int(self.depth().max(initial=0))

    def depth(self) -> Ints:
        """Transfers between ranks on the longest dependency chain that ends with each operation."""
        chain = kernel(dependencies.chain, len(self))
        depth: Ints = chain(self.remote.astype(np.int8), self.indptr, self.indices)
        return depth

    @cached_property
    def successors(self) -> Csr:
        """The operations that wait for each operation."""
        indptr = np.zeros(len(self) + 2, dtype=np.int32)
        indices = np.empty(len(self.indices), dtype=np.int32)
        kernel(dependencies.invert, len(self))(self.indptr, self.indices, indptr, indices)
        return Csr(indptr[:-1], indices)

    @property
    def operations(self) -> Operations:
        """The columns for kernels."""
        return Operations(*(getattr(self, name) for name in Operations._fields))

    def _repr_html_(self) -> str:
        transfers = np.flatnonzero(self.remote)
        values: list[tuple[str, object]] = [
            ("ranks", self.ranks),
            ("V", format_bytes(self.nbytes_total)),
            ("slots of a rank", self.slots),
            ("steps", self.steps),
            ("transfers", len(transfers) * self.members),
            ("bytes sent by all ranks", format_bytes(self.volume)),
        ]
        if self.fold is not None:
            values.append(("each listed transfer stands for", f"{self.members} transfers"))
        header = ("transfer", "from rank", "to rank", "bytes", "at the target", "phase")
        rows = [
            (
                number,
                self.rank[number],
                self.peer[number],
                format_bytes(float(self.nbytes[number])),
                "adds" if self.reduces[number] else "overwrites",
                self.phases[phase] if 0 <= phase < len(self.phases) else "",
            )
            for number, phase in zip(transfers[:8], self.phase[transfers[:8]], strict=True)
        ]
        more = f"<p>and {len(transfers) - 8} more transfers</p>" if len(transfers) > 8 else ""
        return facts("Schedule", values) + table(header, rows) + more

    def sent(self) -> Floats:
        """Bytes that each rank sends to others, shape (ranks,)."""
        sent = np.bincount(self.rank[self.remote], self.nbytes[self.remote], self.ranks)
        if self.fold is not None:
            sent = sent[self.fold.shifts.folded(np.arange(self.ranks))]
        return np.asarray(sent, dtype=np.float64)

    @property
    def longest_message(self) -> float:
        """The bytes of the longest transfer between two ranks; 0 without any."""
        return float(self.nbytes[self.remote].max(initial=0.0))

    @cached_property
    def message_sizes(self) -> tuple[Floats, Floats]:
        """The sizes of transfers between two ranks in bytes, and how many operations have each."""
        sizes, counts = np.unique(self.nbytes[self.remote], return_counts=True)
        return sizes, counts.astype(np.float64)

    def exchanged(self, beyond: float, node: Ints) -> Floats:
        """The bytes of the longest message of each step in which ranks on two nodes send each other
        more than `beyond` bytes.

        Steps are in their order. `node` is the node of every rank, shape (ranks,). Transfers are of
        one step if equally many must precede them.
        """
        between_nodes = node[self.rank] != node[self.peer]
        chosen = np.flatnonzero(self.remote & between_nodes & (self.nbytes > beyond))
        if not len(chosen):
            return np.zeros(0)
        columns = self.depth(), self.rank, self.peer
        step, rank, peer = (column[chosen].astype(np.int64) for column in columns)
        back = peer, rank
        if self.fold is not None:
            shifts = self.fold.shifts
            back = shifts.folded(peer), shifts.back(rank, shifts.element(peer))
        mutual = np.isin(
            (step * self.ranks + back[0]) * self.ranks + back[1],
            (step * self.ranks + rank) * self.ranks + peer,
        )
        longest = np.zeros(int(step.max()) + 1)
        np.maximum.at(longest, step[mutual], self.nbytes[chosen][mutual])
        return longest[longest > 0]

    def scaled(self, nbytes: float) -> Schedule:
        """The same schedule for V = `nbytes`.

        It shares all columns but the bytes, and everything that does not depend on them. Messages
        without slots keep their size.
        """
        if not 0 < nbytes < np.inf:
            raise InputError(f"nbytes is {nbytes}: it is above 0")
        moved, fixed = self.nbytes * (nbytes / self.nbytes_total), self.source < 0
        moved[fixed] = self.nbytes[fixed]
        changed = replace(self, nbytes_total=nbytes, nbytes=moved)
        return _with_computed(changed, self)

    def renumbered(self, number: Ints) -> Schedule:
        """The same schedule in which worker r is called `number[r]`, a permutation of the workers.
        Servers and switches keep their numbers."""
        number = np.append(number, np.arange(self.workers, self.ranks)).astype(np.int32)
        shares = self.shares if self.shares.ndim == 1 else self.shares[np.argsort(number)]
        changed = replace(self, rank=number[self.rank], peer=number[self.peer], shares=shares)
        return _with_computed(changed, self)

    def predecessors(self, operation: int) -> Ints:
        """The operations that `operation` waits for."""
        return self.indices[self.indptr[operation] : self.indptr[operation + 1]]


_SIZELESS = ("remote", "successors", "steps", "followed")
"""What is computed of a schedule once, whatever its size."""


def _with_computed(changed: Schedule, schedule: Schedule) -> Schedule:
    """Keep what has been computed of a schedule for one that differs in size or in the names of
    ranks."""
    computed = vars(schedule)
    vars(changed).update({name: computed[name] for name in _SIZELESS if name in computed})
    return changed
