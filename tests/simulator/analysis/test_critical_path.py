"""The critical path: its parts, what waits on it and for whom."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from finite_differences import finite_differences
from simulator.analysis.contention import contended_share, waited
from simulator.analysis.critical_path import (
    PARTS,
    CriticalPath,
    QueueWait,
    Sensitivities,
    critical_path,
    parts,
    sensitivities,
    waits,
    worth,
)
from simulator.collectives import find
from simulator.engines import Sharing, simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from small_machines import IRREGULAR_MACHINE, random_machine, route_of
from small_schedules import IRREGULAR_SCHEDULE, messages, random_schedule
from topologies import shapes
from topologies.link import Link
from topologies.topology import Topology
from transfers import head, slower_by


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


def test_no_time_has_no_path() -> None:
    line = shapes.line(2, bandwidth=float("inf"))
    for schedule in (ScheduleBuilder(2, 1.0).build(), messages(5.0)):
        path = critical_path(simulate(schedule, line))
        assert list(path) == []
        assert parts(path) == dict.fromkeys(PARTS, 0.0)


# Counts.


def test_counts_have_a_row_for_each_link_medium_and_rank() -> None:
    timeline = simulate(find("tree").build(5, 1e6), shapes.star(5, bandwidth=1e9, latency=1e-6))
    counts = sensitivities(timeline)
    assert counts.latency.shape == counts.gap.shape == counts.inverse_bandwidth.shape == (10,)
    assert counts.reduction.shape == counts.copy.shape == (5,)


def test_paths_are_joined_one_after_the_other() -> None:
    timeline = simulate(find("ring").build(4, 4.0), shapes.star(4, bandwidth=1.0, latency=0.5))
    one, other = critical_path(timeline), critical_path(timeline, 0)
    joined = CriticalPath.joined([one, other])
    assert list(joined) == [*one, *other]
    chosen = joined.seconds > 0.5
    expected = [*one.take(one.seconds > 0.5), *other.take(other.seconds > 0.5)]
    assert list(joined.take(chosen)) == list(joined.take(np.flatnonzero(chosen))) == expected
    assert 0 < len(expected) < len(joined)


PARAMETERS = ("latency", "gap", "inverse_bandwidth", "reduction", "copy")


def differences(schedule: Schedule, topology: Topology, sharing: Sharing = "fair") -> Sensitivities:
    return finite_differences(simulate(schedule, topology, "reference", sharing=sharing))


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


RULES: list[dict[str, Any]] = [{}, {"sharing": "fair"}, {"store_and_forward": True}]


def incast(*messages: tuple[int, float]) -> Schedule:
    """Messages of a sender and its bytes to rank 0, all ready at once, in this order."""
    schedule = ScheduleBuilder(4, 1.0)
    for sender, nbytes in messages:
        schedule.signal(sender, 0, nbytes=nbytes)
    return schedule.build()


def star() -> Topology:
    return shapes.star(4, bandwidth=1.0)


def parts_and_waits(timeline: Timeline) -> tuple[dict[str, float], list[QueueWait]]:
    path = critical_path(timeline)
    return {part: seconds for part, seconds in parts(path).items() if seconds}, waits(
        timeline, path
    )


def test_each_wait_names_the_link_the_waiter_and_those_before_it() -> None:
    # Rank 3 waits 4 s for rank 2 and 1 s for rank 1.
    by_part, waiting = parts_and_waits(simulate(incast((1, 1.0), (2, 4.0), (3, 2.0)), star()))
    assert by_part == {"serialisation": 2, "contention": 5}
    assert waiting == [QueueWait("switch->gpu0", 3, (2, 1), 5.0)]


def test_a_flow_waits_on_the_link_that_others_share() -> None:
    # All three ports are as fast: it is the one into rank 0 that ranks 1 and 2 share.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([1, 2], 0, nbytes=4.0)
    _, waiting = parts_and_waits(
        simulate(schedule.build(), shapes.star(3, bandwidth=1.0), sharing="fair")
    )
    assert [(wait.where, wait.behind) for wait in waiting] in (
        [("switch->gpu0", (1,))],
        [("switch->gpu0", (2,))],
    )


def test_in_turn_nobody_needs_shares() -> None:
    assert contended_share(simulate(incast((1, 1.0)), star())).size == 0


def drawn(seed: int, ranks: int, rule: dict[str, Any]) -> Timeline:
    random = Random(seed)
    schedule = random_schedule(random, ranks, IRREGULAR_SCHEDULE)
    return simulate(schedule, random_machine(random, ranks, IRREGULAR_MACHINE), "reference", **rule)


@pytest.mark.parametrize("rule", RULES, ids="".join)
@given(seed=st.integers(0, 2**32), ranks=st.integers(2, 5))
def test_waits_add_up_to_the_contention_and_parts_to_the_makespan(
    rule: dict[str, Any], seed: int, ranks: int
) -> None:
    timeline = drawn(seed, ranks, rule)
    path = critical_path(timeline)
    by_part = parts(path)
    assert sum(by_part.values()) == pytest.approx(timeline.makespan)
    assert sum(worth(path).values()) == pytest.approx(timeline.makespan)
    assert sum(wait.seconds for wait in waits(timeline, path)) == pytest.approx(
        by_part["contention"]
    )
    for wait in waits(timeline, path):
        assert wait.waiter not in wait.behind
        assert wait.behind


def test_rounding_is_no_wait() -> None:
    """Rank 2 begins while the last bit of rank 1 is on their link."""
    builder = ScheduleBuilder(3, 1.0)
    builder.compute(2, 1.0 - 1e-13)
    builder.signal([1, 2], 0, nbytes=1.0, after=np.array([[-1], [0]]))
    timeline = simulate(builder.build(), shapes.star(3, bandwidth=1.0))
    assert timeline.makespan == pytest.approx(2)
    by_part, waiting = parts_and_waits(timeline)
    assert (by_part["contention"] < 1e-12, waiting) == (True, [])


@pytest.mark.parametrize("rule", RULES, ids="".join)
@given(seed=st.integers(0, 2**32), ranks=st.integers(2, 5))
def test_waits_of_transfers_by_the_definition(rule: dict[str, Any], seed: int, ranks: int) -> None:
    timeline = drawn(seed, ranks, rule)
    every, behind_others = waited(timeline)
    assert ((behind_others >= 0) & (behind_others <= every + 1e-12)).all()
    routed = timeline.routed
    for i in np.flatnonzero(
        timeline.schedule.remote & (np.diff(routed.route_indptr)[routed.route] > 0)
    ).tolist():
        if timeline.sharing == "fair":
            expected = slower_by(timeline, i)
        else:
            hops = len(timeline.routed.hops(i))
            arrivals = [timeline.ready[i], *(head(timeline, i, hop) for hop in range(1, hops))]
            first = timeline.routed.node_indptr[i]
            expected = sum(timeline.node_start[first + hop] - arrivals[hop] for hop in range(hops))
        assert every[i] == pytest.approx(expected, abs=1e-9 * timeline.makespan)


@pytest.mark.parametrize("rule", [{}, {"store_and_forward": True}], ids="".join)
@given(seed=st.integers(0, 2**32), ranks=st.integers(2, 5))
def test_no_transfer_has_more_contention_on_the_path_than_it_waits(
    rule: dict[str, Any], seed: int, ranks: int
) -> None:
    timeline = drawn(seed, ranks, rule)
    on_path = np.zeros(len(timeline.schedule))
    for segment in critical_path(timeline):
        if segment.contended and segment.part in ("serialisation", "gap"):
            on_path[segment.waiter] += segment.seconds
    assert (on_path <= waited(timeline)[1] + 1e-9 * timeline.makespan).all()


@pytest.mark.parametrize("rule", RULES, ids="".join)
@given(seed=st.integers(0, 2**32), ranks=st.integers(2, 5))
def test_one_sender_has_no_contention(rule: dict[str, Any], seed: int, ranks: int) -> None:
    random = Random(seed)
    schedule = ScheduleBuilder(ranks, 1.0)
    for _ in range(8):
        schedule.signal(0, random.randrange(1, ranks), nbytes=random.random())
    timeline = simulate(
        schedule.build(), random_machine(random, ranks, IRREGULAR_MACHINE), "reference", **rule
    )
    assert parts(critical_path(timeline))["contention"] == 0
    assert not waited(timeline)[1].any()


@given(seed=st.integers(0, 2**32), ranks=st.integers(2, 5))
def test_shares_are_shares(seed: int, ranks: int) -> None:
    share = contended_share(drawn(seed, ranks, {"sharing": "fair"}))
    assert ((share >= 0) & (share <= 1)).all()
    assert not np.isnan(share).any()
