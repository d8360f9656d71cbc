"""Why a run takes as long as it takes: what was really waited for, and what each parameter is worth."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from simulator.schedule import COMPUTE
from simulator.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Floats

Part = Literal["compute", "latency", "gap", "serialisation", "reduction", "copy"]
T = TypeVar("T")
Steps = Generator["Segment", None, T]
PARTS: tuple[str, ...] = ("compute", "latency", "gap", "serialisation", "reduction", "copy", "queueing")


class Segment(NamedTuple):
    """A piece of the critical path: `amount` of a parameter (1 latency or gap, bytes, or seconds of computation).

    `where` is the link of a latency, the medium of a gap or serialisation, the rank of the rest. `queued` says that the
    operation did this for another one that queued behind it; or, under fair sharing, that these were the bytes of
    others, as many as the operation's slowest medium carries in the time that it waited for them.
    """

    part: Part
    seconds: float
    operation: int
    where: int
    amount: float
    queued: bool


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """One-sided derivatives of the makespan: seconds per second of each link's α and each medium's g, bytes of each
    medium's 1/β, bytes of each rank's γ and copy. Exact within a region of unchanged service order."""

    latency: Floats
    gap: Floats
    inverse_bandwidth: Floats
    reduction: Floats
    copy: Floats


def critical_path(timeline: Timeline) -> list[Segment]:
    """From the last finish back to the start: the segments, in that order, add up to the makespan."""
    if timeline.makespan == 0:
        return []
    return list(_Walk(timeline).back(int(np.argmax(timeline.finish))))


def parts(path: list[Segment]) -> dict[str, float]:
    """Seconds of the path by part; what was waited for in a queue counts as queueing."""
    total = dict.fromkeys(PARTS, 0.0)
    for segment in path:
        total["queueing" if segment.queued else segment.part] += segment.seconds
    return total


def worth(path: list[Segment]) -> dict[Part, float]:
    """Seconds of the makespan by parameter, queues included: what each would save at zero, to first order."""
    total: dict[Part, float] = dict.fromkeys(("compute", "latency", "gap", "serialisation", "reduction", "copy"), 0.0)
    for segment in path:
        total[segment.part] += segment.seconds
    return total


def sensitivities(timeline: Timeline, path: list[Segment] | None = None) -> Sensitivities:
    """The counts of the critical path. Raises InputError under fair sharing: see :mod:`simulator.differences`."""
    if timeline.sharing == "fair":
        raise InputError("sharing is 'fair': take finite_differences, sensitivities are counts of a path under 'fifo'")
    topology = timeline.routed.topology
    media, ranks = len(topology.medium_names), timeline.schedule.ranks
    rows = path if path is not None else critical_path(timeline)

    def count(part: Part, length: int) -> Floats:
        chosen = [segment for segment in rows if segment.part == part]
        index = np.array([segment.where for segment in chosen], dtype=np.int64)
        return np.asarray(np.bincount(index, [segment.amount for segment in chosen], length), dtype=np.float64)

    return Sensitivities(
        count("latency", len(topology.latency)),
        count("gap", media),
        count("serialisation", media),
        count("reduction", ranks),
        count("copy", ranks),
    )


class _Walk:
    """Steps back along what was waited for: the predecessor that finished last, the hop that arrived last, the
    occupant of a medium or lane."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.routed = timeline, timeline.routed
        self.schedule, self.topology = timeline.schedule, timeline.routed.topology
        self.owner = np.searchsorted(self.routed.node_indptr, np.arange(len(timeline.node_start)), side="right") - 1

    def back(self, operation: int) -> Iterator[Segment]:
        """The segments from the finish of `operation` to time zero."""
        current: int | None = operation
        while current is not None:
            node: int | None = yield from self.finished(current)
            current = None
            while node is not None:
                node, current = yield from self.started(node)

    def finished(self, i: int) -> Steps[int]:
        """From a finish to the start of the node that determined it."""
        last = int(self.routed.node_indptr[i + 1]) - 1
        if self.is_hop(last):
            return (yield from self.arrived(i))
        yield from self.service(last, queued=False)
        return last

    def started(self, node: int) -> Steps[tuple[int | None, int | None]]:
        """From the start of a node to the start of another, or to the finish of an operation: (node, operation)."""
        occupant = int(self.timeline.node_cause[node])
        if occupant >= 0:
            yield from self.service(occupant, queued=True, start=self.timeline.node_start[node], of=node)
            return occupant, None
        i = int(self.owner[node])
        hop = node - int(self.routed.node_indptr[i])
        if hop and not self.is_hop(node):
            return (yield from self.arrived(i)), None
        if hop:
            yield self.latency(i, hop - 1)
            if self.timeline.store_and_forward:
                yield from self.crossing(i, self.timeline.crossing(i, hop - 1)[0], queued=False)
            return node - 1, None
        before = self.schedule.predecessors(i)
        return None, int(before[np.argmax(self.timeline.finish[before])]) if len(before) else None

    def arrived(self, i: int) -> Steps[int]:
        """From the arrival of a transfer to the start of the hop that attained the maximum."""
        if self.timeline.sharing == "fair":
            return (yield from self.flowed(i))
        slowest, medium, _ = self.timeline.slowest_hop(i)
        for hop in range(len(self.routed.hops(i)) - 1, slowest - 1, -1):
            yield self.latency(i, hop)
        yield from self.crossing(i, medium, queued=False)
        return int(self.routed.node_indptr[i]) + slowest

    def flowed(self, i: int) -> Steps[int]:
        """From the arrival of a flow to its beginning: its own bytes, those of others meanwhile, the gap."""
        for hop in range(len(self.routed.hops(i)) - 1, -1, -1):
            yield self.latency(i, hop)
        flow = self.timeline.flow(i)
        yield Segment("serialisation", flow.alone, i, flow.medium, flow.nbytes, False)
        if flow.waited > 0:
            others = flow.waited * float(self.topology.medium_bandwidth[flow.medium])
            yield Segment("serialisation", flow.waited, i, flow.medium, others, True)
        yield Segment("gap", float(self.topology.medium_gap[flow.gap_medium]), i, flow.gap_medium, 1.0, False)
        return int(self.routed.node_indptr[i])

    def service(self, node: int, *, queued: bool, start: float = 0.0, of: int = -1) -> Iterator[Segment]:
        """What the occupant of a medium or a lane did there."""
        i = int(self.owner[node])
        rank = int(self.schedule.peer[i])
        if self.is_hop(node):
            yield from self.crossing(i, self.shared_medium(node, of, start), queued=queued)
        elif self.schedule.kind[i] == COMPUTE:
            seconds = float(self.schedule.seconds[i])
            yield Segment("compute", seconds, i, int(self.schedule.rank[i]), seconds, queued)
        else:
            nbytes = float(self.schedule.nbytes[i])
            part: Part = "reduction" if self.schedule.reduces[i] else "copy"
            cost = (self.routed.reduction if self.schedule.reduces[i] else self.routed.copy)[rank]
            yield Segment(part, float(nbytes * cost), i, rank, nbytes, queued)

    def crossing(self, i: int, medium: int, *, queued: bool) -> Iterator[Segment]:
        """The gap and the bytes of a transfer on a medium."""
        nbytes, gap = float(self.schedule.nbytes[i]), float(self.topology.medium_gap[medium])
        seconds = float(nbytes / self.topology.medium_bandwidth[medium])
        yield Segment("serialisation", seconds, i, medium, nbytes, queued)
        yield Segment("gap", gap, i, medium, 1.0, queued)

    def latency(self, i: int, hop: int) -> Segment:
        """The latency of a link on the way."""
        link = int(self.routed.hops(i)[hop])
        return Segment("latency", float(self.topology.latency[link]), i, link, 1.0, False)

    def is_hop(self, node: int) -> bool:
        """Whether a node is a link of a route, not the work at its end."""
        i = int(self.owner[node])
        return node - int(self.routed.node_indptr[i]) < len(self.routed.hops(i))

    def held(self, medium: int, i: int) -> float:
        """How long a transfer holds a medium."""
        return float(
            self.topology.medium_gap[medium] + self.schedule.nbytes[i] / self.topology.medium_bandwidth[medium]
        )

    def shared_medium(self, occupant: int, waiting: int, until: float) -> int:
        """The medium that `occupant` held and `waiting` got at `until`."""
        i = int(self.owner[occupant])
        shared = set(self.media_at(occupant)) & set(self.media_at(waiting))
        begin = self.timeline.node_start[occupant]
        return min(shared, key=lambda medium: (abs(begin + self.held(medium, i) - until), medium))

    def media_at(self, node: int) -> list[int]:
        """The media that a hop occupies."""
        i = int(self.owner[node])
        link = self.routed.hops(i)[node - int(self.routed.node_indptr[i])]
        return [int(m) for m in self.topology.media_of(int(link))]
