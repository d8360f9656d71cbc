"""The critical path by hand, and what parameters are worth where it is no gradient."""

from dataclasses import replace

import numpy as np
import pytest

from grouped_cases import each_case
from random_machines import irregular
from simulator.analysis.critical_path import (
    PARTS,
    CriticalPath,
    Sensitivities,
    critical_path,
    parts,
    sensitivities,
    worth,
)
from simulator.analysis.differences import finite_differences
from simulator.collectives import find
from simulator.engines import Sharing, simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from small_machines import route_of
from small_schedules import messages
from topologies import shapes
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


def nonzero(path: CriticalPath) -> dict[str, float]:
    """The parts that take any time."""
    return {part: seconds for part, seconds in parts(path).items() if seconds}


def story(timeline: Timeline) -> list[tuple[str, float, int, bool]]:
    """The segments from the end to the start, without those of no time: part, seconds, operation,
    whether another one waited for it."""
    return [
        (s.part, s.seconds, s.operation, s.waiter != s.operation)
        for s in critical_path(timeline)
        if s.seconds
    ]


# Parts, by hand.


def test_a_message_alone_is_latency_gap_and_the_bytes_on_its_slowest_wire() -> None:
    # 8/4 + 1 = 3 s on the first wire, 8/2 + 2 = 6 s on the second.
    timeline = simulate(messages(8.0), route_of(Link(4, 2, 1), Link(2, 3, 2)))
    assert timeline.makespan == 2 + 6 + 3
    assert story(timeline) == [
        ("latency", 3, 0, False),
        ("serialisation", 4, 0, False),
        ("gap", 2, 0, False),
        ("latency", 2, 0, False),
    ]


def test_on_a_slow_first_wire_the_path_leaves_out_what_the_faster_ones_do_meanwhile() -> None:
    timeline = simulate(messages(8.0), route_of(Link(1, 1), Link(8, 2), Link(2, 3)))
    assert nonzero(critical_path(timeline)) == {"latency": 6, "serialisation": 8}
    assert [(s.part, s.where) for s in critical_path(timeline) if s.seconds] == [
        ("latency", 2),
        ("latency", 1),
        ("latency", 0),
        ("serialisation", 0),
    ]


def test_waiting_behind_a_message_of_the_same_rank_counts_as_what_that_message_does() -> None:
    # The second message waits 5 + 1 s, then takes 3 + 1 s and 2 s of latency.
    timeline = simulate(messages(10.0, 6.0), route_of(Link(2, 2, 1)))
    path = critical_path(timeline)
    assert nonzero(path) == {"latency": 2, "serialisation": 3 + 5, "gap": 1 + 1}
    assert {part: seconds for part, seconds in worth(path).items() if seconds} == nonzero(path)
    assert story(timeline) == [
        ("latency", 2, 1, False),
        ("serialisation", 3, 1, False),
        ("gap", 1, 1, False),
        ("serialisation", 5, 0, True),
        ("gap", 1, 0, True),
    ]


def test_the_last_of_an_incast_waited_for_all_before_it() -> None:
    # Heads at the switch at 1, 4 s each: the last is there from 9 to 13, and arrives at 14.
    schedule = ScheduleBuilder(4, 1.0)
    schedule.signal([1, 2, 3], [0, 0, 0], nbytes=4.0)
    timeline = simulate(schedule.build(), shapes.star(4, bandwidth=1.0, latency=1.0))
    assert story(timeline) == [
        ("latency", 1, 2, False),
        ("serialisation", 4, 2, False),
        ("serialisation", 4, 1, True),
        ("serialisation", 4, 0, True),
        ("latency", 1, 0, False),
    ]
    assert nonzero(critical_path(timeline)) == {"latency": 2, "serialisation": 4, "contention": 8}
    assert worth(critical_path(timeline))["serialisation"] == 12


def test_reductions_queue_for_the_receiver() -> None:
    # Both arrive at 4; merged 4..7 and 7..10: the path is 4 s on the wire, 3 s in the queue, 3 s of
    # merging.
    schedule = ScheduleBuilder(3, 4.0)
    schedule.reduce([1, 2], 0, slot=0)
    timeline = simulate(schedule.build(), shapes.full_mesh(3, bandwidth=1.0, reduction=0.75))
    assert story(timeline) == [
        ("reduction", 3, 1, False),
        ("reduction", 3, 0, True),
        ("serialisation", 4, 0, False),
    ]
    assert parts(critical_path(timeline))["contention"] == 3, "rank 2's sum behind rank 1's"


def test_computations_count_and_queue_for_their_lane() -> None:
    # 3 s, then 5 s on the same lane, then 2 bytes.
    schedule = ScheduleBuilder(2, 1.0)
    schedule.compute(0, 3.0)
    last = schedule.compute(0, 5.0)
    schedule.signal(0, 1, nbytes=2.0, after=last)
    timeline = simulate(schedule.build(), route_of(Link(1, 1)))
    assert story(timeline) == [
        ("latency", 1, 2, False),
        ("serialisation", 2, 2, False),
        ("compute", 5, 1, False),
        ("compute", 3, 0, True),
    ]


def test_local_copies_count_at_their_rank() -> None:
    builder = TopologyBuilder("local")
    ends = [builder.device("a"), builder.device("b", copy=0.5)]
    builder.connect(ends[0], ends[1], Link(1.0))
    schedule = ScheduleBuilder(2, 4.0, scratch=1)
    schedule.copy(0, 1, slot=0, target=1)
    schedule.copy(1, 1, slot=1, target=0)
    timeline = simulate(schedule.build(), builder.build(ends))
    assert story(timeline) == [("copy", 2, 1, False), ("serialisation", 4, 0, False)]
    assert sensitivities(timeline).copy.tolist() == [0, 4]


def test_the_path_goes_through_the_slowest_of_several_media() -> None:
    builder = TopologyBuilder("media")
    ends = [builder.device("a"), builder.device("b")]
    bus, port = builder.medium("bus", 4.0, gap=3.0), builder.medium("port", 2.0)
    builder.link("a", "b", Link(8.0), media=(bus, port))
    topology = builder.build(ends)
    # 4 bytes: 1 + 3 on the bus, 2 through the port. 40 bytes: 10 + 3 on the bus, 20 through the
    # port.
    assert nonzero(critical_path(simulate(messages(4.0), topology))) == {
        "serialisation": 1,
        "gap": 3,
    }
    assert nonzero(critical_path(simulate(messages(40.0), topology))) == {"serialisation": 20}
    # Both: the large one waits 4 s for the bus, though the port is free at 2.
    assert nonzero(critical_path(simulate(messages(4.0, 40.0), topology))) == {
        "serialisation": 20 + 1,
        "gap": 3,
    }


def test_no_time_has_no_path() -> None:
    line = shapes.line(2, bandwidth=float("inf"))
    for schedule in (ScheduleBuilder(2, 1.0).build(), messages(5.0)):
        path = critical_path(simulate(schedule, line))
        assert list(path) == []
        assert parts(path) == dict.fromkeys(PARTS, 0.0)


# Counts.


@each_case("ranks", [2, 3, 5, 8, 16])
def test_a_ring_waits_for_2p_minus_2_latencies_and_as_many_chunks(ranks: int) -> None:
    nbytes = 1e6
    topology = shapes.ring(ranks, bandwidth=1e9, latency=1e-6, gap=1e-7, reduction=1e-10)
    timeline = simulate(find("ring").build(ranks, nbytes), topology)
    worths = sensitivities(timeline)
    assert worths.latency.sum() == 2 * (ranks - 1)
    assert worths.gap.sum() == 2 * (ranks - 1)
    assert worths.inverse_bandwidth.sum() == pytest.approx(
        2 * (ranks - 1) * nbytes / ranks, rel=1e-12
    )
    assert worths.reduction.sum() == pytest.approx((ranks - 1) * nbytes / ranks, rel=1e-12)
    assert worths.copy.sum() == 0


def test_counts_have_a_row_for_each_link_medium_and_rank() -> None:
    timeline = simulate(find("tree").build(5, 1e6), shapes.star(5, bandwidth=1e9, latency=1e-6))
    counts = sensitivities(timeline)
    assert counts.latency.shape == counts.gap.shape == counts.inverse_bandwidth.shape == (10,)
    assert counts.reduction.shape == counts.copy.shape == (5,)


def test_counts_tell_the_time_at_another_size() -> None:
    topology = shapes.star(5, bandwidth=1e9, latency=1e-6, reduction=1e-10)
    timeline = simulate(find("ring").build(5, 1e6), topology)
    larger = simulate(find("ring").build(5, 4e6), topology)
    counts = sensitivities(timeline)
    assert counts.seconds(timeline.routed) == pytest.approx(timeline.makespan, rel=1e-12)
    assert counts.seconds(larger.routed) == pytest.approx(larger.makespan, rel=1e-12)


def test_paths_are_joined_one_after_the_other() -> None:
    timeline = simulate(find("ring").build(4, 4.0), shapes.star(4, bandwidth=1.0, latency=0.5))
    one, other = critical_path(timeline), critical_path(timeline, 0)
    joined = CriticalPath.joined([one, other])
    assert list(joined) == [*one, *other]
    chosen = joined.seconds > 0.5
    expected = [*one.take(one.seconds > 0.5), *other.take(other.seconds > 0.5)]
    assert list(joined.take(chosen)) == list(joined.take(np.flatnonzero(chosen))) == expected
    assert 0 < len(expected) < len(joined)
    with pytest.raises(AttributeError, match="width"):
        _ = joined.width  # type: ignore[attr-defined]


PARAMETERS = ("latency", "gap", "inverse_bandwidth", "reduction", "copy")


def differences(schedule: Schedule, topology: Topology, sharing: Sharing = "fair") -> Sensitivities:
    return finite_differences(simulate(schedule, topology, "reference", sharing=sharing))


@pytest.mark.parametrize("store_and_forward", [False, True])
@pytest.mark.parametrize("name", ["ring", "tree", "naive"])
def test_where_the_critical_path_counts_they_are_its_counts(
    name: str, store_and_forward: bool
) -> None:
    regular = shapes.star(4, bandwidth=1.0, latency=1.0, gap=0.5, reduction=0.3)
    timeline = simulate(
        find(name).build(4, 12.0),
        irregular(regular, np.random.default_rng(3)),
        store_and_forward=store_and_forward,
    )
    tried, counted = finite_differences(timeline), sensitivities(timeline)
    for parameter in PARAMETERS:
        assert getattr(tried, parameter) == pytest.approx(
            getattr(counted, parameter), rel=1e-5, abs=1e-5
        )


def test_a_flow_alone_counts_its_latencies_its_greatest_gap_and_its_slowest_wire() -> None:
    builder = shapes.line(3, bandwidth=4.0, latency=2.0, gap=1.0)
    topology = replace(builder, medium_gap=builder.medium_gap * np.array([1, 1, 3, 1]))
    topology = replace(
        topology, medium_bandwidth=topology.medium_bandwidth / np.array([2, 1, 1, 1])
    )
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(0, 2, nbytes=8.0)
    derivatives = differences(schedule.build(), topology)
    names = list(topology.medium_names)
    hops = [names.index("gpu0->gpu1"), names.index("gpu1->gpu2")]
    assert derivatives.latency[hops] == pytest.approx([1, 1], rel=1e-6)
    assert derivatives.gap[hops] == pytest.approx([0, 1], rel=1e-6)
    assert derivatives.inverse_bandwidth[hops] == pytest.approx([8, 0], rel=1e-6)
    assert derivatives.latency.sum() == pytest.approx(2)


def test_flows_that_share_a_wire_all_count_until_the_last_is_sent() -> None:
    derivatives = differences(messages(4.0, 8.0), shapes.line(2, bandwidth=2.0))
    assert derivatives.inverse_bandwidth == pytest.approx([12, 0], rel=1e-6)


def test_a_wire_without_limit_may_still_become_one() -> None:
    assert differences(
        messages(4.0, 8.0), shapes.line(2, bandwidth=float("inf"), latency=1.0)
    ).inverse_bandwidth == (pytest.approx([12, 0], rel=1e-6))


def test_merging_and_copying_count_at_their_rank() -> None:
    schedule = ScheduleBuilder(2, 4.0, scratch=1)
    schedule.reduce(0, 1, slot=0)
    schedule.copy(1, 1, slot=0, target=1)
    topology = shapes.line(2, bandwidth=1.0, reduction=0.5)
    derivatives = differences(schedule.build(), topology)
    assert derivatives.reduction == pytest.approx([0, 4], rel=1e-6)
    assert derivatives.copy == pytest.approx([0, 4], rel=1e-6)


def test_nothing_is_worth_anything_in_no_time() -> None:
    derivatives = differences(ScheduleBuilder(2, 1.0).build(), shapes.line(2, bandwidth=1.0))
    assert not any(getattr(derivatives, parameter).any() for parameter in PARAMETERS)
