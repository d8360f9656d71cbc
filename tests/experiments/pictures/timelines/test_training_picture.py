"""The picture of a training run: its boxes, labels and colours, and what it does not show."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from experiments.pictures.figure_file import to_bytes
from experiments.pictures.timelines import bars
from experiments.pictures.timelines.palette import COLOURS, FILLS, pale
from experiments.pictures.timelines.step_spans import strategy_spans
from experiments.pictures.timelines.training_picture import training_drawing
from simulator.analysis.bubble_spans import bubble_spans
from simulator.schedules.timeline import Timeline
from simulator.training.asgd import ASGD
from simulator.training.conditions import Conditions, Failure
from simulator.training.ddp import DDP
from simulator.training.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Run = Callable[..., tuple[Plan, Timeline]]


def drawn(run: tuple[Plan, Timeline]) -> tuple[Figure, Axes]:
    figure = training_drawing(strategy_spans(*run), "title")
    return figure, figure.axes[0]


def boxes(axes: Axes) -> dict[str, list[tuple[float, float, float, float]]]:
    """Left, right, top and bottom of every box, by kind."""
    boxes_of = {}
    for drawn in axes.collections:
        if isinstance(drawn, PolyCollection):
            corners = [np.asarray(path.vertices)[:4] for path in drawn.get_paths()]
            boxes_of[str(drawn.get_label())] = [
                (*np.sort(c[:, 0])[[0, -1]], *np.sort(c[:, 1])[[0, -1]]) for c in corners
            ]
    return boxes_of


def words(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("kind", ["png", "svg", pytest.param("pdf", marks=pytest.mark.exhaustive)])
def test_a_picture_is_a_file_of_its_kind(run: Run, kind: str) -> None:
    picture = to_bytes(training_drawing(strategy_spans(*run(ranks=2)), "title"), kind)
    assert picture.startswith({"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF"}[kind])
    if kind == "png":
        assert struct.unpack(">II", picture[16:24]) == (2025, 450)
    if kind != "svg":
        assert picture == to_bytes(training_drawing(strategy_spans(*run(ranks=2)), "title"), kind)


def test_a_box_is_a_computation_or_a_communication(run: Run) -> None:
    _, axes = drawn(run(ranks=4, steps=2))
    pieces = {kind: len(pieces) for kind, pieces in boxes(axes).items()}
    assert pieces == {
        "forward": 4 * 2 * 2,
        "backward": 4 * 2 * 2,
        "optimizer": 4 * 2,
        "all-reduce": 4 * 2,
        "hidden all-reduce": 4 * 2,
        "bubble: transfer": 4 * 2,
    }


def test_boxes_are_where_and_when_things_happen(run: Run) -> None:
    plan, timeline = run(ranks=2)
    _, axes = drawn((plan, timeline))
    boxes_of = boxes(axes)
    forwards = [pytest.approx(times) for times in [(0, 1e-3), (1e-3, 2e-3)] * 2]
    assert [box[:2] for box in boxes_of["forward"]] == forwards
    last = timeline.makespan - 5e-4
    assert [box[:2] for box in boxes_of["optimizer"]] == [
        pytest.approx((last, timeline.makespan))
    ] * 2
    assert max(end for _, end, *_ in boxes_of["all-reduce"]) == pytest.approx(last)
    spans = bubble_spans(timeline)
    assert [box[:2] for box in boxes_of["bubble: transfer"]] == [
        pytest.approx((spans.start[row], spans.end[row])) for row in range(2)
    ]
    rows = zip(boxes_of["optimizer"], boxes_of["all-reduce"], strict=True)
    for rank, (main, below) in enumerate(rows):
        assert rank - 0.5 < main[2] < main[3] <= below[2] < below[3] < rank + 0.5
        assert main[3] - main[2] > 2 * (below[3] - below[2])


def test_what_overlaps_on_a_lane_is_side_by_side(run: Run) -> None:
    boxes_of = boxes(drawn(run(ASGD(), 2))[1])
    pieces = [box for kind in ("push", "pull") for box in boxes_of[kind] if box[2] < 0.5]
    for left, right in combinations(pieces, 2):
        separate = left[1] <= right[0] + 1e-12 or right[1] <= left[0] + 1e-12
        assert separate or left[3] <= right[2] or right[3] <= left[2]


def test_ranks_bubbles_and_boxes_are_labelled(run: Run) -> None:
    plan, timeline = run(DDP(overlap=False, bucket=1e12), ranks=2, bandwidth=1e6)
    figure, axes = drawn((plan, timeline))
    bubble = 1 - (2 * 3e-3 + 5e-4) / timeline.makespan
    assert words(axes).count(f"transfer, {bubble:.0%}") == 2
    assert words(axes).count("all-reduce bucket 0") == 2
    assert words(axes).count("forward fc1") == 2
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0", "1"]
    lanes = [tick.get_text() for tick in axes.get_yticklabels(minor=True)]
    assert lanes == ["compute"] * 2 + ["communication"] * 2
    shares = axes.child_axes[0]
    assert [tick.get_text() for tick in shares.get_yticklabels()] == [f"{bubble:.0%}"] * 2
    summary = axes.get_title(loc="left").splitlines()[1]
    assert summary == f"not computing: {bubble:.1%} of the run of every rank"
    assert legend(figure) == [
        "forward",
        "backward",
        "optimizer",
        "all-reduce",
        "bubbles, by cause",
        "transfer: data is on its way",
    ]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_communication_is_cut_where_computing_hides_it(run: Run) -> None:
    """Bucket 0 ends while layer 0 computes backward; bucket 1 begins after that."""
    figure, axes = drawn(run(ranks=2, bandwidth=1e6))
    hidden, exposed = boxes(axes)["hidden all-reduce"], boxes(axes)["all-reduce"]
    assert [box[1] <= 6e-3 for box in hidden] == [True, True]
    assert [box[0] >= 6e-3 for box in exposed] == [True, True]
    assert legend(figure)[4:7] == ["communication", "exposed", "hidden behind computing"]
    _, axes = drawn(run(ranks=2, bandwidth=2e5))
    cut = boxes(axes)["hidden all-reduce"][0], boxes(axes)["all-reduce"][0]
    assert cut[0][1:] == pytest.approx((cut[1][0], *cut[1][2:]))
    assert cut[0][1] == pytest.approx(6e-3)


def test_a_straggler_is_named_in_the_bubbles_of_its_peers(run: Run) -> None:
    slow = Conditions(slower={1: 3.0})
    figure, axes = drawn(run(ranks=2, conditions=slow))
    assert [word for word in words(axes) if word.startswith("slower peer: rank 1, ")]
    assert "slower peer: another rank\nor lane still computes" in legend(figure)


@pytest.mark.parametrize("update", [0.0, 1e-7])
def test_every_update_of_a_short_run_is_drawn(run: Run, update: float) -> None:
    plan, timeline = run(ASGD(update=update), ranks=4, steps=5)
    _, axes = drawn((plan, timeline))
    updates = boxes(axes).get("update", [])
    assert len(updates) == (20 if update else 0)
    assert all(box[1] - box[0] >= 0.75 / 750 * timeline.makespan for box in updates)
    assert all(box[0] >= 0 and box[1] <= timeline.makespan for box in updates)


def test_a_bubble_is_a_share_of_its_step(run: Run) -> None:
    plan, timeline = run(DDP(overlap=False, bucket=1e12), ranks=2, steps=2)
    bubble = 1 - 2 * (2 * 3e-3 + 5e-4) / timeline.makespan
    labels = words(drawn((plan, timeline))[1])
    assert sum(label.endswith(f"{bubble:.0%}") for label in labels) == 2 * 2


def test_a_server_has_a_row_of_its_own(run: Run) -> None:
    _, axes = drawn(run(ASGD(update=1e-3), 3))
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0", "1", "2", "server"]
    assert all(top > 3 - 0.5 for *_, top, _ in boxes(axes)["update"])
    assert len(axes.child_axes[0].get_yticklabels()) == 3


def lines(axes: Axes) -> list[tuple[float, float]]:
    """Where dashed lines are, and how long."""
    (dashed,) = [
        c for c in axes.collections if isinstance(c, LineCollection) and c.get_zorder() == 0.5
    ]
    ends = [np.asarray(path.vertices) for path in dashed.get_paths()]
    return [(float(end[0, 0]), float(np.ptp(end[:, 1]))) for end in ends]


def test_steps_are_told_apart(run: Run) -> None:
    plan, timeline = run(ranks=2, steps=3, conditions=Conditions(failure=Failure(0, 1, 1e-3)))
    _, axes = drawn((plan, timeline))
    ends = timeline.finish[plan.ends].max(axis=1)[:-1].tolist()
    assert lines(axes) == [(end, 2.0) for end in ends]
    names = [tick.get_text() for tick in axes.child_axes[0].get_xticklabels()]
    assert names == ["step 0", "step 1 (lost)", "step 1", "step 2"]


def test_workers_that_do_not_wait_have_steps_of_their_own(run: Run) -> None:
    plan, timeline = run(ASGD(), ranks=2, steps=3)
    _, axes = drawn((plan, timeline))
    assert lines(axes) == [(end, 1.0) for end in timeline.finish[plan.ends].ravel().tolist()]
    assert "drain" in words(axes)


def test_the_usual_kinds_have_their_colours(run: Run) -> None:
    for axes in (drawn(run(ranks=2))[1], drawn(run(ASGD(), 2))[1]):
        for collection in axes.collections:
            if isinstance(collection, PolyCollection):
                face_colours = [to_hex(colour) for colour in np.asarray(collection.get_facecolor())]
                label = str(collection.get_label())
                hidden, cause = label.removeprefix("hidden "), label.removeprefix("bubble: ")
                chosen = FILLS[cause].colour if cause != label else COLOURS[hidden]
                assert face_colours == [chosen if hidden == label else pale(chosen)]


def test_many_ranks_are_thinned_and_it_says_so(run: Run) -> None:
    _, axes = drawn(run(ranks=70))
    named = [tick.get_text() for tick in axes.get_yticklabels()]
    assert named == [str(rank) for rank in range(0, 70, 3)]
    assert len(axes.child_axes[0].get_yticklabels()) == len(named)
    assert words(axes) == []
    assert "one rank in 3 is named, boxes have no labels" in axes.get_title(loc="left")
    assert len(boxes(axes)["optimizer"]) == 70


def test_hairlines_of_one_kind_are_one_box_and_it_says_so(run: Run) -> None:
    plan, timeline = run(DDP(bucket=1e12), ranks=2, layers=400, steps=3)
    _, axes = drawn((plan, timeline))
    boxes_of = boxes(axes)
    assert len(boxes_of["forward"]) == len(boxes_of["backward"]) == 2 * 3
    assert boxes_of["forward"][0][:2] == pytest.approx((0.0, 0.4))
    assert words(axes).count("forward") == 2 * 3
    assert "drawn as one" in axes.get_title(loc="left")
    assert "drawn as one" not in drawn(run(ranks=2))[1].get_title(loc="left")


def test_hairlines_with_bubbles_between_them_stay_apart(run: Run) -> None:
    boxes_of = boxes(drawn(run(DDP(sync_batch_norm=True), ranks=2, layers=200, channels=1))[1])
    assert len(boxes_of["forward"]) == 2 * 200
    assert sum(end - start for start, end, *_ in boxes_of["forward"]) == pytest.approx(2 * 0.2)


def test_too_many_boxes_are_thinned_and_it_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bars, "BOXES", 8)
    _, axes = drawn(run(ranks=2))
    drawn_boxes = {kind: rows for kind, rows in boxes(axes).items() if "bubble" not in kind}
    assert sum(map(len, drawn_boxes.values())) == 8
    assert len(drawn_boxes["backward"]) == 4
    assert "the longest 8 of 14 boxes are drawn" in axes.get_title(loc="left")


def test_a_lone_worker_and_a_dollar_in_a_name(run: Run) -> None:
    alone = run(DDP(broadcast_buffers=False), ranks=1, name="$w$")
    assert legend(drawn(alone)[0]) == ["forward", "backward", "optimizer"]
    picture = to_bytes(training_drawing(strategy_spans(*alone), "alone with $x_{$"), "svg").decode()
    assert {"forward $w$0", "alone with $x_{$"} <= set(re.findall(r"<!-- (.*?) -->", picture))
