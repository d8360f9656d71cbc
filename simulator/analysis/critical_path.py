"""The critical path of a run: what it waited for, how much each parameter contributes, and which
rank waits on which link behind which ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from simulator.analysis.contention import SHORTEST_WAIT, history, mean_rate
from simulator.kernels import path
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import Flags
from simulator.schedules.timeline import Timeline
from topologies.columns import distinct_rows, sums
from topologies.errors import InputError
from topologies.jit import kernel
from topologies.topology import Floats, Ints

Part = Literal["compute", "latency", "gap", "serialisation", "reduction", "copy"]
SEGMENT_PARTS: tuple[Part, ...] = get_args(Part)
PARTS: tuple[str, ...] = (*SEGMENT_PARTS, "contention")


class PathSegment(NamedTuple):
    """A piece of the critical path.

    Under fair sharing there are no queues. A transfer waits for the bytes that share its links, as
    many as its slowest medium carries meanwhile. Such a segment is contended for the share of these
    bytes that other ranks sent.
    """

    part: Part
    """The part of the path."""
    seconds: float
    """The time that the segment takes."""
    operation: int
    """The operation that takes it."""
    where: int
    """The link of a latency, the medium of a gap or serialisation, and else the rank."""
    amount: float
    """1 for a latency or gap, seconds for a computation, and else bytes."""
    waiter: int
    """The operation that waited in a queue for `operation`, else `operation`."""
    contended: bool
    """Whether the two operations have different ranks."""
    rank: int
    """The rank of `operation`: of a folded schedule, the rank that uses `where`."""
    waiting: int
    """The rank of `waiter`, likewise."""


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """A critical path as columns of segments, from the last finish back to the start. Iteration
    gives segments."""

    part: Flags
    """The part of each segment, as a place in SEGMENT_PARTS."""
    seconds: Floats
    operation: Ints
    where: Ints
    amount: Floats
    waiter: Ints
    contended: npt.NDArray[np.bool_]
    rank: Ints
    waiting: Ints

    def __len__(self) -> int:
        return len(self.part)

    def __iter__(self) -> Iterator[PathSegment]:
        names = (SEGMENT_PARTS[number] for number in self.part.tolist())
        columns = (getattr(self, field.name).tolist() for field in fields(self)[1:])
        return map(PathSegment, names, *columns)

    @property
    def charged(self) -> Flags:
        """The part to which each segment counts, as a place in PARTS."""
        return np.where(self.contended, PARTS.index("contention"), self.part)

    def take(self, chosen: npt.NDArray[np.bool_ | np.integer]) -> CriticalPath:
        """Some of the segments."""
        return CriticalPath(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @classmethod
    def joined(cls, paths: Iterable[CriticalPath]) -> CriticalPath:
        """Paths, one after the other."""
        several = list(paths)
        columns = (
            np.concatenate([getattr(path, field.name) for path in several]) for field in fields(cls)
        )
        return cls(*columns)

    @classmethod
    def empty(cls) -> CriticalPath:
        """A path of no time."""
        whole, real = np.int32, np.float64
        dtypes = (np.int8, real, whole, whole, real, whole, np.bool_, whole, whole)
        columns: list[Any] = [np.zeros(0, dtype) for dtype in dtypes]
        return cls(*columns)

    def total(self, part: Part, length: int) -> Floats:
        """The amounts of a part by where, shape (length,)."""
        chosen = self.part == SEGMENT_PARTS.index(part)
        return sums(self.where[chosen], self.amount[chosen], length)


class MachineCosts(NamedTuple):
    """What links and ranks of several machines cost, a row for each."""

    latency: Floats
    gap: Floats
    inverse_bandwidth: Floats
    reduction: Floats
    copy: Floats

    @classmethod
    def of(cls, machines: Sequence[Routed]) -> MachineCosts:
        """Those of the same routes on each machine."""
        rows = [
            (
                each.topology.latency,
                each.topology.medium_gap,
                1 / each.topology.medium_bandwidth,
                each.reduction,
                each.copy,
            )
            for each in machines
        ]
        return cls(*map(np.array, zip(*rows, strict=True)))


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """One-sided derivatives of the makespan. They are exact while the order of service does not
    change."""

    latency: Floats
    """The derivative by the α of each link."""
    gap: Floats
    """The derivative by the g of each medium."""
    inverse_bandwidth: Floats
    """Bytes: the derivative by the 1/β of each medium."""
    reduction: Floats
    """Bytes: the derivative by the γ of each rank."""
    copy: Floats
    """Bytes: the derivative by the seconds of a copied byte at each rank."""
    nbytes: float
    """V of the run in bytes."""

    def seconds(self, routed: Routed) -> float:
        """The time of the same path at the V and on the machine of `routed`."""
        apiece = self.reduction @ routed.reduction + self.copy @ routed.copy
        return sum(self.on_links(routed)) + self._scale(routed) * float(apiece)

    def seconds_of(self, costs: MachineCosts, nbytes: float) -> Floats:
        """The same for V = `nbytes` on several machines, shape (machines,)."""
        before = costs.latency @ self.latency + costs.gap @ self.gap
        crossing = costs.inverse_bandwidth @ self.inverse_bandwidth
        apiece = costs.reduction @ self.reduction + costs.copy @ self.copy
        return np.asarray(before + nbytes / self.nbytes * (crossing + apiece))

    def on_links(self, routed: Routed) -> tuple[float, float]:
        """Seconds of the path's α and g, and of its bytes on links, as in :meth:`seconds`."""
        machine = routed.topology
        before = self.latency @ machine.latency + self.gap @ machine.medium_gap
        crossing = float(self.inverse_bandwidth @ (1 / machine.medium_bandwidth))
        return float(before), self._scale(routed) * crossing

    def _scale(self, routed: Routed) -> float:
        return routed.schedule.nbytes_total / self.nbytes


def critical_path(timeline: Timeline, last: int | None = None) -> CriticalPath:
    """The critical path, from the last finish or that of operation `last` back to the start.

    The seconds of its segments add up to the makespan, or to the finish of `last`.
    """
    if timeline.makespan == 0:
        return CriticalPath.empty()
    timeline = timeline.causes
    if last is None:
        last = int(np.argmax(timeline.finish))
    seconds, names = kernel(path.walk, 0)(history(timeline), np.int64(last))
    part, operation, where, waiter, contended, occupant, place = np.ascontiguousarray(names.T)
    duration, amount = np.ascontiguousarray(seconds.T)
    ranks = _ranks(timeline, (operation, occupant)), _ranks(timeline, (waiter, place))
    return CriticalPath(
        part.astype(np.int8),
        duration,
        operation,
        where,
        amount,
        waiter,
        contended.astype(np.bool_),
        *ranks,
    )


def _ranks(timeline: Timeline, places: tuple[Ints, Ints]) -> Ints:
    """The ranks that have operations, or that have nodes where these are not -1."""
    operation, node = places
    sender = timeline.routed.sender[np.maximum(node, 0)]
    return np.where(node < 0, timeline.schedule.rank[operation], sender)


def parts(path: CriticalPath) -> dict[str, float]:
    """Seconds of the path by part.

    While an operation waits behind messages of its rank, the parts of these messages count, mostly
    serialisation. While it waits behind another rank's messages, the part is contention.
    """
    total = np.bincount(path.charged, path.seconds, len(PARTS))
    return dict(zip(PARTS, total.tolist(), strict=True))


def worth(path: CriticalPath) -> dict[Part, float]:
    """Seconds of the makespan by parameter, with queues: to first order, what the run saves if the
    parameter is 0."""
    total = np.bincount(path.part, path.seconds, len(SEGMENT_PARTS))
    return dict(zip(SEGMENT_PARTS, total.tolist(), strict=True))


def sensitivities(timeline: Timeline) -> Sensitivities:
    """The counts of the critical path.

    Raises InputError under fair sharing, where they are no derivatives.
    """
    if timeline.sharing == "fair":
        raise InputError(
            "sharing is 'fair': sensitivities are counts of a path under 'fifo', simulate again "
            "with other links"
        )
    topology = timeline.routed.topology
    media, ranks = len(topology.medium_bandwidth), timeline.schedule.ranks
    rows = critical_path(timeline)
    return Sensitivities(
        rows.total("latency", len(topology.latency)),
        rows.total("gap", media),
        rows.total("serialisation", media),
        rows.total("reduction", ranks),
        rows.total("copy", ranks),
        timeline.schedule.nbytes_total,
    )


# Waits for other ranks.


class QueueWait(NamedTuple):
    """A wait of messages of one rank behind messages of other ranks."""

    where: str
    """The medium, or the merging of a rank."""
    waiter: int
    """The rank that waits."""
    behind: tuple[int, ...]
    """The ranks of the messages in front, the longest wait first."""
    seconds: float
    """The time of the wait."""


def waits(timeline: Timeline, path: CriticalPath) -> list[QueueWait]:
    """The waits for other ranks on the critical path, the longest first; without rounding, and
    without what whole collectives lose to others."""
    waiting = path.contended & (path.seconds > 0) & (path.part != SEGMENT_PARTS.index("compute"))
    path = path.take(waiting)
    seconds_of: dict[tuple[bool, int, int], dict[int, float]] = {}
    for segment in _summed(path) if timeline.sharing == "fifo" else path:
        is_medium, where, waiter, seconds_by_rank = _occupants(timeline, segment)
        behind = seconds_of.setdefault((is_medium, where, waiter), {})
        for rank, seconds in seconds_by_rank.items():
            behind[rank] = behind.get(rank, 0.0) + seconds
    names = timeline.routed.topology.medium_names
    every = [
        QueueWait(
            names[where] if is_medium else f"merging on rank {where}",
            waiter,
            tuple(sorted(behind, key=lambda rank: (-behind[rank], rank))),
            sum(behind.values()),
        )
        for (is_medium, where, waiter), behind in seconds_of.items()
    ]
    real = [wait for wait in every if wait.seconds > SHORTEST_WAIT * timeline.makespan]
    return sorted(real, key=lambda wait: -wait.seconds)


def _summed(path: CriticalPath) -> CriticalPath:
    """One segment for all in which the same rank waits for the same rank, in the order of the
    first of each."""
    crosses = np.isin(path.part, [SEGMENT_PARTS.index(part) for part in ("serialisation", "gap")])
    first, number = distinct_rows(path.where, crosses, path.waiting, path.rank, met=True)
    seconds = np.bincount(number, path.seconds, len(first))
    return replace(path.take(first), seconds=np.asarray(seconds, dtype=np.float64))


def _occupants(timeline: Timeline, segment: PathSegment) -> tuple[bool, int, int, dict[int, float]]:
    """Whether a contended segment waited for a medium, and not for the merging of a rank; which;
    the rank that waited; and its seconds by the rank that it waited for."""
    seconds = {segment.rank: segment.seconds}
    if segment.operation == segment.waiter:
        medium, waiter, shares = _sharers(timeline, segment.operation)
        seconds = {rank: share * segment.seconds for rank, share in shares.items()}
        return True, medium, waiter, seconds
    return segment.part in ("serialisation", "gap"), segment.where, segment.waiting, seconds


def _sharers(timeline: Timeline, flow: int) -> tuple[int, int, dict[int, float]]:
    """The medium of a flow's route on which other ranks send most meanwhile, the rank of the flow,
    and the shares of the others in these bytes."""
    uses = timeline.occupancy
    rank, mine = timeline.routed.sender[uses.node], np.flatnonzero(uses.operation == flow)
    start, end = timeline.start[flow], timeline.sent[flow]
    overlap = np.minimum(uses.start + uses.seconds, end) - np.maximum(uses.start, start)
    rows = np.flatnonzero(np.isin(uses.medium, uses.medium[mine]) & (overlap > 0))
    nbytes, rank_of_row = mean_rate(uses)[rows] * overlap[rows], rank[rows]
    by_hop = [
        np.bincount(
            rank_of_row,
            np.where((uses.medium[rows] == uses.medium[k]) & (rank_of_row != rank[k]), nbytes, 0.0),
        )
        for k in mine
    ]
    most = int(np.argmax([by_rank.sum() for by_rank in by_hop]))
    by_rank, row = by_hop[most], mine[most]
    shares = {int(k): float(by_rank[k] / by_rank.sum()) for k in np.flatnonzero(by_rank)}
    return int(uses.medium[row]), int(rank[row]), shares
