"""What can be read off a timeline, and what is true of every one."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import a_sixth
from simulator.collectives import algorithms, find
from simulator.engines import simulate
from simulator.schedules.schedule import COMPUTE, TRANSFER, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline, length, union
from small_machines import IRREGULAR_MACHINE, random_machine, twice_as_slow
from small_schedules import IRREGULAR_SCHEDULE, random_schedule
from topologies import shapes
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder
from transfers import arrival, crossing

NAMES = tuple(
    name for name, algorithm in algorithms().items() if not algorithm.build(2, 1.0).switches
)


def pair_of_messages() -> Timeline:
    """Ranks 1 and 2 send 6 bytes each to rank 0 through a star of 2 B/s, 1 s of latency and 1 s of
    gap a link.

    Both hold their uplinks from 0 to 4; their heads are at the switch at 1; the downlink holds one
    from 1 to 5, the other from 5 to 9, and the last byte arrives at 10.
    """
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([1, 2], [0, 0], nbytes=6.0)
    return simulate(schedule.build(), shapes.star(3, bandwidth=2.0, latency=1.0, gap=1.0))


def test_a_timeline_says_when_and_how_long() -> None:
    timeline = pair_of_messages()
    assert timeline.makespan == 10
    assert timeline.start.tolist() == [0, 0]
    assert timeline.ready.tolist() == [0, 0]
    assert timeline.finish.tolist() == [6, 10]


def test_hops_are_listed_by_operation_and_link() -> None:
    timeline = pair_of_messages()
    operation, link, node = timeline.hops
    names = timeline.routed.topology.medium_names
    assert operation.tolist() == [0, 0, 1, 1]
    assert [names[k] for k in link] == [
        "gpu1->switch",
        "switch->gpu0",
        "gpu2->switch",
        "switch->gpu0",
    ]
    assert node.tolist() == [0, 1, 2, 3]


def test_occupancy_says_who_held_what_for_how_long() -> None:
    occupancy = pair_of_messages().occupancy
    assert occupancy.operation.tolist() == [0, 0, 1, 1]
    assert occupancy.start.tolist() == [0, 1, 0, 5]
    assert occupancy.seconds.tolist() == [4, 4, 4, 4], "g + n/β = 1 + 6/2, without the latency"
    assert occupancy.nbytes.tolist() == [6, 6, 6, 6]


def test_occupancy_has_a_row_for_every_medium_that_a_link_crosses() -> None:
    builder = TopologyBuilder("shared")
    ends = [builder.device("a"), builder.device("b")]
    bus = builder.medium("bus", 1.0, gap=2.0)
    builder.link("a", "b", Link(4.0), media=(bus,))
    builder.link("b", "a", Link(4.0), media=(bus,))
    schedule = ScheduleBuilder(2, 1.0)
    schedule.signal([0, 1], [1, 0], nbytes=8.0)
    timeline = simulate(schedule.build(), builder.build(ends))
    occupancy = timeline.occupancy
    rows = list(
        zip(
            occupancy.operation.tolist(),
            occupancy.medium.tolist(),
            occupancy.start,
            occupancy.seconds,
            strict=True,
        )
    )
    # Media: a->b, b->a, bus. The first holds its wire for 2 s, the bus for 2 + 8 s; then the
    # second.
    assert rows == [(0, 0, 0.0, 2.0), (0, 2, 0.0, 10.0), (1, 1, 10.0, 2.0), (1, 2, 10.0, 10.0)]
    assert timeline.medium_bytes().tolist() == [8, 8, 16]
    assert timeline.utilisation().tolist() == [0.1, 0.1, 1.0]


def test_a_crossing_is_of_the_medium_that_is_held_longest() -> None:
    builder = TopologyBuilder("buses")
    names = [builder.device(name) for name in ("a", "b")]
    media = (
        builder.medium("quick", 4.0),
        builder.medium("slow", 1.0, gap=1.0),
        builder.medium("middling", 2.0),
    )
    builder.link(names[0], names[1], Link(8.0), media=media)
    schedule = ScheduleBuilder(2, 1.0)
    schedule.signal(0, 1, nbytes=8.0)
    timeline = simulate(schedule.build(), builder.build(names))
    medium, seconds = crossing(timeline, 0, 0)
    assert (timeline.routed.topology.medium_names[medium], seconds) == ("slow", 9.0)


def test_utilisation_is_the_share_of_the_makespan_that_a_medium_is_held() -> None:
    timeline = pair_of_messages()
    names = timeline.routed.topology.medium_names
    shares = dict(zip(names, timeline.utilisation().tolist(), strict=True))
    assert shares == {
        "gpu0->switch": 0.0,
        "switch->gpu0": 0.8,
        "gpu1->switch": 0.4,
        "switch->gpu1": 0.0,
        "gpu2->switch": 0.4,
        "switch->gpu2": 0.0,
    }


def test_nothing_is_used_in_no_time() -> None:
    schedule = ScheduleBuilder(2, 1.0)
    schedule.signal(0, 1, nbytes=5.0)
    timeline = simulate(schedule.build(), shapes.line(2, bandwidth=float("inf")))
    assert timeline.makespan == 0
    assert timeline.utilisation().tolist() == [0, 0]
    assert timeline.medium_bytes().tolist() == [5, 0]


def test_local_work_and_computations_occupy_no_medium() -> None:
    schedule = ScheduleBuilder(2, 8.0, scratch=1)
    schedule.copy(0, 0, slot=0, target=1)
    schedule.compute(1, 3.0)
    timeline = simulate(schedule.build(), shapes.star(2, bandwidth=1.0))
    assert len(timeline.occupancy.medium) == 0
    assert timeline.medium_bytes().tolist() == [0, 0, 0, 0]


def check_ends(name: str, shape: Callable[..., Topology], ranks: int) -> None:
    """Every byte leaves over a link of its sender and arrives over one of its receiver."""
    algorithm = find(name)
    schedule = algorithm.build(ranks, 960.0)
    timeline = simulate(schedule, shape(ranks + algorithm.servers, bandwidth=3.0))
    operation, link, _ = timeline.hops
    first = np.append(True, np.diff(operation) != 0)
    last = np.append(first[1:], True)
    topology, nbytes = timeline.routed.topology, schedule.nbytes
    assert nbytes[operation[first]].sum() == pytest.approx(schedule.volume, rel=1e-12)
    assert (
        topology.source[link[first]] == topology.placement[schedule.rank[operation[first]]]
    ).all()
    assert (topology.target[link[last]] == topology.placement[schedule.peer[operation[last]]]).all()


SOME: tuple[Callable[..., Topology], ...] = (
    shapes.ring,
    shapes.star,
    shapes.full_mesh,
    shapes.bus,
    shapes.tree,
)


@pytest.mark.parametrize("name", a_sixth(NAMES, 3))
def test_every_byte_leaves_over_an_injection_link_and_arrives_over_an_ejection_link(
    name: str,
) -> None:
    for shape, ranks in zip(SOME, (2, 5, 8, 3, 4), strict=True):
        check_ends(name, shape, ranks)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_every_byte_leaves_and_arrives_so_on_every_shape(name: str) -> None:
    for shape, ranks in product(SOME, (2, 5, 8)):
        check_ends(name, shape, ranks)


# What is true of every timeline.


def drawn(random: Random, ranks: int) -> tuple[Schedule, Topology]:
    return random_schedule(random, ranks, IRREGULAR_SCHEDULE), random_machine(
        random, ranks, IRREGULAR_MACHINE
    )


def run(random: Random, ranks: int) -> Timeline:
    return simulate(*drawn(random, ranks), "reference")


timelines = st.builds(run, st.randoms(use_true_random=False), st.integers(2, 5))


def run_under_any_rule(random: Random, ranks: int) -> Timeline:
    schedule, topology = drawn(random, ranks)
    if random.random() < 0.5:
        return simulate(schedule, topology, "reference", sharing="fair")
    return simulate(schedule, topology, "reference", store_and_forward=random.random() < 0.5)


timelines_under_any_rule = st.builds(
    run_under_any_rule, st.randoms(use_true_random=False), st.integers(2, 5)
)


def overlaps(spans: list[tuple[float, float]]) -> bool:
    """Whether any two of the (start, end) have more than a rounding error in common."""
    spans = sorted(spans)
    return any(later[0] < end - 1e-9 for (_, end), later in pairwise(spans))


@given(timelines_under_any_rule)
def test_an_operation_is_ready_when_its_last_predecessor_is_finished(timeline: Timeline) -> None:
    for i in range(len(timeline.schedule)):
        before = timeline.schedule.predecessors(i)
        assert timeline.ready[i] == max((timeline.finish[j] for j in before), default=0.0)


@given(timelines_under_any_rule)
def test_an_operation_starts_when_it_is_ready_or_later_and_finishes_then_or_later(
    timeline: Timeline,
) -> None:
    assert (timeline.start >= timeline.ready).all()
    assert (timeline.finish >= timeline.start).all()
    assert timeline.makespan == max(timeline.finish)


@given(timelines)
def test_no_medium_is_held_by_two_at_once(timeline: Timeline) -> None:
    occupancy = timeline.occupancy
    for medium in np.unique(occupancy.medium):
        rows = np.flatnonzero((occupancy.medium == medium) & (occupancy.seconds > 0))
        assert not overlaps(
            [(occupancy.start[k], occupancy.start[k] + occupancy.seconds[k]) for k in rows]
        )


@given(timelines)
def test_no_medium_and_no_lane_is_left_idle_by_who_waits_for_it(timeline: Timeline) -> None:
    """A node starts when it arrives, unless a cause is given: and then exactly when the cause lets
    go."""
    schedule, routed, topology = timeline.schedule, timeline.routed, timeline.routed.topology
    released: dict[int, set[float]] = {}
    for i in range(len(schedule)):
        links, first = routed.hops(i), int(routed.node_indptr[i])
        for hop, link in enumerate(links):
            occupied_seconds = [
                topology.medium_gap[m] + schedule.nbytes[i] / topology.medium_bandwidth[m]
                for m in topology.media_of(link)
            ]
            released[first + hop] = {
                timeline.node_start[first + hop] + seconds for seconds in occupied_seconds
            }
        if int(routed.node_indptr[i + 1]) > first + len(links):
            released[first + len(links)] = {timeline.finish[i]}
    for i in range(len(schedule)):
        links, first = routed.hops(i), int(routed.node_indptr[i])
        for hop in range(max(len(links), 1)):
            node, cause = first + hop, int(timeline.node_cause[first + hop])
            arrival = (
                timeline.ready[i]
                if hop == 0
                else timeline.node_start[node - 1] + topology.latency[links[hop - 1]]
            )
            if cause < 0:
                assert timeline.node_start[node] == arrival
            else:
                assert timeline.node_start[node] > arrival
                assert timeline.node_start[node] in released[cause]


@given(timelines)
def test_a_transfer_arrives_when_the_slowest_hop_lets_it(timeline: Timeline) -> None:
    schedule, routed, topology = timeline.schedule, timeline.routed, timeline.routed.topology
    for i in np.flatnonzero((schedule.kind == TRANSFER) & (schedule.reduces == 0)):
        links, first = routed.hops(int(i)), int(routed.node_indptr[i])
        if len(links) == 0:
            continue
        tails = [
            timeline.node_start[first + hop]
            + max(
                topology.medium_gap[m] + schedule.nbytes[i] / topology.medium_bandwidth[m]
                for m in topology.media_of(link)
            )
            + topology.latency[links[hop:]].sum()
            for hop, link in enumerate(links)
        ]
        assert timeline.finish[i] == pytest.approx(max(tails), rel=1e-12)


@given(timelines_under_any_rule)
def test_a_lane_does_one_thing_at_a_time(timeline: Timeline) -> None:
    schedule = timeline.schedule
    for rank in range(schedule.ranks):
        for lane in range(schedule.lanes):
            mine = np.flatnonzero(
                (schedule.kind == COMPUTE) & (schedule.rank == rank) & (schedule.lane == lane)
            )
            spans = [
                (timeline.start[i], timeline.finish[i]) for i in mine if schedule.seconds[i] > 0
            ]
            assert not overlaps(spans)
            assert all(
                end - start == pytest.approx(schedule.seconds[i])
                for i in mine
                for start, end in [(timeline.start[i], timeline.finish[i])]
            )


@given(timelines_under_any_rule)
def test_a_rank_merges_one_thing_at_a_time(timeline: Timeline) -> None:
    schedule, routed = timeline.schedule, timeline.routed
    for rank in range(schedule.ranks):
        spans = []
        for i in np.flatnonzero((schedule.kind == TRANSFER) & (schedule.peer == rank)):
            last = int(routed.node_indptr[i + 1]) - 1
            hops = len(routed.hops(int(i)))
            if (
                last - int(routed.node_indptr[i]) == hops
                and timeline.finish[i] > timeline.node_start[last]
            ):
                spans.append((float(timeline.node_start[last]), float(timeline.finish[i])))
        assert not overlaps(spans)


@given(timelines_under_any_rule)
def test_a_transfer_occupies_every_medium_of_its_route_until_it_has_arrived(
    timeline: Timeline,
) -> None:
    occupancy, schedule, routed = timeline.occupancy, timeline.schedule, timeline.routed
    assert (occupancy.start >= timeline.ready[occupancy.operation]).all()
    assert (
        occupancy.start + occupancy.seconds <= timeline.finish[occupancy.operation] + 1e-9
    ).all()
    for i in range(len(schedule)):
        crossed = [int(m) for link in routed.hops(i) for m in routed.topology.media_of(int(link))]
        assert occupancy.medium[occupancy.operation == i].tolist() == crossed
        if crossed:
            assert arrival(timeline, i) <= timeline.finish[i] + 1e-9


@given(st.randoms(use_true_random=False), st.integers(2, 5))
def test_a_machine_that_is_twice_as_slow_takes_twice_as_long(random: Random, ranks: int) -> None:
    """Every time scales: there is no constant of our own in the rules."""
    schedule, topology = drawn(random, ranks)
    busy = replace(schedule, seconds=schedule.seconds * 2)
    once = simulate(schedule, topology, "reference").finish
    assert (
        simulate(busy, twice_as_slow(topology), "reference").finish.tolist() == (2 * once).tolist()
    )


def test_overlapping_intervals_are_merged() -> None:
    merged = union(np.array([4.0, 0.0, 1.0, 6.0]), np.array([5.0, 2.0, 3.0, 6.0]))
    assert merged.tolist() == [[0.0, 4.0, 6.0], [3.0, 5.0, 6.0]]
    assert union(np.zeros(0), np.zeros(0)).shape == (2, 0)
    assert length(merged) == 4.0
