"""What kernels take and return: arrays under names, as tuples that Numba compiles."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.columns import Floats as Floats
from topologies.columns import Ints as Ints
from topologies.columns import Longs as Longs
from topologies.columns import Numbers, starts

COMPUTE, TRANSFER = 0, 1
"""Kinds of operations."""
Index = int | np.integer
"""A whole number, as an array has it or not."""
Flags = npt.NDArray[np.int8]
Unsigned = npt.NDArray[np.uint32]
Values = npt.NDArray[np.uint64]
Table = Annotated[Values, 2]
"""Values in rows and columns: of two dimensions."""
SAME = 1 + 1e-12
"""Shares of bandwidth within this factor are equal: rounding makes no differences between flows."""


class Csr(NamedTuple):
    """A list for each row: that of row k is `indices[indptr[k]:indptr[k + 1]]`."""

    indptr: Ints
    indices: Ints

    @classmethod
    def of(cls, row: Numbers, index: Numbers, rows: int) -> Csr:
        """The lists of so many rows, from pairs of a row and an index; each list in the order of
        its pairs."""
        indptr = starts(np.bincount(row, minlength=rows))
        return cls(indptr, index[np.argsort(row, kind="stable")].astype(np.int32, copy=False))


class Operations(NamedTuple):
    """The columns of a schedule that kernels read, shape (operations,) each; see
    :class:`simulator.schedules.schedule.Schedule`."""

    kind: Flags
    rank: Ints
    peer: Ints
    source: Ints
    target: Ints
    count: Ints  # type: ignore[assignment]
    reduces: Flags
    nbytes: Floats
    seconds: Floats
    lane: npt.NDArray[np.int16]


class Accesses(NamedTuple):
    """What operations read and write: a row for each operation, or several one after the other."""

    owner: Ints
    """The operation of each row."""
    rank: Ints
    peer: Ints
    source: Ints
    """The first slot that is read at `rank`, or -1."""
    target: Ints
    """The first slot that is written at `peer`, or -1."""
    count: Ints  # type: ignore[assignment]
    """The number of slots."""


class Routes(NamedTuple):
    """The route of each operation, and its nodes; see
    :class:`simulator.schedules.routed.Routed`."""

    route: Ints
    """The route of each operation."""
    indptr: Ints
    """Route r takes `links[indptr[r]:indptr[r + 1]]`."""
    links: Ints
    nodes: Ints
    """Operation i has the nodes `nodes[i]` to `nodes[i + 1]`."""


class Network(NamedTuple):
    """The links of a topology, and the media that they cross."""

    latency: Floats
    """Seconds of each link (α)."""
    indptr: Ints
    """Link k crosses `media[indptr[k]:indptr[k + 1]]`."""
    media: Ints
    bandwidth: Floats
    """Bytes/s of each medium (β)."""
    gap: Floats
    """Seconds a message of each medium (g)."""
    grid: float
    """What rounds seconds to whole ticks when it is added and taken away again; 0: not rounded."""


class Ranks(NamedTuple):
    """What ranks need for work of their own."""

    reduction: Floats
    """Seconds a byte of each rank that it adds to another (γ)."""
    copy: Floats
    """Seconds a byte of each rank that it copies."""
    lanes: int
    """Lanes of computations of every rank. A further lane is for the work at the end of
    transfers."""

    @property
    def serials(self) -> int:
        """The number of all lanes of all ranks."""
        return len(self.copy) * (self.lanes + 1)


class Work(NamedTuple):
    """A schedule on a topology: what an engine runs."""

    operations: Operations
    predecessors: Csr
    """The operations that each operation waits for."""
    routes: Routes
    network: Network
    ranks: Ranks


class FlowRoutes(NamedTuple):
    """What a route is to a flow, which has all of its links at once."""

    gap: Floats
    """The greatest gap of the media of each route, in seconds."""
    latency: Floats
    """The sum of the latencies of each route, in seconds."""
    indptr: Unsigned
    media: Unsigned
    """The media that limit route r are `media[indptr[r]:indptr[r + 1]]`, each as often as the route
    crosses it."""

    def media_of(self, route: int) -> Unsigned:
        """The media that limit a route."""
        return self.media[self.indptr[route] : self.indptr[route + 1]]


class Times(NamedTuple):
    """When everything happens, in seconds from the start; see
    :class:`simulator.schedules.timeline.Timeline`."""

    ready: Floats
    """When the last predecessor of each operation finishes."""
    finish: Floats
    """When each operation finishes."""
    start: Floats
    """When each node starts."""
    cause: Ints
    """The node that held the medium or lane for which each node queued, or -1."""
    sent: Floats
    """When the last byte of each operation is sent; empty but under fair sharing."""

    @classmethod
    def blank(cls, work: Work, fair: bool = False) -> Times:
        """Nothing has happened yet."""
        operations, nodes = len(work.operations.kind), int(work.routes.nodes[-1])
        start, cause = np.zeros(nodes), np.full(nodes, -1, np.int32)
        sent = np.zeros(operations if fair else 0)
        return cls(np.zeros(operations), np.zeros(operations), start, cause, sent)


class Turns(NamedTuple):
    """Media or lanes that serve one node after the other."""

    free: Floats
    """When each is free."""
    holder: Ints
    """The last node that each served, or -1."""

    @classmethod
    def of(cls, count: int) -> Turns:
        """All free from the start."""
        return cls(np.zeros(count), np.full(count, -1, np.int32))


class History(NamedTuple):
    """A run that is over."""

    work: Work
    times: Times
    sender: Ints
    """Who has each node; see :class:`simulator.schedules.routed.Routed`."""
    others: Floats
    """The share of what each flow waits for that other ranks cause; empty but under fair
    sharing."""
    fair: bool
    store_and_forward: bool
