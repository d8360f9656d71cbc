"""The critical path of a run: what it waited for, and how much each parameter contributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.analysis.contention import history
from simulator.kernels import path
from simulator.schedules.schedule import Flags
from simulator.schedules.timeline import Timeline
from topologies._compile import kernel
from topologies.errors import InputError
from topologies.topology import Floats, Ints

Part = Literal["compute", "latency", "gap", "serialisation", "reduction", "copy"]
SEGMENT_PARTS: tuple[Part, ...] = (
    "compute",
    "latency",
    "gap",
    "serialisation",
    "reduction",
    "copy",
)
PARTS: tuple[str, ...] = (*SEGMENT_PARTS, "contention")


class Segment(NamedTuple):
    """A piece of the critical path.

    The `amount` is 1 for a latency or gap, bytes for a serialisation, reduction or copy, and
    seconds for a computation. `where` is the link of a latency, the medium of a gap or
    serialisation, and else the rank. The `waiter` is the operation that waited in a queue for this
    operation, else the operation itself. The segment is `contended` if the two have different
    ranks.

    Under fair sharing there are no queues. A transfer waits for the bytes that share its links, as
    many as its slowest medium carries meanwhile. Such a segment is contended for the share of these
    bytes that other ranks sent.
    """

    part: Part
    seconds: float
    operation: int
    where: int
    amount: float
    waiter: int
    contended: bool


@dataclass(frozen=True, eq=False)
class Path:
    """A critical path as columns: a row for each segment, from the last finish back to the start.

    `part` is a place in SEGMENT_PARTS. Iteration gives segments.
    """

    part: Flags
    seconds: Floats
    operation: Ints
    where: Ints
    amount: Floats
    waiter: Ints
    contended: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.part)

    def __iter__(self) -> Iterator[Segment]:
        names = (SEGMENT_PARTS[number] for number in self.part.tolist())
        columns = (
            self.seconds,
            self.operation,
            self.where,
            self.amount,
            self.waiter,
            self.contended,
        )
        return map(Segment, names, *(column.tolist() for column in columns))

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> Path:
        """The columns of segments."""
        rows = [(SEGMENT_PARTS.index(segment.part), *segment[1:]) for segment in segments]
        dtypes = (np.int8, np.float64, np.int32, np.int32, np.float64, np.int32, np.bool_)
        return cls(*(np.array([row[k] for row in rows], dtype) for k, dtype in enumerate(dtypes)))

    def total(self, part: Part, length: int) -> Floats:
        """The amounts of a part by where, shape (length,)."""
        chosen = self.part == SEGMENT_PARTS.index(part)
        return np.asarray(
            np.bincount(self.where[chosen], self.amount[chosen], length), dtype=np.float64
        )


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """One-sided derivatives of the makespan by the parameters.

    They are seconds per second of each link's α and each medium's g, bytes of each medium's 1/β,
    and bytes of each rank's γ and copy. They are exact while the order of service does not change.
    """

    latency: Floats
    gap: Floats
    inverse_bandwidth: Floats
    reduction: Floats
    copy: Floats


def trace_back(timeline: Timeline, last: int | None = None) -> Path:
    """The critical path as columns: from the last finish, or from the finish of operation `last`,
    back to the start.

    Columns are faster to read than segments if the path is long.
    """
    if timeline.makespan == 0:
        return Path.of([])
    end = np.argmax(timeline.finish) if last is None else np.int64(last)
    seconds, names = kernel(path.walk, 0)(history(timeline), end)
    part, operation, where, waiter, contended = np.ascontiguousarray(names.T)
    duration, amount = np.ascontiguousarray(seconds.T)
    return Path(
        part.astype(np.int8), duration, operation, where, amount, waiter, contended.astype(np.bool_)
    )


def critical_path(timeline: Timeline, last: int | None = None) -> list[Segment]:
    """The segments of the critical path, from the last finish or that of operation `last` back to
    the start.

    Their seconds add up to the makespan, or to the finish of `last`.
    """
    return list(trace_back(timeline, last))


def parts(path: Iterable[Segment]) -> dict[str, float]:
    """Seconds of the path by part.

    While an operation waits behind messages of its rank, the parts of these messages count, mostly
    serialisation. While it waits behind another rank's messages, the part is contention.
    """
    total = dict.fromkeys(PARTS, 0.0)
    for segment in path:
        total["contention" if segment.contended else segment.part] += segment.seconds
    return total


def worth(path: Iterable[Segment]) -> dict[Part, float]:
    """Seconds of the makespan by parameter, with queues: to first order, what the run saves if the
    parameter is 0."""
    total: dict[Part, float] = dict.fromkeys(SEGMENT_PARTS, 0.0)
    for segment in path:
        total[segment.part] += segment.seconds
    return total


def sensitivities(timeline: Timeline, path: Iterable[Segment] | None = None) -> Sensitivities:
    """The counts of the critical path.

    Raises InputError under fair sharing: use :mod:`simulator.analysis.differences`.
    """
    if timeline.sharing == "fair":
        raise InputError(
            "sharing is 'fair': take finite_differences, sensitivities are counts of a path "
            "under 'fifo'"
        )
    topology = timeline.routed.topology
    media, ranks = len(topology.medium_bandwidth), timeline.schedule.ranks
    rows = trace_back(timeline) if path is None else Path.of(path)
    return Sensitivities(
        rows.total("latency", len(topology.latency)),
        rows.total("gap", media),
        rows.total("serialisation", media),
        rows.total("reduction", ranks),
        rows.total("copy", ranks),
    )
