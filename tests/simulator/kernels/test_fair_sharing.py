"""The queues of fair sharing, and what starts and ends flows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows_in_use import MEDIA, OPERATIONS, Flows, routes_of_flows
from simulator.kernels import fair_sharing
from simulator.kernels.flows import Queues, Rates, instant, progress
from simulator.kernels.records import Times, Turns
from simulator.schedules.routed import flow_routes
from simulator.schedules.routed import route as routed_over
from small_machines import route_of
from small_schedules import messages
from topologies.link import Link


def test_flows_of_a_route_end_in_the_order_of_their_bytes() -> None:
    queues = Flows.on([[0]], np.ones(1)).queues
    for operation, threshold in enumerate((3.0, 1.0, 2.0, 1.0)):
        fair_sharing.begin(queues, operation, 0, threshold)
    order = [fair_sharing.end(queues, 0) for _ in range(4)]
    assert order == [1, 3, 2, 0], "of equal ones the earlier"


def test_a_flow_that_starts_later_ends_by_what_the_route_has_sent() -> None:
    flows = Flows.on([[0]], np.ones(1))
    flows.start(0, 0, 4.0)
    flows.solve()
    flows.start(1, 0, 2.0, now=3.0)
    assert flows.queues.threshold[:2].tolist() == [4.0, 5.0]
    flows.solve(now=3.0)
    assert flows.next_end() == (0, 3.0 + 1.0 / 0.5)
    assert flows.end(now=5.0) == [0]
    flows.solve(now=5.0)
    assert flows.next_end() == (0, 6.0)


def test_flows_of_all_routes_of_a_medium_end_together() -> None:
    flows = Flows.on([[0, 1], [0, 2], [0]], np.array([3.0, 9.0, 9.0]))
    for operation, (route, nbytes) in enumerate([(0, 2.0), (1, 2.0), (2, 3.0), (0, 2.0)]):
        flows.start(operation, route, nbytes)
    flows.solve()
    medium, now = flows.next_end()
    assert (medium, now) == (0, instant(8 / 3))
    assert sorted(flows.end(now)) == [0, 1, 3]
    flows.solve(now)
    assert flows.next_end() == (0, 3.0)
    assert flows.end(now=3.0) == [2]
    assert flows.queues.active.tolist() == [0, 0, 0]


def test_a_flow_ends_when_it_is_expected_to_although_numbers_are_rounded() -> None:
    # The medium has served 1 byte when a flow that crosses it 5000 times slows it down. The rest of
    # the first flow is one unit in the last place of that byte, and thirds of it are rounded away.
    flows = Flows.on([[0], [0] * 5000], np.ones(1))
    flows.start(0, 0, 1 + 2.0**-52)
    flows.solve()
    flows.start(1, 1, 1.0, now=1.0)
    flows.solve(now=1.0)
    _, expected = flows.next_end()
    for part in (0.3, 0.6, 0.9):
        progress(flows.rates, 0, 1 + part * (expected - 1))
    assert flows.end(expected) == [0]


def test_the_next_flow_ends_when_it_is_expected_to_although_another_starts_then() -> None:
    # The second flow starts anew from the bytes that the route has sent, which are rounded.
    flows = Flows.on([[0], [0]], np.array([3.0]))
    flows.start(0, 0, 0.1)
    flows.start(1, 1, 9.0)
    flows.solve()
    _, now = flows.next_end()
    flows.queues.ahead[0] += 1e-9
    flows.start(2, 0, 5.0, now=now)
    assert flows.end(now) == [0]


@pytest.mark.parametrize("end", [float("nan"), -1.0, 2.0])
def test_a_run_stops_at_a_time_that_is_wrong_or_at_which_no_flow_ends(end: float) -> None:
    routed = routed_over(messages(0.0), route_of(Link(1.0)))
    routes = flow_routes(routed)
    rates = Rates.blank(routes, routed.topology.medium_bandwidth)
    rates.ends.key[0] = end
    done = fair_sharing.simulate(
        routed.work,
        np.zeros(1, np.int32),
        routed.schedule.successors,
        routes,
        Times.blank(routed.work, True),
        Queues.idle(1, routes, len(rates.bandwidth)),
        rates,
        Turns.of(routed.work.ranks.serials),
    )
    assert done == fair_sharing.STUCK


@given(routes_of_flows, st.data())
def test_media_know_their_routes_and_flows(routes: list[list[int]], data: st.DataObject) -> None:
    flows = Flows.on(routes, np.ones(MEDIA))
    waiting: dict[int, list[int]] = {route: [] for route in range(len(routes))}
    for operation in range(OPERATIONS):
        route = data.draw(st.integers(0, len(routes) - 1))
        ends: bool = data.draw(st.booleans())
        if waiting[route] and ends:
            assert flows.take_off(route) == waiting[route].pop(0)
        else:
            flows.start(operation, route, 1.0)
            waiting[route].append(operation)
        for medium in range(MEDIA):
            crossed = [route for route in waiting for each in routes[route] if each == medium]
            assert flows.users(medium) == [route for route in crossed if waiting[route]]
            assert flows.rates.load[medium] == sum(len(waiting[route]) for route in crossed)
