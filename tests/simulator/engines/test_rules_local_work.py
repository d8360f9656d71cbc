"""Reductions, local copies and computations, in numbers small enough to follow with a finger."""

import numpy as np

from routes import causes, starts
from simulator.engines import Engine, simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_machines import route_of
from topologies import shapes
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


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


def test_every_receiver_merges_by_itself_while_the_wire_goes_on(engine: Engine) -> None:
    # Three reductions through one wire, 4 s each, merged in 2 s each: the last is on the wire until
    # 12.
    schedule = ScheduleBuilder(2, 12.0, slots=3)
    schedule.reduce(0, 1, slot=[0, 1, 2])
    timeline = simulate(schedule.build(), route_of(Link(1), reduction=0.5), engine)
    assert timeline.start.tolist() == [0, 4, 8]
    assert timeline.finish.tolist() == [6, 10, 14]


def test_what_depends_on_a_reduction_waits_until_it_is_merged(engine: Engine) -> None:
    schedule = ScheduleBuilder(2, 4.0)
    schedule.reduce(0, 1, slot=0)
    schedule.copy(1, 0, slot=0)
    timeline = simulate(
        schedule.build(), shapes.line(2, bandwidth=1.0, latency=1.0, reduction=0.5), engine
    )
    assert timeline.ready.tolist() == [0, 7]
    assert timeline.finish.tolist() == [7, 12]


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


def test_ranks_merge_beside_their_computations_and_those_of_others(engine: Engine) -> None:
    # A reduction of 4 bytes takes 4 s to arrive and 4 s to merge, at every rank; all compute for 20
    # s meanwhile.
    schedule = ScheduleBuilder(4, 4.0, scratch=1)
    schedule.compute([0, 1, 2, 3], 20.0)
    schedule.reduce([1, 2, 3, 0], [0, 1, 2, 3], slot=0, target=1)
    timeline = simulate(schedule.build(), shapes.ring(4, bandwidth=1.0, reduction=1.0), engine)
    assert timeline.finish.tolist() == [20] * 4 + [8] * 4
    assert timeline.node_cause.tolist() == [-1] * len(timeline.node_cause)


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


def test_an_operation_waits_for_the_last_of_its_predecessors(engine: Engine) -> None:
    schedule = ScheduleBuilder(3, 1.0)
    before = schedule.compute([0, 1, 2], np.array([2.0, 7.0, 4.0]))
    schedule.signal(0, 1, nbytes=3.0, after=before)
    timeline = simulate(schedule.build(), shapes.line(3, bandwidth=1.0), engine)
    assert timeline.ready.tolist() == [0, 0, 0, 7]
    assert timeline.finish[3] == 10
