"""Flows on media, as the kernels of fair sharing keep them, without a loop over events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from simulator.kernels import fair_sharing, flow_levels
from simulator.kernels.flows import Queues, Rates, attach, detach, progress
from simulator.kernels.records import FlowRoutes
from topologies.topology import Floats

OPERATIONS = 16
MEDIA = 4
routes_of_flows = st.lists(
    st.lists(st.integers(0, MEDIA - 1), min_size=1, max_size=MEDIA), min_size=1, max_size=6
)


class Flows(NamedTuple):
    """What the functions of fair sharing work on."""

    routes: FlowRoutes
    queues: Queues
    rates: Rates

    @classmethod
    def on(cls, routes: list[list[int]], bandwidth: Floats, operations: int = OPERATIONS) -> Flows:
        """Idle routes, each over a list of media."""
        zeros, media = np.zeros(len(routes)), [medium for route in routes for medium in route]
        indptr = np.cumsum([0, *map(len, routes)]).astype(np.uint32)
        flow_routes = FlowRoutes(zeros, zeros, indptr, np.array(media, np.uint32))
        queues = Queues.idle(operations, flow_routes, len(bandwidth))
        return cls(flow_routes, queues, Rates.blank(flow_routes, bandwidth))

    def start(self, operation: int, route: int, nbytes: float, now: float = 0.0) -> None:
        """Start a flow."""
        fair_sharing.start_flow(self.rates, self.queues, self.routes, operation, route, nbytes, now)

    def take_off(self, route: int, now: float = 0.0) -> int:
        """End the first flow of a route, whatever it has sent."""
        medium = int(self.rates.limiter[route])
        sent = progress(self.rates, route, now)
        detach(self.rates, self.queues, self.routes, route)
        operation = fair_sharing.end(self.queues, route)
        if self.queues.flows[route] > 0:
            attach(self.rates, self.queues, self.routes, route, medium, sent, now)
        else:
            fair_sharing.leave(self.queues, self.routes, route)
        flow_levels.mark(self.rates, medium)
        flow_levels.mark_route(self.rates, self.routes, route)
        return int(operation)

    def solve(self, now: float = 0.0) -> None:
        """Find the levels."""
        flow_levels.solve(self.rates, self.queues, self.routes, now)

    def next_end(self) -> tuple[int, float]:
        """The medium that limits the next flow to end, and when it ends."""
        medium = int(self.rates.ends.items[0])
        return medium, float(self.rates.ends.key[medium])

    def end(self, now: float) -> list[int]:
        """End the flows that end now on the medium where the next flow ends."""
        ends = np.zeros(len(self.queues.threshold), np.int32)
        medium = self.rates.ends.items[0]
        count = fair_sharing.end_flows(self.rates, self.queues, self.routes, medium, now, ends)
        return [int(operation) for operation in ends[:count]]

    def users(self, medium: int) -> list[int]:
        """The routes in use across a medium, as often as they cross it."""
        first = int(self.queues.first[medium])
        return sorted(self.queues.member[first : first + self.queues.active[medium]].tolist())

    def limited(self, medium: int) -> list[int]:
        """The routes that a medium limits."""
        first = int(self.queues.first[medium])
        return sorted(self.rates.route[first : first + self.rates.size[medium]].tolist())

    def rate(self, route: int) -> float:
        """Bytes/s of each flow of a route."""
        return float(self.rates.level[self.rates.limiter[route]])
