"""The rules of time, in numbers small enough to follow with a finger, on both engines."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from simulator.engines import Engine, simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_machines import DYADIC_MACHINE, exact_wires, merge, random_machine, route_of
from small_schedules import DYADIC_SCHEDULE, equal_messages, random_schedule
from topologies import shapes
from topologies.link import Link
from topologies.topology_builder import TopologyBuilder
from transfers import causes, starts


@pytest.mark.parametrize(
    ("wires", "arrival"),
    [
        # The bytes leave the slow wire at 8, then 2 + 3 s of latency; the fast one takes 2 s
        # meanwhile.
        ((Link(1, 2), Link(4, 3)), 13.0),
        # The head is at the slow wire at 2; 8 s later the last byte has left it; 3 s to go.
        ((Link(4, 2), Link(1, 3)), 13.0),
        # Both slow wires attain the maximum: 0 + 8 + (1 + 2 + 3) = (1 + 2) + 8 + 3.
        ((Link(1, 1), Link(8, 2), Link(1, 3)), 14.0),
        # A gap counts where it is: 3 + 8/4 = 5 is more than 8/2 = 4.
        ((Link(2, 1), Link(4, 1, gap=3)), 7.0),
        # A wire without limit costs its latency alone.
        ((Link(float("inf"), 1), Link(2, 1), Link(float("inf"), 1)), 7.0),
    ],
    ids=["slow-fast", "fast-slow", "slow-fast-slow", "gap", "unlimited"],
)
def test_one_message_takes_all_latencies_and_the_slowest_wire(
    engine: Engine, wires: tuple[Link, ...], arrival: float
) -> None:
    timeline = simulate(equal_messages(1, 8.0), route_of(*wires), engine)
    assert timeline.finish.tolist() == [arrival]
    heads = np.cumsum([0.0, *(wire.latency for wire in wires[:-1])])
    assert starts(timeline, 0) == heads.tolist()


def test_a_switch_never_adds_a_second_transmission(engine: Engine) -> None:
    star = shapes.star(2, bandwidth=4.0, latency=1.0)
    assert simulate(equal_messages(1, 8.0), star, engine).makespan == 2 * 1.0 + 8 / 4


def test_messages_follow_each_other_at_the_pace_of_two_equal_slow_wires(engine: Engine) -> None:
    # The second enters the first wire at 8, is at the last at 11, where the first one's last byte
    # leaves just then.
    timeline = simulate(
        equal_messages(3, 8.0), route_of(Link(1, 1), Link(8, 2), Link(1, 3)), engine
    )
    assert [starts(timeline, i) for i in range(3)] == [[0, 1, 3], [8, 9, 11], [16, 17, 19]]
    assert timeline.finish.tolist() == [14, 22, 30]
    assert causes(timeline, 1) == [0, -1, -1]


def test_a_head_that_queues_for_less_than_the_first_wire_takes_arrives_no_later(
    engine: Engine,
) -> None:
    # Rank 1 keeps the wire into rank 2 busy until 5. Rank 0's head waits there from 0 to 5, but its
    # last byte leaves rank 0 at 10 anyway: nothing is lost.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(1, 2, nbytes=20.0)
    schedule.signal(0, 2, nbytes=10.0)
    timeline = simulate(schedule.build(), merge(), engine)
    assert starts(timeline, 1) == [0, 5]
    assert timeline.finish.tolist() == [5, 10]


def test_the_tail_of_a_queued_message_counts_from_where_it_queued(engine: Engine) -> None:
    # As above, but the wire is busy until 9: 9 + 10/4 is later than 10.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(1, 2, nbytes=36.0)
    schedule.signal(0, 2, nbytes=10.0)
    timeline = simulate(schedule.build(), merge(), engine)
    assert timeline.finish.tolist() == [9, 11.5]


# Who is served first.


def test_an_incast_is_served_in_the_order_of_operations(engine: Engine) -> None:
    # All heads are at the switch at 1; 4 s each out of it, and 1 s to arrive.
    schedule = ScheduleBuilder(4, 1.0)
    schedule.signal([3, 1, 2], [0, 0, 0], nbytes=4.0)
    timeline = simulate(schedule.build(), shapes.star(4, bandwidth=1.0, latency=1.0), engine)
    assert [starts(timeline, i) for i in range(3)] == [[0, 1], [0, 5], [0, 9]]
    assert timeline.finish.tolist() == [6, 10, 14]
    assert [causes(timeline, i)[1] for i in range(3)] == [-1, 1, 3]


def test_an_incast_is_served_in_the_order_of_arrival_before_that(engine: Engine) -> None:
    # Operation 1 has the shorter way to the switch.
    builder = TopologyBuilder("uneven")
    for name in ("far", "near", "switch", "sink"):
        builder.device(name)
    builder.link("far", "switch", Link(1.0, 2.0))
    builder.link("near", "switch", Link(1.0, 1.0))
    builder.link("switch", "sink", Link(1.0, 1.0))
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([0, 1], [2, 2], nbytes=4.0)
    timeline = simulate(schedule.build(), builder.build(["far", "near", "sink"]), engine)
    assert starts(timeline, 1) == [0, 1]
    assert starts(timeline, 0) == [0, 5]
    assert timeline.finish.tolist() == [10, 6]


@each_case("through_first", [True, False])
def test_a_tie_between_a_message_on_its_way_and_a_new_one_goes_to_the_lower_index(
    engine: Engine, through_first: bool
) -> None:
    # 0 -> 1 -> 2 in a line: the head of 0's message is at rank 1 at 1, just when rank 1's own
    # message is ready.
    schedule = ScheduleBuilder(3, 1.0)
    through = [schedule.signal(0, 2, nbytes=4.0)] if through_first else []
    signal = schedule.signal(1, 2, nbytes=4.0, after=schedule.compute(1, 1.0))
    through = through or [schedule.signal(0, 2, nbytes=4.0)]
    timeline = simulate(schedule.build(), shapes.line(3, bandwidth=1.0, latency=1.0), engine)
    second = starts(timeline, int(through[0][0]))[1], starts(timeline, int(signal[0]))[0]
    assert second == ((1, 5) if through_first else (5, 1))


def test_a_medium_is_booked_on_arrival_and_not_given_to_a_short_message_that_would_fit(
    engine: Engine,
) -> None:
    # Message 0 books the shared wire from 10 on, when rank 0's port is free; message 2 arrives at 0
    # and waits behind.
    builder = TopologyBuilder("booked")
    for name in ("a", "b", "c"):
        builder.device(name)
    shared = builder.medium("shared", 1.0)
    port = builder.medium("port of a", 1.0)
    builder.link("a", "c", Link(8.0), media=(port,))
    builder.link("a", "b", Link(8.0), media=(port, shared))
    builder.link("c", "b", Link(8.0), media=(shared,))
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([0, 0, 2], [2, 1, 1], nbytes=10.0)
    timeline = simulate(schedule.build(), builder.build(["a", "b", "c"]), engine)
    assert timeline.start.tolist() == [0, 10, 20]
    assert timeline.node_cause.tolist() == [-1, 0, 1]


# Gaps.


def test_a_gap_keeps_messages_apart(engine: Engine) -> None:
    # 3 + 4/2 s a message.
    timeline = simulate(equal_messages(3, 4.0), route_of(Link(2, 1, gap=3)), engine)
    assert timeline.start.tolist() == [0, 5, 10]
    assert timeline.finish.tolist() == [6, 11, 16]


def test_latency_overlaps_where_a_gap_does_not(engine: Engine) -> None:
    # Ten empty messages: the postal model pays 3 s once, the one-port model ten times.
    assert simulate(equal_messages(10, 0.0), route_of(Link(2, latency=3)), engine).makespan == 3
    assert simulate(equal_messages(10, 0.0), route_of(Link(2, gap=3)), engine).makespan == 30


# Laws.


@given(exact_wires, st.integers(0, 64))
def test_alone_on_its_route_a_message_takes_all_latencies_and_the_slowest_medium(
    route: list[Link], size: int
) -> None:
    expected = sum(wire.latency for wire in route) + max(
        wire.gap + size / wire.bandwidth for wire in route
    )
    for engine in ("reference", "compiled"):
        assert (
            simulate(equal_messages(1, float(size)), route_of(*route), engine).makespan == expected
        )


@given(exact_wires, st.integers(1, 64), st.integers(1, 6))
def test_equal_messages_leave_the_slowest_medium_one_behind_the_other(
    route: list[Link], size: int, count: int
) -> None:
    slowest = max(wire.gap + size / wire.bandwidth for wire in route)
    finish = simulate(equal_messages(count, float(size)), route_of(*route), "compiled").finish
    assert np.diff(finish).tolist() == [slowest] * (count - 1)


@given(st.randoms(use_true_random=False), st.integers(2, 5))
def test_both_engines_agree_to_the_bit_on_any_schedule(random: Random, ranks: int) -> None:
    schedule, topology = (
        random_schedule(random, ranks, DYADIC_SCHEDULE),
        random_machine(random, ranks, DYADIC_MACHINE),
    )
    reference, compiled = (
        simulate(schedule, topology, "reference"),
        simulate(schedule, topology, "compiled"),
    )
    assert reference.ready.tolist() == compiled.ready.tolist()
    assert reference.finish.tolist() == compiled.finish.tolist()
    assert reference.node_start.tolist() == compiled.node_start.tolist()
    assert reference.node_cause.tolist() == compiled.node_cause.tolist()
