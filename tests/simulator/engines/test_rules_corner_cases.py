"""Empty signals, empty schedules, everything at once, and what is refused."""

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
from topologies.topology_builder import TopologyBuilder


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


def test_a_chain_of_instants_ends_at_once(engine: Engine) -> None:
    schedule = ScheduleBuilder(2, 1.0)
    last = schedule.compute(0, 0.0)
    for turn in range(4):
        last = schedule.signal(turn % 2, 1 - turn % 2, after=last)
        last = schedule.compute(1 - turn % 2, 0.0, after=last)
    timeline = simulate(schedule.build(), shapes.line(2, bandwidth=1.0), engine)
    assert timeline.makespan == 0
    assert timeline.node_cause.tolist() == [-1] * 9


def test_an_empty_schedule_takes_no_time(engine: Engine) -> None:
    timeline = simulate(ScheduleBuilder(2, 1.0).build(), shapes.star(2, bandwidth=1.0), engine)
    assert timeline.makespan == 0
    assert len(timeline.start) == len(timeline.finish) == 0


def test_a_schedule_without_transfers_needs_no_route(engine: Engine) -> None:
    builder = TopologyBuilder("islands")
    islands = [builder.device(name) for name in ("a", "b")]
    schedule = ScheduleBuilder(2, 1.0)
    schedule.compute([0, 1], 2.0)
    assert simulate(schedule.build(), builder.build(islands), engine).finish.tolist() == [2, 2]


def test_everything_ready_at_once_starts_at_once_where_nothing_is_shared(engine: Engine) -> None:
    schedule = ScheduleBuilder(4, 1.0)
    pairs = [(source, target) for source in range(4) for target in range(4) if source != target]
    schedule.signal([source for source, _ in pairs], [target for _, target in pairs], nbytes=6.0)
    schedule.compute(np.arange(4), 1.0)
    timeline = simulate(schedule.build(), shapes.full_mesh(4, bandwidth=2.0, latency=1.0), engine)
    assert timeline.start.tolist() == [0] * 16
    assert timeline.ready.tolist() == [0] * 16
    assert timeline.finish.tolist() == [4] * 12 + [1] * 4


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
