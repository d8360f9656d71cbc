"""Whom a message waits for: its own rank's messages are serialisation, other ranks' are
contention."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_machines import IRREGULAR_MACHINE, random_machine
from random_schedules import IRREGULAR_SCHEDULE, random_schedule
from simulator.analysis.contention import contended_share, waited
from simulator.analysis.critical_path import QueueWait, critical_path, parts, waits, worth
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from topologies import shapes
from topologies.topology import Topology
from transfers import head, slower_by

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


def test_messages_of_the_same_rank_between_others_are_serialisation() -> None:
    # At rank 0's port: 1 s of rank 2, then 2 s of rank 1, 2 s of rank 2 and 2 s of rank 1, on whose
    # behalf all waited.
    schedule = ScheduleBuilder(4, 1.0)
    first = schedule.signal(2, 0, nbytes=1.0)
    schedule.signal(1, 0, nbytes=2.0)
    schedule.signal(2, 0, nbytes=2.0)
    schedule.signal(1, 0, nbytes=2.0)
    timeline = simulate(schedule.build(), shapes.full_mesh_one_port(4, bandwidth=1.0))
    assert timeline.finish[first] == 1
    by_part, waiting = parts_and_waits(timeline)
    assert timeline.makespan == 7
    assert by_part == {"serialisation": 4, "contention": 3}
    assert [(wait.waiter, wait.behind, wait.seconds) for wait in waiting] == [(1, (2,), 3.0)]


def test_sums_are_merged_in_turn() -> None:
    schedule = ScheduleBuilder(3, 4.0)
    schedule.reduce([1, 2], 0, slot=0)
    by_part, waiting = parts_and_waits(
        simulate(schedule.build(), shapes.full_mesh(3, bandwidth=1.0, reduction=0.75))
    )
    assert by_part == {"serialisation": 4, "reduction": 3, "contention": 3}
    assert waiting == [QueueWait("merging on rank 0", 2, (1,), 3.0)]


def test_a_flow_waits_for_the_senders_that_share_its_links() -> None:
    # Ranks 1, 2 and 3 share rank 0's port for 6 s, rank 3 with two messages: half of what a message
    # of rank 1 waits for is rank 3's, a quarter is its own.
    timeline = simulate(
        incast((1, 1.0), (1, 1.0), (3, 1.0), (3, 1.0), (2, 2.0)), star(), sharing="fair"
    )
    share = contended_share(timeline)
    path = critical_path(timeline)
    assert ((share > 0) & (share <= 1)).all()
    assert share[4] == 1, "rank 2 sends one message"
    assert 0 < share[0] < 1
    assert {wait.waiter for wait in waits(timeline, path)} == {
        timeline.schedule.rank[path.operation[0]]
    }


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


def test_flows_of_one_rank_have_no_contention() -> None:
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(0, [1, 2], nbytes=4.0)
    by_part, waiting = parts_and_waits(
        simulate(schedule.build(), shapes.star(3, bandwidth=1.0), sharing="fair")
    )
    assert by_part == {"serialisation": 8}
    assert waiting == []


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


def test_a_transfer_waits_on_all_of_its_links() -> None:
    # 6 s behind rank 0's own message at its port, then 2 s of the 8 s for which rank 1 sends to
    # rank 3.
    schedule = ScheduleBuilder(4, 1.0)
    schedule.signal(0, 2, nbytes=6.0)
    schedule.signal(1, 3, nbytes=8.0)
    last = schedule.signal(0, 3, nbytes=1.0)
    timeline = simulate(schedule.build(), star())
    every, behind_others = waited(timeline)
    assert every.tolist() == [0, 0, 8]
    assert behind_others[last].tolist() == [2]


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
