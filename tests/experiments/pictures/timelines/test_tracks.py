"""Tracks: gaps are the bubbles, bands do not overlap, transfers hold their first medium."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pages.run_spans import Run as Rows
from experiments.pages.spans import Columns
from experiments.pages.training_spans import idle_gaps as columns_of_gaps
from experiments.pictures.timelines.tracks import (
    bands,
    communications,
    computations,
    kind_of,
    lane_name,
    partition,
    sends,
)
from simulator.analysis.bubbles import bubbles
from simulator.schedules.timeline import Timeline
from simulator.training import find
from simulator.training.asgd import ASGD
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.plan import COMPUTE, Plan

Run = Callable[..., tuple[Plan, Timeline]]
INTERVALS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair)))
)


def test_a_kind_is_the_first_word() -> None:
    assert [
        kind_of(phase) for phase in ("forward conv1", "optimizer", "all-reduce bucket 3", "")
    ] == [
        "forward",
        "optimizer",
        "all-reduce",
        "",
    ]


def test_names_of_lanes(run: Run) -> None:
    plan, _ = run(find("asgd")(), 2)
    assert lane_name(plan, 0) == "compute"
    assert lane_name(plan, 99) == "lane 99"


def gaps(plan: Plan, timeline: Timeline) -> Columns:
    """The gaps of the workers, a row each."""
    ranks = np.arange(timeline.schedule.ranks, dtype=np.int32)
    through = np.zeros(len(timeline.schedule), dtype=np.bool_)
    return columns_of_gaps(plan, Rows(timeline, ranks, through))


@given(
    ranks=st.integers(1, 5),
    steps=st.integers(1, 3),
    sigma=st.sampled_from([0.0, 0.3]),
    name=st.sampled_from(["ddp", "asgd"]),
)
def test_gaps_add_up_to_the_bubbles(
    run: Run, ranks: int, steps: int, sigma: float, name: str
) -> None:
    plan, timeline = run(find(name)(), ranks, steps=steps, conditions=Conditions(sigma=sigma))
    idle_gaps = gaps(plan, timeline)
    idle = np.bincount(idle_gaps.row, idle_gaps.end - idle_gaps.start, ranks)
    np.testing.assert_allclose(idle, bubbles(timeline).total[:ranks], atol=1e-12)
    main = computations(plan, timeline).take(
        np.flatnonzero(computations(plan, timeline).lane == COMPUTE)
    )
    busy = np.bincount(main.rank, main.end - main.start, ranks + 1)[:ranks]
    np.testing.assert_allclose(idle + busy, timeline.makespan)
    assert (idle_gaps.end > idle_gaps.start).all()


def waited_for(timeline: Timeline, idle_gaps: Columns) -> list[str]:
    """The phase that each gap waits for, nothing in a drain."""
    phases = timeline.schedule.phases
    return [phases[phase] if phase >= 0 else "" for phase in idle_gaps.awaited.tolist()]


def test_a_gap_ends_with_what_it_waited_for_or_with_the_run(run: Run) -> None:
    plan, timeline = run(DDP(overlap=False, bucket=1e12), 2, conditions=Conditions(slower={1: 2.0}))
    idle_gaps = gaps(plan, timeline)
    assert idle_gaps.row.tolist() == [0, 0, 1]
    assert waited_for(timeline, idle_gaps) == ["all-reduce bucket 0", "", "all-reduce bucket 0"]
    assert idle_gaps.end[1] - idle_gaps.start[1] == pytest.approx(5e-4)


def test_after_its_last_computation_a_worker_waits_for_what_it_takes_part_in(run: Run) -> None:
    plan, timeline = run(find("ssgd")(), 3)
    idle_gaps = gaps(plan, timeline)
    assert idle_gaps.row.tolist() == [0, 0, 0, 1, 1, 2]
    assert waited_for(timeline, idle_gaps) == [
        "push model",
        "push model",
        "pull",
        "pull",
        "",
        "pull",
    ]


def test_entering_and_leaving_belong_to_the_communication(run: Run) -> None:
    plan, timeline = run(DDP(bucket=1000.0, launch=1e-4), 3)
    talking, computing = communications(plan, timeline), computations(plan, timeline)
    assert len(talking.rank) == 3 * 2
    assert set(computing.lane.tolist()) == {0}
    assert len(computing.rank) == 3 * (2 + 2 + 1)


@given(INTERVALS)
def test_bands_do_not_overlap_and_are_as_few_as_can_be(intervals: list[tuple[int, int]]) -> None:
    start, end = np.array(sorted(intervals), dtype=np.int64).reshape(-1, 2).T
    band = partition(start, end)
    for number in set(band.tolist()):
        mine = band == number
        assert (start[mine][1:] >= end[mine][:-1]).all()
    deepest = max((((start <= time) & (time < end)).sum() for time in range(40)), default=0)
    points = int((start == end).any())
    assert deepest <= band.max(initial=-1) + 1 <= deepest + points


def test_only_crowded_tracks_have_several_bands() -> None:
    track, start, end = np.array([[0, 0, 1, 1, 1], [0, 5, 0, 3, 6], [5, 9, 6, 4, 7]])
    assert bands(track, start, end).tolist() == [0, 0, 0, 1, 0]


@pytest.mark.parametrize("shape", ["star", "bus", "ring", "full_mesh"])
def test_in_turn_no_two_transfers_hold_a_medium_at_once(run: Run, shape: str) -> None:
    _, timeline = run(DDP(streams=2, bucket=0.0), 5, layers=4, shape=shape)
    sent = sends(timeline)
    assert len(sent.operation) == int(timeline.schedule.remote.sum())
    for medium in set(sent.medium.tolist()):
        mine = np.flatnonzero(sent.medium == medium)
        mine = mine[np.argsort(sent.start[mine], kind="stable")]
        assert (sent.start[mine][1:] >= sent.end[mine][:-1] - 1e-12).all()


def test_a_transfer_holds_its_first_medium_for_its_bytes(run: Run) -> None:
    _, timeline = run(ASGD(), 2, bandwidth=1e6)
    sent = sends(timeline)
    np.testing.assert_allclose(
        sent.end - sent.start, timeline.schedule.nbytes[sent.operation] / 1e6
    )
    names = [timeline.routed.topology.medium_names[medium] for medium in sent.medium.tolist()]
    assert set(names) == {"gpu0->switch", "gpu1->switch", "gpu2->switch"}


def test_under_fair_sharing_a_transfer_holds_it_until_its_last_byte_is_sent(run: Run) -> None:
    _, timeline = run(DDP(bucket=1000.0), 3, sharing="fair")
    sent = sends(timeline)
    np.testing.assert_allclose(sent.end, timeline.sent[sent.operation])


def test_of_the_media_of_its_first_link_it_is_the_one_that_it_holds_longest(run: Run) -> None:
    _, timeline = run(ranks=3, shape="bus")
    medium = sends(timeline).medium.tolist()
    assert {timeline.routed.topology.medium_names[number] for number in medium} == {"bus"}
