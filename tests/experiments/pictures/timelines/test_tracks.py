"""Tracks: bands do not overlap, transfers hold their first medium."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pictures.timelines.tracks import (
    bands,
    kind_of,
    partition,
    sends,
)
from simulator.schedules.timeline import Timeline
from simulator.training.asgd import ASGD
from simulator.training.ddp import DDP
from simulator.training.plan import Plan

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
