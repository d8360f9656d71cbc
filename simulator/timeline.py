"""What happened when: the result of a simulation, and what can be read off it directly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.routed import Routed
from simulator.schedule import Schedule
from topologies.topology import Floats, Ints


class Occupancy(NamedTuple):
    """Who held which medium from when for how long: one row a (hop, medium)."""

    operation: Ints
    medium: Ints
    start: Floats
    seconds: Floats
    nbytes: Floats


@dataclass(frozen=True, eq=False)
class Timeline:
    """Seconds from the start. Operation i is ready when its last predecessor is finished, and finishes at `finish[i]`.

    Node n of it (see :class:`simulator.routed.Routed`) starts at `node_start[n]`; where it queued, `node_cause[n]` is
    the node that held what it waited for, else -1.
    """

    routed: Routed
    ready: Floats
    finish: Floats
    node_start: Floats
    node_cause: Ints

    @property
    def schedule(self) -> Schedule:
        """The schedule that ran."""
        return self.routed.schedule

    @cached_property
    def start(self) -> Floats:
        """When each operation started: its first byte entered the first link, or its computation began."""
        return self.node_start[self.routed.node_indptr[:-1]]

    @property
    def makespan(self) -> float:
        """Seconds until the last operation is finished."""
        return float(self.finish.max(initial=0.0))

    @cached_property
    def hops(self) -> tuple[Ints, Ints, npt.NDArray[np.int64]]:
        """Of every hop of every transfer: its operation, its link and its node."""
        routed = self.routed
        count = np.diff(routed.route_indptr)[routed.route]
        operation = np.repeat(np.arange(len(count), dtype=np.int32), count)
        hop = np.arange(len(operation)) - np.repeat(np.cumsum(count) - count, count)
        link = routed.route_links[routed.route_indptr[routed.route[operation]] + hop]
        return operation, link, routed.node_indptr[operation] + hop

    @cached_property
    def occupancy(self) -> Occupancy:
        """When each transfer held which medium."""
        topology = self.routed.topology
        operation, link, node = self.hops
        count = np.diff(topology.link_indptr)[link]
        row = np.repeat(np.arange(len(link)), count)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        medium = topology.link_media[topology.link_indptr[link[row]] + offset]
        nbytes = self.schedule.nbytes[operation[row]]
        seconds = topology.medium_gap[medium] + nbytes / topology.medium_bandwidth[medium]
        return Occupancy(operation[row], medium, self.node_start[node[row]], seconds, nbytes)

    def slowest_hop(self, operation: int) -> tuple[int, int, float]:
        """Of a transfer: the hop whose bytes arrive last at its end, the medium that holds them up, and when."""
        routed, topology = self.routed, self.routed.topology
        first, nbytes = int(routed.node_indptr[operation]), float(self.schedule.nbytes[operation])
        slowest, narrowest, arrival = 0, 0, -1.0
        for hop, link in enumerate(routed.hops(operation).tolist()):
            media = topology.media_of(link)
            seconds = topology.medium_gap[media] + nbytes / topology.medium_bandwidth[media]
            sent = float(self.node_start[first + hop] + seconds.max())
            if sent > arrival:
                slowest, narrowest, arrival = hop, int(media[np.argmax(seconds)]), sent
            arrival += float(topology.latency[link])
        return slowest, narrowest, arrival

    def medium_bytes(self) -> Floats:
        """Bytes that crossed each medium."""
        media = len(self.routed.topology.medium_names)
        return np.asarray(np.bincount(self.occupancy.medium, self.occupancy.nbytes, media), dtype=np.float64)

    def utilisation(self) -> Floats:
        """The share of the makespan for which each medium was held."""
        media = len(self.routed.topology.medium_names)
        busy = np.bincount(self.occupancy.medium, self.occupancy.seconds, media)
        return np.asarray(busy / (self.makespan or 1.0), dtype=np.float64)
