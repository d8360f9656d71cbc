"""The rules of time in corner cases, of media that several links share, and of local work."""

from typing import Any

import numpy as np
import pytest

from simulator.engines import Engine, simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_machines import route_of
from small_schedules import equal_messages
from topologies import shapes
from topologies.errors import InputError
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder
from transfers import causes, starts


def test_an_empty_signal_takes_the_latency_and_the_gap(engine: Engine) -> None:
    assert simulate(equal_messages(1, 0.0), route_of(Link(1, 2), Link(1, 3)), engine).makespan == 5
    assert (
        simulate(
            equal_messages(1, 0.0), route_of(Link(1, 2, gap=1), Link(1, 3, gap=4)), engine
        ).makespan
        == 9
    )
    assert simulate(equal_messages(1, 0.0), route_of(Link(float("inf"), 2)), engine).makespan == 2


def test_empty_signals_do_not_hold_each_other_up(engine: Engine) -> None:
    timeline = simulate(equal_messages(5, 0.0), route_of(Link(1, 2)), engine)
    assert timeline.start.tolist() == [0] * 5
    assert timeline.node_cause.tolist() == [-1] * 5


def test_an_empty_signal_waits_behind_bytes(engine: Engine) -> None:
    schedule = ScheduleBuilder(2, 1.0)
    schedule.signal(0, 1, nbytes=6.0)
    schedule.signal(0, 1, nbytes=0.0)
    assert simulate(schedule.build(), route_of(Link(1, 2)), engine).finish.tolist() == [8, 8]


def test_a_schedule_without_transfers_needs_no_route(engine: Engine) -> None:
    builder = TopologyBuilder("islands")
    islands = [builder.device(name) for name in ("a", "b")]
    schedule = ScheduleBuilder(2, 1.0)
    schedule.compute([0, 1], 2.0)
    assert simulate(schedule.build(), builder.build(islands), engine).finish.tolist() == [2, 2]


def test_a_rank_out_of_reach_is_refused(engine: Engine) -> None:
    builder = TopologyBuilder("one way")
    ends = [builder.device("a"), builder.device("b")]
    builder.link("a", "b", Link(1.0))
    schedule = ScheduleBuilder(2, 1.0)
    schedule.copy(1, 0, slot=0)
    with pytest.raises(InputError, match="no route from rank 1 to rank 0 in one way"):
        simulate(schedule.build(), builder.build(ends), engine)


def test_a_rank_without_a_device_is_refused(engine: Engine) -> None:
    with pytest.raises(InputError, match="the schedule has 3 ranks, star only 2"):
        simulate(ScheduleBuilder(3, 1.0).build(), shapes.star(2, bandwidth=1.0), engine)


def test_an_unknown_engine_is_refused() -> None:
    unknown: Any = "fast"
    with pytest.raises(InputError, match="'fast': it is auto, reference or compiled"):
        simulate(equal_messages(1, 1.0), route_of(Link(1)), unknown)


def test_a_bus_carries_one_message_at_a_time(engine: Engine) -> None:
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([0, 1, 2], [1, 2, 0], nbytes=4.0)
    timeline = simulate(schedule.build(), shapes.bus(3, bandwidth=2.0, latency=0.5), engine)
    assert timeline.start.tolist() == [0, 2, 4]
    assert timeline.finish.tolist() == [2.5, 4.5, 6.5], (
        "the bus is free again before the latency has passed"
    )


def half_duplex() -> Topology:
    builder = TopologyBuilder("half duplex")
    left, right = builder.device("one"), builder.device("other")
    wire = builder.medium("wire", 2.0)
    builder.link(left, right, Link(2.0, 1.0), media=(wire,))
    builder.link(right, left, Link(2.0, 1.0), media=(wire,))
    return builder.build([left, right])


def test_a_half_duplex_wire_carries_one_direction_at_a_time(engine: Engine) -> None:
    schedule = ScheduleBuilder(2, 1.0)
    schedule.signal([0, 1], [1, 0], nbytes=4.0)
    both_ways = schedule.build()
    assert simulate(both_ways, half_duplex(), engine).finish.tolist() == [3, 5]
    assert simulate(
        both_ways, shapes.line(2, bandwidth=2.0, latency=1.0), engine
    ).finish.tolist() == [3, 3]


def unequal_media() -> Topology:
    """a -> b crosses its own wire (8 B/s), a slow bus (1 B/s and 1 s a message) and a middling one
    (2 B/s)."""
    builder = TopologyBuilder("unequal media")
    for name in ("a", "b", "c"):
        builder.device(name)
    slow, middling = builder.medium("slow", 1.0, gap=1.0), builder.medium("middling", 2.0)
    builder.link("a", "b", Link(8.0, 3.0), media=(slow, middling))
    builder.link("b", "c", Link(8.0, 3.0), media=(middling,))
    builder.link("c", "a", Link(8.0, 3.0), media=(slow,))
    return builder.build(["a", "b", "c"])


def test_a_link_over_several_media_goes_at_the_pace_of_the_slowest_and_holds_each_for_its_own_time(
    engine: Engine,
) -> None:
    # a -> b holds its wire for 1 s, the middling bus for 4 s and the slow one for 1 + 8 s. Then b
    # -> c finds the middling one free at 4, c -> a the slow one at 9.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([0, 1, 2], [1, 2, 0], nbytes=8.0)
    timeline = simulate(schedule.build(), unequal_media(), engine)
    assert timeline.start.tolist() == [0, 4, 9]
    assert timeline.finish.tolist() == [9 + 3, 4 + 4 + 3, 9 + 9 + 3]
    assert timeline.node_cause.tolist() == [-1, 0, 0]


def test_a_link_over_several_media_waits_until_all_are_free(engine: Engine) -> None:
    # c -> a holds the slow bus until 9, b -> c the middling one until 4: a -> b starts at 9,
    # because of c -> a. The next b -> c waits for the middling bus until 9 + 4, although it stood
    # idle from 4 to 9.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([2, 1, 0, 1], [0, 2, 1, 2], nbytes=8.0)
    timeline = simulate(schedule.build(), unequal_media(), engine)
    assert timeline.start.tolist() == [0, 0, 9, 13]
    assert timeline.node_cause.tolist() == [-1, -1, 0, 2]


def test_reductions_are_merged_one_by_one_in_the_order_of_arrival(engine: Engine) -> None:
    # Rank 1's 4 bytes arrive at 4, rank 2's at 2: merged from 2 to 6 and from 6 to 10.
    builder = TopologyBuilder("uneven")
    for name in ("sink", "slow", "fast"):
        builder.device(name, reduction=1.0)
    builder.link("slow", "sink", Link(1.0))
    builder.link("fast", "sink", Link(2.0))
    schedule = ScheduleBuilder(3, 4.0)
    schedule.reduce([1, 2], 0, slot=0)
    timeline = simulate(schedule.build(), builder.build(["sink", "slow", "fast"]), engine)
    assert starts(timeline, 1) == [0, 2]
    assert starts(timeline, 0) == [0, 6]
    assert timeline.finish.tolist() == [10, 6]
    assert causes(timeline, 0) == [-1, 3]


def test_reductions_that_arrive_together_are_merged_in_the_order_of_operations(
    engine: Engine,
) -> None:
    schedule = ScheduleBuilder(3, 4.0)
    schedule.reduce([2, 1], 0, slot=0)
    timeline = simulate(schedule.build(), shapes.full_mesh(3, bandwidth=1.0, reduction=0.5), engine)
    assert timeline.finish.tolist() == [6, 8]


def local_machine(*, reduction: float = 0.0, copy: float = 0.0) -> Topology:
    builder = TopologyBuilder("local")
    names = [builder.device(name, reduction=reduction, copy=copy) for name in ("a", "b")]
    builder.connect(names[0], names[1], Link(1.0))
    return builder.build(names)


def test_local_work_takes_no_time_unless_the_memory_has_a_bandwidth(engine: Engine) -> None:
    schedule = ScheduleBuilder(2, 4.0, scratch=2)
    schedule.copy(0, 0, slot=0, target=1)
    schedule.reduce(0, 0, slot=1, target=0)
    local = schedule.build()
    assert simulate(local, local_machine(), engine).finish.tolist() == [0, 0]
    assert simulate(local, local_machine(reduction=1.0), engine).finish.tolist() == [0, 4]
    assert simulate(local, local_machine(copy=0.5), engine).finish.tolist() == [2, 2]
    assert simulate(local, local_machine(reduction=1.0, copy=0.5), engine).finish.tolist() == [2, 6]


def test_local_work_of_one_rank_takes_turns_with_its_reductions(engine: Engine) -> None:
    # Two copies of 2 s each; rank 1's bytes arrive at 4 as they end, rank 1 itself is free.
    schedule = ScheduleBuilder(2, 4.0, scratch=3)
    schedule.copy(0, 0, slot=0, target=[1, 2])
    schedule.copy(1, 1, slot=0, target=1)
    schedule.reduce(1, 0, slot=0, target=3)
    timeline = simulate(schedule.build(), local_machine(reduction=1.0, copy=0.5), engine)
    assert timeline.start.tolist() == [0, 2, 0, 0]
    assert timeline.finish.tolist() == [2, 4, 2, 8]
    assert causes(timeline, 1) == [0]


def test_a_reduction_that_costs_nothing_waits_until_a_copy_is_done(engine: Engine) -> None:
    # γ = 0. Rank 0 copies for 8 s; rank 1's bytes arrive at 4, and the memory is free for them at
    # 8.
    schedule = ScheduleBuilder(2, 4.0, scratch=2)
    schedule.copy(0, 0, slot=0, target=1)
    schedule.reduce(1, 0, slot=0, target=2)
    timeline = simulate(schedule.build(), local_machine(copy=2.0), engine)
    assert starts(timeline, 1) == [0, 8]
    assert timeline.finish.tolist() == [8, 8]
    assert causes(timeline, 1) == [-1, 0]


def test_a_copy_from_afar_needs_no_memory_bandwidth(engine: Engine) -> None:
    schedule = ScheduleBuilder(2, 4.0)
    schedule.copy(0, 1, slot=0)
    assert simulate(schedule.build(), local_machine(reduction=9.0, copy=9.0), engine).makespan == 4


def test_ranks_on_one_device_need_no_link(engine: Engine) -> None:
    builder = TopologyBuilder("shared device")
    builder.device("gpu", reduction=1.0, copy=0.5)
    schedule = ScheduleBuilder(2, 4.0)
    schedule.signal(0, 1)
    schedule.reduce(0, 1, slot=0)
    schedule.copy(1, 0, slot=0)
    timeline = simulate(schedule.build(), builder.build(["gpu", "gpu"]), engine)
    assert timeline.finish.tolist() == [0, 4, 6]


def test_lanes_run_side_by_side_and_each_in_turn(engine: Engine) -> None:
    # Rank 0 has two lanes, rank 1 one: 3 and 5 s behind each other, 4 s beside them.
    schedule = ScheduleBuilder(2, 1.0)
    schedule.compute([0, 0, 0, 1], np.array([3.0, 5.0, 4.0, 6.0]), lane=[0, 0, 1, 0])
    timeline = simulate(schedule.build(), shapes.line(2, bandwidth=1.0), engine)
    assert timeline.start.tolist() == [0, 3, 0, 0]
    assert timeline.finish.tolist() == [3, 8, 4, 6]
    assert timeline.node_cause.tolist() == [-1, 0, -1, -1]


def test_a_lane_serves_who_is_ready_first_and_then_the_lower_index(engine: Engine) -> None:
    # Operation 1 is ready at 5 only; 2 and 3 are ready at 1 and overtake it, in that order.
    schedule = ScheduleBuilder(2, 1.0)
    late = schedule.compute(1, 5.0)
    schedule.compute(0, 2.0, after=late)
    early = schedule.compute(1, 1.0, lane=1)
    schedule.compute(0, np.array([3.0, 4.0]), after=early)
    timeline = simulate(schedule.build(), shapes.line(2, bandwidth=1.0), engine)
    assert timeline.start.tolist() == [0, 8, 0, 1, 4]
    assert timeline.node_cause.tolist() == [-1, 4, -1, -1, 3]
