"""Store-and-forward: nothing is sent on before its last byte has arrived; every story is run on
both engines."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubble_causes import check_that_causes_add_up
from simulator.analysis.critical_path import critical_path, parts, sensitivities
from simulator.collectives import find
from simulator.engines import Engine, simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from small_machines import DYADIC_MACHINE, exact_wires, random_machine, route_of
from small_schedules import DYADIC_SCHEDULE, messages, random_schedule
from topologies import shapes
from topologies.errors import InputError
from topologies.link import Link
from topologies.topology import Topology
from transfers import crossing, starts


def stored(schedule: Schedule, topology: Topology, engine: Engine = "reference") -> Timeline:
    return simulate(schedule, topology, engine, store_and_forward=True)


# Alone: the sum of g + n/β + α.


@pytest.mark.parametrize(
    ("wires", "arrival"),
    [
        ((Link(1, 2), Link(4, 3)), 8 + 2 + 2 + 3),
        ((Link(4, 2), Link(1, 3)), 2 + 2 + 8 + 3),
        ((Link(1, 1), Link(8, 2), Link(1, 3)), 8 + 1 + 1 + 2 + 8 + 3),
        ((Link(2, 1, gap=2), Link(4, 1, gap=3)), 2 + 4 + 1 + 3 + 2 + 1),
        ((Link(float("inf"), 1), Link(2, 1)), 1 + 4 + 1),
    ],
    ids=["slow-fast", "fast-slow", "slow-fast-slow", "gaps", "unlimited"],
)
def test_one_message_takes_every_wire_in_full(
    engine: Engine, wires: tuple[Link, ...], arrival: float
) -> None:
    assert stored(messages(8.0), route_of(*wires), engine).finish.tolist() == [arrival]


def test_a_switch_adds_a_second_transmission(engine: Engine) -> None:
    star = shapes.star(2, bandwidth=4.0, latency=1.0)
    assert stored(messages(8.0), star, engine).makespan == 2 * (1 + 8 / 4)
    assert simulate(messages(8.0), star, engine).makespan == 2 * 1 + 8 / 4


def test_the_ring_of_another_simulator(engine: Engine) -> None:
    """ASTRA-sim's congestion-aware switch stores whole chunks. Its ring all-reduce of 1 GiB over 8
    ranks, 50 GiB/s and 500 ns, takes 70.042197 ms; a little of that is work of its own at every
    step."""
    topology = shapes.star(8, bandwidth=50 * 2.0**30, latency=500e-9)
    makespan = stored(find("ring").build(8, 2.0**30), topology, engine).makespan
    assert makespan == pytest.approx(14 * 2 * (500e-9 + 2.0**27 / (50 * 2.0**30)), rel=1e-12)
    assert makespan == pytest.approx(70.042197e-3, rel=5e-4)


# Together.


def test_a_switch_serves_who_is_there_in_full_first(engine: Engine) -> None:
    # Both heads would be at the switch at 0; the short message is there in full at 2, the long one
    # at 8.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(1, 0, nbytes=8.0)
    schedule.signal(2, 0, nbytes=2.0)
    timeline = stored(schedule.build(), shapes.star(3, bandwidth=1.0), engine)
    assert [starts(timeline, i) for i in range(2)] == [[0, 8], [0, 2]]
    assert timeline.finish.tolist() == [16, 4]


def test_a_flow_is_nothing_to_store() -> None:
    with pytest.raises(InputError, match="sharing is 'fair' with store_and_forward"):
        simulate(messages(1.0), route_of(Link(1)), sharing="fair", store_and_forward=True)


# What is read off.


def test_the_critical_path_goes_through_every_wire() -> None:
    timeline = stored(messages(8.0), route_of(Link(1, 1), Link(2, 3, gap=2)))
    path = critical_path(timeline)
    assert [(s.part, s.seconds, s.where) for s in path if s.seconds] == [
        ("latency", 3, 1),
        ("serialisation", 4, 1),
        ("gap", 2, 1),
        ("latency", 1, 0),
        ("serialisation", 8, 0),
    ]
    assert sensitivities(timeline).inverse_bandwidth.tolist() == [8, 8]


def test_a_queue_on_the_way_is_on_the_path() -> None:
    path = critical_path(stored(messages(8.0, 8.0), route_of(Link(4, 1), Link(1, 1))))
    assert {part: seconds for part, seconds in parts(path).items() if seconds} == {
        "latency": 2,
        "serialisation": 8 + 2 + 8,
    }


# Laws.


def drawn(random: Random, ranks: int) -> tuple[Schedule, Topology]:
    return random_schedule(random, ranks, DYADIC_SCHEDULE), random_machine(
        random, ranks, DYADIC_MACHINE
    )


@given(exact_wires, st.integers(0, 64), st.sampled_from(["reference", "compiled"]))
def test_alone_a_message_takes_the_sum_over_its_links(
    route: list[Link], size: int, engine: Any
) -> None:
    expected = sum(wire.gap + size / wire.bandwidth + wire.latency for wire in route)
    assert stored(messages(float(size)), route_of(*route), engine).makespan == expected


@given(st.randoms(use_true_random=False), st.integers(2, 5))
def test_both_engines_agree_to_the_bit_on_any_schedule(random: Random, ranks: int) -> None:
    schedule, topology = drawn(random, ranks)
    reference, compiled = (
        stored(schedule, topology, "reference"),
        stored(schedule, topology, "compiled"),
    )
    assert reference.ready.tolist() == compiled.ready.tolist()
    assert reference.finish.tolist() == compiled.finish.tolist()
    assert reference.node_start.tolist() == compiled.node_start.tolist()
    assert reference.node_cause.tolist() == compiled.node_cause.tolist()


@given(st.randoms(use_true_random=False), st.integers(2, 5))
def test_a_hop_starts_when_all_of_the_message_is_there_or_its_queue_lets_it(
    random: Random, ranks: int
) -> None:
    timeline = stored(*drawn(random, ranks))
    operation, link, node = timeline.hops
    for row in range(1, len(operation)):
        if operation[row] == operation[row - 1]:
            i, hop = (
                int(operation[row]),
                int(node[row] - timeline.routed.node_indptr[operation[row]]),
            )
            sent = timeline.node_start[node[row - 1]] + crossing(timeline, i, hop - 1)[1]
            arrival = sent + timeline.routed.topology.latency[link[row - 1]]
            queued = timeline.node_cause[node[row]] >= 0
            assert (
                timeline.node_start[node[row]] > arrival
                if queued
                else timeline.node_start[node[row]] == arrival
            )


@given(st.randoms(use_true_random=False), st.integers(2, 5))
def test_the_causes_of_bubbles_add_up(random: Random, ranks: int) -> None:
    check_that_causes_add_up(stored(*drawn(random, ranks)), ranks)
