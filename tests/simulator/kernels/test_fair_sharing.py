"""The queues and the rates of fair sharing, each alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engines.fair import max_min_rates
from simulator.kernels import fair_sharing
from simulator.kernels.flows import Queues, Rates
from simulator.kernels.records import FlowRoutes
from topologies._compile import Kernel, compiled
from topologies.topology import Floats

OPERATIONS = 16
MEDIA = 4
routes_of_flows = st.lists(
    st.lists(st.integers(0, MEDIA - 1), min_size=1, max_size=MEDIA), min_size=1, max_size=4
)


class Flows(NamedTuple):
    """What the functions of fair sharing work on."""

    routes: FlowRoutes
    queues: Queues
    rates: Rates

    @classmethod
    def on(cls, routes: list[list[int]], bandwidth: Floats) -> Flows:
        """Idle routes, each over a list of media."""
        zeros, media = np.zeros(len(routes)), [medium for route in routes for medium in route]
        indptr = np.cumsum([0, *map(len, routes)]).astype(np.uint32)
        flow_routes = FlowRoutes(zeros, zeros, indptr, np.array(media, np.uint32))
        queues = Queues.idle(OPERATIONS, flow_routes, len(bandwidth))
        return cls(flow_routes, queues, Rates.blank(flow_routes, bandwidth))

    def begin(self, operation: int, route: int, nbytes: float, now: float = 0.0) -> None:
        """Begin a flow."""
        fair_sharing.begin(self.queues, self.routes, operation, route, nbytes, now)

    def end(self, route: int) -> int:
        """End the first flow of a route."""
        return int(fair_sharing.end(self.queues, self.routes, route))

    def users(self, medium: int) -> list[int]:
        """The routes in use across a medium, as often as they cross it."""
        first = int(self.queues.first[medium])
        return sorted(self.queues.member[first : first + self.queues.active[medium]].tolist())


def test_flows_of_a_route_end_in_the_order_of_their_bytes() -> None:
    flows = Flows.on([[0]], np.ones(1))
    for operation, nbytes in enumerate((3.0, 1.0, 2.0, 1.0)):
        flows.begin(operation, 0, nbytes)
    assert [flows.end(0) for _ in range(4)] == [1, 3, 2, 0], "of equal ones the earlier"


def test_a_flow_that_begins_later_ends_by_what_the_route_has_served() -> None:
    flows = Flows.on([[0]], np.ones(1))
    flows.begin(0, 0, 4.0)
    flows.queues.rate[0] = 1.0
    flows.begin(1, 0, 2.0, now=3.0)
    assert flows.queues.threshold[:2].tolist() == [4.0, 5.0]
    flows.queues.rate[0] = 0.5
    assert fair_sharing.end_of_first(flows.queues, 0, 3.0) == 3.0 + 1.0 / 0.5


@given(routes_of_flows, st.data())
def test_media_know_their_routes_and_flows(routes: list[list[int]], data: st.DataObject) -> None:
    flows = Flows.on(routes, np.ones(MEDIA))
    waiting: dict[int, list[int]] = {route: [] for route in range(len(routes))}
    for operation in range(OPERATIONS):
        route = data.draw(st.integers(0, len(routes) - 1))
        ends: bool = data.draw(st.booleans())
        if waiting[route] and ends:
            assert flows.end(route) == waiting[route].pop(0)
        else:
            flows.begin(operation, route, 1.0)
            waiting[route].append(operation)
        for medium in range(MEDIA):
            crossed = [route for route in waiting for each in routes[route] if each == medium]
            assert flows.users(medium) == [route for route in crossed if waiting[route]]
            assert flows.queues.load[medium] == sum(len(waiting[route]) for route in crossed)
        busy = {medium for route in waiting if waiting[route] for medium in routes[route]}
        assert flows.queues.busy[0] == len(busy)


@pytest.mark.parametrize("chosen", [lambda kernel: kernel, compiled], ids=["plain", "compiled"])
@given(routes_of_flows, st.data())
def test_rates_are_the_max_min_rates(
    chosen: Callable[[Kernel], Kernel], routes: list[list[int]], data: st.DataObject
) -> None:
    bandwidth = np.array(data.draw(st.lists(st.integers(1, 9), min_size=MEDIA, max_size=MEDIA)))
    flows = Flows.on(routes, bandwidth.astype(np.float64))
    routes_in_use = data.draw(
        st.lists(st.integers(0, len(routes) - 1), min_size=1, max_size=OPERATIONS)
    )
    for operation, route in enumerate(routes_in_use):
        flows.begin(operation, route, 1.0)
    number = np.int64(0)
    for seed in range(MEDIA):
        if flows.queues.active[seed] and not flows.rates.seen[seed]:
            number += 1
            chosen(fair_sharing.solve)(flows.rates, flows.queues, flows.routes, seed, 0.0, number)
    expected = max_min_rates(
        [routes[route] for route in routes_in_use], bandwidth.astype(np.float64)
    )
    rates = flows.queues.rate[routes_in_use]
    assert rates.tolist() == pytest.approx(expected, rel=1e-12)


def test_a_solution_is_for_the_media_that_flows_join() -> None:
    flows = Flows.on([[0, 1], [2]], np.array([1.0, 2.0, 4.0]))
    flows.begin(0, 0, 3.0)
    flows.begin(1, 1, 3.0)
    count, soonest = fair_sharing.solve(flows.rates, flows.queues, flows.routes, 1, 5.0, 1)
    assert (count, soonest) == (1, 8.0)
    assert flows.queues.rate.tolist() == [1.0, 0.0]


def test_a_medium_is_marked_once() -> None:
    flows = Flows.on([[0, 2], [2, 3]], np.ones(4))
    marks = fair_sharing.mark(flows.rates, flows.routes, 0, 0)
    assert fair_sharing.mark(flows.rates, flows.routes, 1, marks) == 3
    assert flows.rates.changed[:3].tolist() == [0, 2, 3]
