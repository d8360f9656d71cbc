"""Laws of max-min fair sharing, on schedules and machines drawn at random."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import fsum
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubble_causes import check_that_causes_add_up
from law_cases import tries
from simulator.engines import Engine, simulate
from simulator.engines.fair import max_min_rates
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from small_machines import DYADIC_MACHINE, random_machine
from small_schedules import Mixture, between, random_schedule
from topologies import shapes
from topologies.link import Link
from topologies.topology import Topology
from transfers import arrival as arrival_of

Media = Sequence[int]


def fair(schedule: Schedule, topology: Topology, engine: Engine = "reference") -> Timeline:
    return simulate(schedule, topology, engine, sharing="fair")


# Laws: rates.


def filled(routes: Sequence[Media], capacity: Sequence[Fraction]) -> list[Fraction]:
    """Max-min fair rates in exact numbers: raise all that are not blocked by the least that fills a
    medium."""
    rates, blocked = [Fraction(0)] * len(routes), [False] * len(routes)
    while not all(blocked):
        room = []
        for medium, limit in enumerate(capacity):
            used = sum(
                (rates[k] * route.count(medium) for k, route in enumerate(routes)), Fraction(0)
            )
            rising = sum(route.count(medium) for k, route in enumerate(routes) if not blocked[k])
            room.append((limit - used) / rising if rising else None)
        rise = min(value for value in room if value is not None)
        rates = [rate if stop else rate + rise for rate, stop in zip(rates, blocked, strict=True)]
        full = {medium for medium, value in enumerate(room) if value == rise}
        blocked = [
            stop or bool(full & set(route)) for stop, route in zip(blocked, routes, strict=True)
        ]
    return rates


networks = st.integers(1, 6).flatmap(
    lambda media: st.tuples(
        st.lists(
            st.lists(st.integers(0, media - 1), min_size=1, max_size=4), min_size=1, max_size=8
        ),
        st.lists(st.integers(1, 12), min_size=media, max_size=media),
    )
)


@given(networks)
def test_no_medium_carries_too_much_and_each_flow_has_one_on_which_none_is_faster(
    network: tuple[list[list[int]], list[int]],
) -> None:
    """What makes rates max-min fair (Bertsekas and Gallager, 6.5.2): conservation, and a bottleneck
    for every flow."""
    routes, capacity = network
    rates = max_min_rates(routes, np.array(capacity, dtype=np.float64))
    load = [
        fsum(rate * route.count(m) for rate, route in zip(rates, routes, strict=True))
        for m in range(len(capacity))
    ]
    assert all(used <= limit * (1 + 1e-9) for used, limit in zip(load, capacity, strict=True))
    for rate, route in zip(rates, routes, strict=True):
        full = [medium for medium in route if load[medium] >= capacity[medium] * (1 - 1e-9)]
        fastest = [
            max(r for r, media in zip(rates, routes, strict=True) if medium in media)
            for medium in full
        ]
        assert any(rate >= highest * (1 - 1e-9) for highest in fastest)


@given(networks)
def test_rates_are_those_of_exact_numbers(network: tuple[list[list[int]], list[int]]) -> None:
    routes, capacity = network
    exact = filled(routes, [Fraction(limit) for limit in capacity])
    assert max_min_rates(routes, np.array(capacity, dtype=np.float64)) == pytest.approx(
        [float(r) for r in exact]
    )


# Laws: time.


MACHINES = DYADIC_MACHINE._replace(
    shared_bandwidth=lambda random: random.choice((1.0, 2.0, 3.5)),
    bandwidth=lambda random: random.choice((1.0, 2.0, 3.0, 1 + random.random(), float("inf"))),
)
SCHEDULES = Mixture(
    nbytes=lambda random: random.choice((0, 1, 2, 4, 4 * random.random())),
    seconds=lambda random: random.randint(0, 4) / 2,
    kinds=("copy", "reduce", "signal", "signal", "compute"),
    after=(0, 0, 0, 1, 2),
)
cases = st.tuples(st.randoms(use_true_random=False), st.integers(2, 5))


def drawn(random: Random, ranks: int) -> tuple[Schedule, Topology]:
    return random_schedule(random, ranks, SCHEDULES), random_machine(random, ranks, MACHINES)


@given(cases)
def test_both_engines_agree_on_any_schedule(case: tuple[Random, int]) -> None:
    random, ranks = case
    schedule, topology = drawn(random, ranks)
    reference, compiled = fair(schedule, topology), fair(schedule, topology, "compiled")
    assert compiled.ready == pytest.approx(reference.ready, rel=1e-9)
    assert compiled.finish == pytest.approx(reference.finish, rel=1e-9)
    assert compiled.sent == pytest.approx(reference.sent, rel=1e-9)
    assert compiled.node_start == pytest.approx(reference.node_start, rel=1e-9)
    assert compiled.node_cause.tolist() == reference.node_cause.tolist()


def flowing(timeline: Timeline) -> list[int]:
    """The transfers that have bytes to send over media with a limit."""
    routed, limit = timeline.routed, timeline.routed.topology.medium_bandwidth
    return [
        i
        for i in range(len(timeline.schedule))
        if timeline.schedule.nbytes[i] > 0
        and any(np.isfinite(limit[m]) for m in media(timeline, i))
        if len(routed.hops(i))
    ]


def media(timeline: Timeline, i: int) -> list[int]:
    """The media of a route, each as often as it is crossed."""
    topology = timeline.routed.topology
    return [int(m) for link in timeline.routed.hops(i) for m in topology.media_of(int(link))]


def moments(timeline: Timeline) -> Iterator[tuple[float, list[int]]]:
    """The seconds between one start or end of flows and the next, and who flows in them."""
    flows = flowing(timeline)
    times = sorted({float(t) for i in flows for t in (timeline.start[i], timeline.sent[i])})
    for begin, end in pairwise(times):
        middle = (begin + end) / 2
        yield end - begin, [i for i in flows if timeline.start[i] < middle < timeline.sent[i]]


@given(cases, st.sampled_from(["reference", "compiled"]))
def test_at_every_moment_rates_are_fair_and_every_flow_sends_its_bytes(
    case: tuple[Random, int], engine: Engine
) -> None:
    """Starts and ends of flows are right if fair rates between them, found in exact numbers, add up
    to the sizes."""
    random, ranks = case
    timeline = fair(*drawn(random, ranks), engine)
    limit = timeline.routed.topology.medium_bandwidth
    finite = np.flatnonzero(np.isfinite(limit)).tolist()
    had = np.zeros(len(timeline.schedule))
    for seconds, flows in moments(timeline):
        routes = [[finite.index(m) for m in media(timeline, i) if m in finite] for i in flows]
        for i, rate in zip(
            flows, filled(routes, [Fraction(limit[m]) for m in finite]), strict=True
        ):
            had[i] += float(rate) * seconds
    flows = flowing(timeline)
    assert had[flows] == pytest.approx(timeline.schedule.nbytes[flows], rel=1e-9)


@given(cases)
def test_a_flow_starts_after_the_greatest_gap_and_arrives_after_all_latencies(
    case: tuple[Random, int],
) -> None:
    random, ranks = case
    timeline = fair(*drawn(random, ranks))
    topology = timeline.routed.topology
    for i in range(len(timeline.schedule)):
        hops = timeline.routed.hops(i)
        if len(hops) == 0:
            continue
        first = int(timeline.routed.node_indptr[i])
        gap = max(topology.medium_gap[m] for m in media(timeline, i))
        assert timeline.node_start[first : first + len(hops)].tolist() == [
            timeline.ready[i] + gap
        ] * len(hops)
        arrival = timeline.sent[i] + topology.latency[hops].sum()
        assert arrival_of(timeline, i) == arrival
        merged = int(timeline.routed.node_indptr[i + 1]) - first > len(hops)
        begun = timeline.node_start[first + len(hops)] if merged else timeline.finish[i]
        assert begun >= arrival * (1 - 1e-12)
        assert (
            begun == pytest.approx(arrival, rel=1e-12)
            or timeline.node_cause[first + len(hops)] >= 0
        )


wires = st.lists(
    st.builds(Link, st.floats(0.1, 10), st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=5
)


@tries(6, 20)
@given(st.integers(0, 2**32))
def test_many_flows_through_a_switch_all_arrive_and_the_busiest_port_bounds_them(seed: int) -> None:
    rng, ranks = np.random.default_rng(seed), 12
    pairs = [
        (source, target, rng.uniform(1, 9))
        for source in range(ranks)
        for target in range(ranks)
        if source != target
    ]
    timeline = fair(between(*pairs), shapes.star(ranks, bandwidth=2.0), "compiled")
    assert (timeline.sent > 0).all()
    assert timeline.makespan >= timeline.medium_bytes().max() / 2.0 * (1 - 1e-9)
    assert timeline.utilisation().max() <= 1 + 1e-9


@given(cases)
def test_the_causes_of_bubbles_add_up(case: tuple[Random, int]) -> None:
    random, ranks = case
    check_that_causes_add_up(fair(*drawn(random, ranks)), ranks)
