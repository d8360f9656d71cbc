"""Flows under fair sharing: their queues, the levels of media, and what starts and ends flows."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engines.fair import max_min_rates
from simulator.kernels import fair_sharing, flow_levels
from simulator.kernels.flows import Heap, Queues, Rates, attach, detach, progress, sift
from simulator.kernels.records import FlowRoutes, Times, Turns
from simulator.schedules.routed import flow_routes
from simulator.schedules.routed import route as routed_over
from small_machines import route_of
from small_schedules import messages
from topologies.jit import Kernel, compiled
from topologies.link import Link
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


bandwidths = st.lists(st.integers(1, 9), min_size=MEDIA, max_size=MEDIA)


@pytest.mark.parametrize("chosen", [lambda kernel: kernel, compiled], ids=["plain", "compiled"])
@given(routes_of_flows, bandwidths, st.data())
def test_rates_are_the_max_min_rates_after_every_change(
    chosen: Callable[[Kernel], Kernel],
    routes: list[list[int]],
    bandwidth: list[int],
    data: st.DataObject,
) -> None:
    limits = np.array(bandwidth, np.float64)
    flows, in_use = Flows.on(routes, limits), list[int]()
    for operation in range(OPERATIONS):
        route = data.draw(st.integers(0, len(routes) - 1))
        if route in in_use and data.draw(st.booleans()):
            flows.take_off(route)
            in_use.remove(route)
        else:
            flows.start(operation, route, 1.0)
            in_use.append(route)
        if data.draw(st.booleans()):
            chosen(flow_levels.solve)(flows.rates, flows.queues, flows.routes, 0.0)
            expected = max_min_rates([routes[route] for route in in_use], limits)
            assert [flows.rate(route) for route in in_use] == pytest.approx(expected, rel=1e-12)
            check_sums(flows, routes, in_use)


@pytest.mark.parametrize("seed", [1, 2, 35])
def test_long_routes_over_many_media_have_the_max_min_rates(seed: int) -> None:
    """A medium that limits no flow for a moment keeps its level until the next one is found:
    without that, the levels of the last seed would go round in a circle."""
    random, media, count, operations = Random(seed), 60, 200, 2000
    routes = [[random.randrange(media) for _ in range(random.randint(1, 6))] for _ in range(count)]
    bandwidth = np.array([random.random() + 0.01 for _ in range(media)])
    flows, in_use, operation = Flows.on(routes, bandwidth, operations), list[int](), 0
    for _ in range(60):
        for _ in range(random.choice([1, 1, 2, 5, 50])):
            if in_use and random.random() < 0.45:
                flows.take_off(in_use.pop(random.randrange(len(in_use))))
            else:
                in_use.append(random.randrange(count))
                flows.start(operation, in_use[-1], 1.0)
                operation += 1
        compiled(flow_levels.solve)(flows.rates, flows.queues, flows.routes, 0.0)
    expected = max_min_rates([routes[route] for route in in_use], bandwidth)
    assert [flows.rate(route) for route in in_use] == pytest.approx(expected, rel=1e-11)


def check_sums(flows: Flows, routes: list[list[int]], in_use: list[int]) -> None:
    """Each medium knows what it limits, what others limit, and how fast those are at most."""
    rates = flows.rates
    assert rates.marks[0] == 0
    for medium in range(MEDIA):
        crossing = [route for route in in_use for each in routes[route] if each == medium]
        others = [route for route in crossing if rates.limiter[route] != medium]
        assert flows.limited(medium) == sorted(
            {route for route in in_use if rates.limiter[route] == medium}
        )
        assert rates.limited[medium] == len(crossing) - len(others)
        taken = sum(flows.rate(route) for route in others)
        assert rates.taken[medium] == pytest.approx(taken, rel=1e-12, abs=1e-12)
        fastest = max((flows.rate(route) for route in others), default=0.0)
        assert fastest <= rates.highest[medium] * (1 + 1e-12)
        assert fastest <= rates.level[medium] * (1 + 1e-12)
        assert np.isfinite(rates.level[medium]) == bool(flows.limited(medium))


@pytest.mark.parametrize("steps", [0, 1, 2])
@given(routes_of_flows, bandwidths, st.data())
def test_levels_found_from_nothing_are_the_max_min_rates(
    steps: int, routes: list[list[int]], bandwidth: list[int], data: st.DataObject
) -> None:
    limits = np.array(bandwidth, np.float64)
    flows, in_use = Flows.on(routes, limits), list[int]()
    for operation in range(OPERATIONS):
        in_use.append(data.draw(st.integers(0, len(routes) - 1)))
        flows.start(operation, in_use[-1], 1.0, now=float(operation))
        if operation % 3 == 2:
            flows.take_off(in_use.pop(0), now=float(operation))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(flow_levels, "_STEPS", steps)
            flows.solve(now=float(operation))
        expected = max_min_rates([routes[route] for route in in_use], limits)
        assert [flows.rate(route) for route in in_use] == pytest.approx(expected, rel=1e-12)
        check_sums(flows, routes, in_use)


def test_bytes_sent_stay_when_levels_are_found_from_nothing() -> None:
    flows = Flows.on([[0, 1], [1], [2]], np.array([1.0, 3.0, 1.0]))
    for operation in range(3):
        flows.start(operation, operation, 8.0)
    flows.solve()
    flow_levels.mark(flows.rates, 0)
    flow_levels.fill_levels(flows.rates, flows.queues, flows.routes, 2.0)
    assert flows.rates.updated.tolist() == [2.0, 2.0, 0.0], "no flow connects the last medium"
    assert [progress(flows.rates, route, 3.0) for route in range(3)] == [3.0, 6.0, 3.0]
    assert flows.rates.ends.key.tolist() == [8.0, 4.0, 8.0]


def test_sums_stay_exact_over_a_long_run() -> None:
    """Bandwidths differ by a factor of a million, and the first medium never limits a flow."""
    random, bandwidth = Random(3), np.array([1e3, 1e-3, 1.0, 1 / 3, 0.1])
    routes = [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3], [0, 4], [1, 2, 3, 4]]
    flows, in_use, steps = Flows.on(routes, bandwidth, 6000), list[int](), 6000
    level = compiled(flow_levels.solve)
    for operation in range(steps):
        in_use.append(random.randrange(len(routes)))
        flows.start(operation, in_use[-1], 1.0)
        if operation >= 12:
            flows.take_off(in_use.pop(random.randrange(len(in_use))))
        level(flows.rates, flows.queues, flows.routes, 0.0)
        if operation % 100 == 0:
            for medium, limit in enumerate(bandwidth):
                taken = fsum(
                    flows.rate(route) * routes[route].count(medium)
                    for route in in_use
                    if flows.rates.limiter[route] != medium
                )
                assert abs(flows.rates.taken[medium] - taken) <= 1e-12 * limit


def test_a_sum_that_was_rounded_too_often_is_added_up_again() -> None:
    flows = Flows.on([[0, 1], [1]], np.array([1.0, 3.0]))
    for operation in range(2):
        flows.start(operation, operation, 8.0)
    flows.solve()
    flows.rates.taken[1], flows.rates.drift[1] = 1 + 1e-9, 1e9
    flow_levels.mark(flows.rates, 1)
    flows.solve()
    assert (flows.rates.taken[1], flows.rates.drift[1], flows.rate(1)) == (1.0, 0.0, 2.0)


def test_a_change_reaches_only_media_whose_levels_change() -> None:
    # Media 0 and 1 have a flow each, and one flow crosses both. Medium 2 has nothing to do with
    # them. Medium 3 shares a flow with medium 1, which limits it before and after.
    flows = Flows.on([[0, 1], [0], [1], [2], [1, 3]], np.array([9.0, 3.0, 1.0, 9.0]))
    for operation, route in enumerate([0, 1, 2, 3, 4]):
        flows.start(operation, route, 90.0)
    flows.solve()
    assert [flows.rate(route) for route in range(5)] == [1.0, 8.0, 1.0, 1.0, 1.0]
    flows.take_off(1, now=2.0)
    flows.solve(now=2.0)
    assert flows.rates.updated.tolist() == [2.0, 0.0, 0.0, 0.0]
    assert [flows.rate(route) for route in (0, 2, 3, 4)] == [1.0] * 4
    assert flows.limited(0) == []


def test_equal_levels_are_equal_to_the_bit() -> None:
    # Each of seven senders sends to each of seven receivers.
    pairs = [[sender, 7 + receiver] for sender in range(7) for receiver in range(7)]
    flows = Flows.on(pairs[:OPERATIONS], np.full(14, 0.1))
    for operation in range(OPERATIONS):
        flows.start(operation, operation, 1.0)
    flows.solve()
    rates = {flows.rate(route) for route in range(OPERATIONS)}
    expected = set(max_min_rates(pairs[:OPERATIONS], np.full(14, 0.1)))
    assert sorted(rates) == pytest.approx(sorted(expected))
    assert len(rates) == len(expected)


def test_a_medium_is_marked_once_and_only_if_it_limits_flows() -> None:
    flows = Flows.on([[0, 2], [2, 3]], np.ones(4))
    for operation, route in enumerate([0, 1, 0, 1]):
        flows.start(operation, route, 1.0)
    assert flows.rates.marks[0] == 2
    assert sorted(flows.rates.changed.items[:2].tolist()) == [0, 2]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.data())
def test_a_heap_has_the_lowest_key_first_whatever_changes(
    keys: list[int], data: st.DataObject
) -> None:
    heap = Heap.of(len(keys))
    for item, key in enumerate(keys):
        heap.key[item] = key
        sift(heap, len(keys), heap.slot[item])
    item = data.draw(st.integers(0, len(keys) - 1))
    heap.key[item] = data.draw(st.integers(0, 9))
    sift(heap, len(keys), heap.slot[item])
    assert heap.items[heap.slot].tolist() == list(range(len(keys)))
    order = []
    for size in range(len(keys) - 1, -1, -1):
        order.append(heap.key[heap.items[0]])
        heap.items[0] = heap.items[size]
        sift(heap, size, 0)
    assert order == sorted(heap.key)
