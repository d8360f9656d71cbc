"""The result of a simulation: when each operation ran, and what follows directly from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from simulator.kernels.records import Times
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import Schedule
from topologies.columns import spread, sums
from topologies.topology import Floats, Ints, Longs

Sharing = Literal["fifo", "fair"]
"""Whether a medium serves transfers one after the other, or together at max-min fair rates."""


class Occupancy(NamedTuple):
    """When transfers hold media: a row for each hop and medium. Under fair sharing several hold a
    medium at a time."""

    operation: Ints
    """The transfer."""
    medium: Ints
    """The medium."""
    start: Floats
    """Since when the transfer holds the medium."""
    seconds: Floats
    """For how long."""
    nbytes: Floats
    """The bytes that cross the medium meanwhile."""
    node: Longs
    """The node of the hop."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """When operations ran. All times are seconds from the start."""

    routed: Routed
    """The schedule and its routes."""
    ready: Floats
    """When the last predecessor of each operation finished."""
    finish: Floats
    """When each operation finished."""
    node_start: Floats
    """When each node of an operation started (see :class:`simulator.schedules.routed.Routed`)."""
    node_cause: Ints
    """The node for which each node waited in a queue; -1 if it did not wait."""
    sharing: Sharing = "fifo"
    """How transfers shared media. Under fair sharing all hops of a transfer start together, without
    queues."""
    store_and_forward: bool = False
    """Whether links forwarded only whole messages."""
    sent: Floats = field(default_factory=lambda: np.zeros(0))
    """When the last byte of each transfer was sent under fair sharing; else empty."""
    grid: float = 0.0
    """Flows ended at multiples of so many seconds; 0 if they ended at any time."""
    grid_error: float = 0.0
    """An estimate of the seconds by which the grid changed the makespan."""
    calls: Floats = field(default_factory=lambda: np.zeros(0))
    """Of each operation that stands for a collective the share of its time behind messages of other
    ranks; -1 for computations. Empty if none stands for a collective."""

    @property
    def causes(self) -> Timeline:
        """The timeline that says what operations waited for: another one if they stand for
        collectives."""
        return self

    @property
    def times(self) -> Times:
        """The columns for kernels."""
        return Times(self.ready, self.finish, self.node_start, self.node_cause, self.sent)

    @property
    def schedule(self) -> Schedule:
        """The schedule that ran."""
        return self.routed.schedule

    @cached_property
    def start(self) -> Floats:
        """When each operation started: its first byte entered the first link, or its computation
        began."""
        return self.node_start[self.routed.node_indptr[:-1]]

    @property
    def makespan(self) -> float:
        """Seconds until the last operation is finished."""
        return float(self.finish.max(initial=0.0))

    @cached_property
    def hops(self) -> tuple[Ints, Ints, Longs]:
        """Of every hop of every transfer: its operation, its link and its node."""
        routed = self.routed
        count = np.diff(routed.route_indptr)[routed.route]
        operation, hop = spread(count)
        link = routed.route_links[routed.route_indptr[routed.route[operation]] + hop]
        return operation.astype(np.int32), link, routed.node_indptr[operation] + hop

    @cached_property
    def occupancy(self) -> Occupancy:
        """When each transfer held which medium."""
        topology = self.routed.topology
        operation, link, node = self.hops
        row, medium = topology.crossings(link)
        nbytes = self.schedule.nbytes[operation[row]]
        if self.sharing == "fair":
            seconds = (self.sent - self.start)[operation[row]]
        else:
            seconds = topology.medium_gap[medium] + nbytes / topology.medium_bandwidth[medium]
            seconds = seconds + self.routed.grid - self.routed.grid
        return Occupancy(
            operation[row], medium, self.node_start[node[row]], seconds, nbytes, node[row]
        )

    def medium_bytes(self) -> Floats:
        """Bytes that crossed each medium."""
        return self._of_media(self.occupancy.nbytes)

    def utilisation(self) -> Floats:
        """The share of the makespan for which each medium was held. Under fair sharing, its bytes
        as a share of what it could carry."""
        busy = self._of_media(self.occupancy.seconds)
        if self.sharing == "fair":
            busy = self.medium_bytes() / self.routed.topology.medium_bandwidth
        return busy / (self.makespan or 1.0)

    def _of_media(self, column: Floats) -> Floats:
        """The sum of a column of the occupancy for each medium."""
        media = len(self.routed.topology.medium_names)
        return sums(self.occupancy.medium, column, media)


def common(overheads: Mapping[str, float]) -> float:
    """Seconds of `overheads` that every algorithm of a collective takes. They are below any
    bound."""
    return sum(overheads.get(part, 0.0) for part in ("launch", "copy to merge"))


class ProfileRun(NamedTuple):
    """A collective under a profile."""

    protocol: str
    """The fastest protocol."""
    timeline: Timeline
    """The timeline of the fastest protocol."""
    overheads: Mapping[str, float]
    """Seconds that the timeline leaves out, by name."""

    @property
    def launch(self) -> float:
        """Seconds that the timeline leaves out."""
        return sum(self.overheads.values())

    @property
    def common(self) -> float:
        """Seconds of them that every algorithm of the collective takes."""
        return common(self.overheads)

    @property
    def seconds(self) -> float:
        """From the call to the last finish."""
        return self.launch + self.timeline.makespan


def union(start: Floats, end: Floats) -> Floats:
    """Intervals merged into disjoint ones in order, shape (2, n)."""
    if not len(start):
        return np.zeros((2, 0))
    order = np.argsort(start, kind="stable")
    start, until = start[order], np.maximum.accumulate(end[order])
    begins = np.concatenate(([True], start[1:] > until[:-1]))
    return np.stack((start[begins], until[np.append(begins[1:], True)]))


def length(intervals: Floats) -> float:
    """The seconds of disjoint intervals, shape (2, n)."""
    return float((intervals[1] - intervals[0]).sum())
