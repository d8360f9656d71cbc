"""Max-min fair sharing as SimPy processes. This defines fair sharing, as `reference` defines the
other rules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from simpy.events import Event

from simulator.engines.reference import Process, ReferenceMachine
from simulator.engines.time_limits import grid_error
from simulator.schedules.routed import Routed, flow_routes
from simulator.schedules.timeline import Sharing, Timeline
from topologies.topology import Floats

SAME = 1 + 1e-12
"""Shares of bandwidth within this factor are equal: rounding makes no differences between flows.
This and `instant` stand in the compiled engine again, which is compared with this one."""
COARSE = 2.0**9 + 1


def instant(time: float) -> float:
    """A time to 44 bits (Veltkamp's split), so that rounding does not separate flows that end
    together."""
    wide = time * COARSE
    return wide - (wide - time)


def max_min_rates(routes: Sequence[Sequence[int]], bandwidth: Floats) -> list[float]:
    """Rates of flows in bytes/s, from the media that each flow crosses. No flow can have more
    unless a flow gets less that has no more.

    Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): the rates of all flows grow
    together. When a medium is full, its flows keep their rates.

    >>> max_min_rates([[0, 1], [0], [1]], np.array([1.0, 3.0]))
    [0.5, 0.5, 2.5]
    """
    rates, growing = [0.0] * len(routes), set(range(len(routes)))
    spare = {medium: float(bandwidth[medium]) for route in routes for medium in route}
    while growing:
        crossing = Counter(medium for flow in growing for medium in routes[flow])
        level = min(spare[medium] / count for medium, count in crossing.items())
        full = {
            medium for medium, count in crossing.items() if spare[medium] / count <= level * SAME
        }
        for flow in [flow for flow in growing if full.intersection(routes[flow])]:
            growing.remove(flow)
            rates[flow] = level
            for medium in routes[flow]:
                spare[medium] -= level
    return rates


class Flow:
    """The bytes of a transfer on their way: `left` of them, at `rate`, over media that each have a
    limit."""

    def __init__(self, route: int, media: list[int], left: float, sent: Event) -> None:
        self.route, self.media, self.left, self.rate, self.sent = route, media, left, 0.0, sent


class FairMachine(ReferenceMachine):
    """A machine in which a transfer is a flow: it holds its whole route at once, and shares it with
    others."""

    sharing: Sharing = "fair"

    def __init__(self, routed: Routed, grid: float = 0.0) -> None:
        """Flows end at multiples of `grid` seconds, if it is not 0."""
        super().__init__(routed)
        self.sent = np.zeros(len(self.schedule))
        self.routes, self.flows, self.since = flow_routes(routed), list[Flow](), 0.0
        self.grid, self.excess = grid, np.zeros(len(self.routes.gap))
        self.changed = Event(self.clock)
        self.clock.process(self.network())

    def run(self) -> Timeline:
        """Simulate to the end."""
        timeline = super().run()
        error = grid_error(self.routed, self.routes, self.excess, self.grid)
        return replace(timeline, grid=self.grid, grid_error=error)

    def transfer(self, i: int) -> Process:
        """Wait for the greatest gap, then until the last byte is sent, then for all latencies."""
        route, first = int(self.routed.route[i]), int(self.routed.node_indptr[i])
        yield self.clock.at(self.clock.now + self.routes.gap[route], first)
        self.start[first : first + len(self.routed.hops(i))] = self.clock.now
        media, nbytes = self.routes.media_of(route).tolist(), float(self.schedule.nbytes[i])
        if media and nbytes:
            flow = Flow(route, media, nbytes, Event(self.clock))
            self.flows.append(flow)
            self.change()
            yield flow.sent
        self.sent[i] = self.clock.now
        self.finish[i] = self.clock.now + self.routes.latency[route]
        if self.schedule.reduces[i]:
            yield from self.merge(i)

    def change(self) -> None:
        """Flows have come or gone."""
        if not self.changed.triggered:
            self.changed.succeed()

    def network(self) -> Process:
        """Compute new rates after every change, when nothing else happens at that time."""
        after_all_nodes = len(self.start)
        while True:
            yield self.changed
            yield self.clock.at(self.clock.now, after_all_nodes)
            self.advance()
            self.changed = Event(self.clock)
            rates = max_min_rates(
                [flow.media for flow in self.flows], self.topology.medium_bandwidth
            )
            for flow, rate in zip(self.flows, rates, strict=True):
                flow.rate = rate
            if self.flows:
                self.clock.process(self.end(min(map(self.end_of, self.flows)), self.changed))

    def advance(self) -> None:
        """Move the bytes of all flows up to the present."""
        for flow in self.flows:
            flow.left -= flow.rate * (self.clock.now - self.since)
        self.since = self.clock.now

    def end_of(self, flow: Flow) -> float:
        """When a flow ends at its present rate: at the nearest point of the grid, if there is
        one."""
        time = self.clock.now + flow.left / flow.rate
        if self.grid:
            return max(self.clock.now, math.ceil(time / self.grid - 0.5) * self.grid)
        return max(self.clock.now, instant(time))

    def end(self, time: float, changed: Event) -> Process:
        """End the flows that end at `time`, unless rates have changed before."""
        yield self.clock.at(time)
        if changed.triggered:
            return
        self.advance()
        for flow in [flow for flow in self.flows if self.end_of(flow) <= time]:
            self.flows.remove(flow)
            if self.grid:
                self.excess[flow.route] -= flow.left
            flow.sent.succeed()
        self.change()
