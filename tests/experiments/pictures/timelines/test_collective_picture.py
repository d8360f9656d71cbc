"""The picture of a collective: its boxes are what ranks send and merge, where and when."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from experiments.pictures.timelines import bars
from experiments.pictures.timelines.collective_picture import collective_drawing
from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import rotations
from simulator.schedules.timeline import Timeline
from topologies.catalogue import find as machine

Box = tuple[float, float, float, float]


def ran(name: str, ranks: int, reduction: float = 0.0) -> Timeline:
    """A collective of 1 MB on links of 1 GB/s."""
    algorithm = find(name)
    links = machine("star").with_links(bandwidth=1e9, latency=1e-6)
    topology = replace(links, reduction=reduction).build(ranks, algorithm.servers)
    return simulate(algorithm.build(ranks, 1e6), topology)


def drawn(timeline: Timeline) -> Axes:
    return collective_drawing(timeline, "title").axes[0]


def boxes(axes: Axes) -> dict[str, list[Box]]:
    """Left, right, top and bottom of every box, by phase."""
    boxes_of: dict[str, list[Box]] = {}
    for shape in axes.collections:
        if isinstance(shape, PolyCollection):
            corners = [np.asarray(path.vertices)[:4] for path in shape.get_paths()]
            boxes_of[str(shape.get_label())] = [
                (*np.sort(c[:, 0])[[0, -1]], *np.sort(c[:, 1])[[0, -1]]) for c in corners
            ]
    return boxes_of


def lanes(axes: Axes) -> list[str]:
    """The lanes of each row."""
    ticks = zip(axes.get_yticks(minor=True), axes.get_yticklabels(minor=True), strict=True)
    return [tick.get_text() for _, tick in sorted(ticks, key=lambda tick: tick[0])]


def test_a_message_is_a_box_of_its_sender_and_of_its_receiver() -> None:
    axes = drawn(ran("ring", 4))
    boxes_of = boxes(axes)
    assert {phase: len(rows) for phase, rows in boxes_of.items()} == {
        "reduce-scatter": 2 * 4 * 3,
        "all-gather": 2 * 4 * 3,
    }
    assert [box[:2] for box in boxes_of["reduce-scatter"][:2]] == [
        pytest.approx((0.0, 250e-6)),
        pytest.approx((252e-6, 502e-6)),
    ]
    for row in range(4):
        inside = [
            box for rows in boxes_of.values() for box in rows if row - 0.5 < box[2] < row + 0.5
        ]
        assert [box[3] < row for box in inside] == [True, True, True, False, False, False] * 2
        assert all(box[3] < row + 0.5 for box in inside)
    assert lanes(axes) == ["send", "receive"] * 4
    assert axes.get_title(loc="left") == "what each rank sends and receives"


def test_a_message_that_queues_names_its_link() -> None:
    """Three workers push at once. After the first two, the last queues at the server's port."""
    axes = drawn(ran("parameter_server", 4))
    (queue,) = boxes(axes)["queue behind other ranks"]
    assert queue[:2] == pytest.approx((1000e-6, 2001e-6), rel=1e-2)
    assert "waits for switch->gpu0" in [text.get_text() for text in axes.texts]
    assert "messages wait longest for switch->gpu0" in axes.get_title(loc="left")


def test_additions_are_boxes_of_the_receiver() -> None:
    timeline = ran("tree_reduce", 2, reduction=1e-9)
    axes = drawn(timeline)
    assert lanes(axes) == ["send", "receive", "add"] * 2
    rows = boxes(axes)["reduce"]
    assert sorted((round(box[2]), *np.round(np.array(box[:2]) * 1e6)) for box in rows) == [
        (0, 1, 1001),
        (0, 1002, 2002),
        (1, 0, 1000),
    ]


@given(st.sampled_from(["ring", "tree", "naive", "parameter_server_apart"]), st.integers(2, 7))
def test_boxes_do_not_overlap(name: str, ranks: int) -> None:
    pieces = [box for rows in boxes(drawn(ran(name, ranks, 5e-10))).values() for box in rows]
    for left, right in combinations(pieces, 2):
        separate = left[1] <= right[0] + 1e-9 or right[1] <= left[0] + 1e-9
        assert separate or left[3] <= right[2] or right[3] <= left[2]


def test_computations_are_above_messages() -> None:
    builder = ScheduleBuilder(2, 1e6, phase="work")
    builder.compute(0, 1e-3)
    builder.phase("send")
    builder.copy(0, 1, slot=0)
    timeline = simulate(builder.build(), machine("star").with_links(bandwidth=1e9).build(2))
    boxes_of = boxes(drawn(timeline))
    (work,), (sent, received) = boxes_of["work"], boxes_of["send"]
    assert work[3] < sent[2] < sent[3] < 0.5 < received[2]


def test_phases_are_in_the_legend_and_in_boxes() -> None:
    figure = collective_drawing(ran("tree", 2), "title")
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["reduce", "broadcast", "idle"]
    labels = [text.get_text() for text in figure.axes[0].texts]
    assert labels == ["broadcast", "reduce", "reduce", "broadcast"]


def test_many_phases_have_different_colours_and_a_short_legend() -> None:
    figure = collective_drawing(ran("naive_serial", 24), "title")
    shapes = [c for c in figure.axes[0].collections if isinstance(c, PolyCollection)]
    assert len({tuple(np.ravel(shape.get_facecolor())) for shape in shapes}) == 24 + 1
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[-2] == "... 25 in all"
    assert len(texts) == 22


def test_too_many_boxes_are_thinned_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "BOXES", 8)
    axes = drawn(ran("ring", 4))
    assert sum(map(len, boxes(axes).values())) == 8
    assert "the longest 8 of 48 boxes are drawn" in axes.get_title(loc="left")


def test_all_ranks_are_drawn_where_one_stands_for_all() -> None:
    ring, star = find("ring"), machine("star").with_links(bandwidth=1e9).build(8)
    whole, fold = (ring.on(star, 8, 1e6, group) for group in (None, rotations(8)))
    assert fold.schedule.fold is not None
    shown, full = (boxes(drawn(simulate(run.schedule, run.topology))) for run in (fold, whole))
    for phase, rows in full.items():
        assert np.array(sorted(shown[phase])) == pytest.approx(np.array(sorted(rows)))
