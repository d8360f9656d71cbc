"""Pictures of timelines: their boxes, labels and colours, and what they do not show."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from experiments.pictures.figures import to_bytes
from experiments.pictures.timelines.collective_spans import collective_spans
from experiments.pictures.timelines.painter import timeline_drawing
from experiments.pictures.timelines.palette import COLOURS, FILLS, pale
from experiments.pictures.timelines.pipeline_spans import pipeline_spans
from experiments.pictures.timelines.step_spans import strategy_spans
from simulator.analysis.bubbles import bubble_spans
from simulator.collectives import find
from simulator.engines import simulate
from simulator.parallel.pipeline_times import StageTimes, pipeline_times
from simulator.parallel.pipelines import find as find_pipeline
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import rotations
from simulator.schedules.timeline import Timeline
from simulator.training.asgd import ASGD
from simulator.training.conditions import Conditions, Failure
from simulator.training.ddp import DDP
from simulator.training.plan import Plan
from topologies.catalogue import find as machine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Run = Callable[..., tuple[Plan, Timeline]]
Collective = Callable[..., Timeline]


def drawn(run: tuple[Plan, Timeline]) -> tuple[Figure, Axes]:
    figure = timeline_drawing(strategy_spans(*run).spans(), title="title")
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
    return texts(axes.texts)


def texts(labels: Iterable[Text]) -> list[str]:
    return [label.get_text() for label in labels]


def assert_apart(boxes: Iterable[tuple[float, float, float, float]]) -> None:
    """No box lies on another."""
    for left, right in combinations(boxes, 2):
        separate = left[1] <= right[0] + 1e-9 or right[1] <= left[0] + 1e-9
        assert separate or left[3] <= right[2] or right[3] <= left[2]


@pytest.mark.parametrize("kind", ["png", "svg", pytest.param("pdf", marks=pytest.mark.exhaustive)])
def test_a_picture_is_a_file_of_its_kind(run: Run, kind: str) -> None:
    picture = to_bytes(timeline_drawing(strategy_spans(*run(ranks=2)).spans(), title="title"), kind)
    assert picture.startswith({"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF"}[kind])
    if kind == "png":
        assert struct.unpack(">II", picture[16:24]) == (2025, 450)
    if kind != "svg":
        assert picture == to_bytes(
            timeline_drawing(strategy_spans(*run(ranks=2)).spans(), title="title"), kind
        )


def test_a_box_is_a_computation_or_a_communication(run: Run) -> None:
    _, axes = drawn(run(ranks=4, steps=2))
    pieces = {kind: len(pieces) for kind, pieces in boxes(axes).items()}
    assert pieces == {
        "forward": 4 * 2 * 2,
        "backward": 4 * 2 * 2,
        "optimizer": 4 * 2,
        "all-reduce": 4 * 2 * 2,
        "hidden all-reduce": 4 * 2,
        "idle: transfer": 4 * 2,
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
    assert [box[:2] for box in boxes_of["idle: transfer"]] == [
        pytest.approx((spans.start[row], spans.end[row])) for row in range(2)
    ]
    rows = zip(boxes_of["optimizer"], boxes_of["all-reduce"][::2], strict=True)
    for rank, (main, below) in enumerate(rows):
        assert rank - 0.5 < main[2] < main[3] <= below[2] < below[3] < rank + 0.5
        assert main[3] - main[2] > 2 * (below[3] - below[2])


def test_what_overlaps_on_a_lane_is_side_by_side(run: Run) -> None:
    boxes_of = boxes(drawn(run(ASGD(), 2))[1])
    pieces = [box for kind in ("push", "pull") for box in boxes_of[kind] if box[2] < 0.5]
    assert_apart(pieces)


def test_ranks_bubbles_and_boxes_are_labelled(run: Run) -> None:
    plan, timeline = run(DDP(overlap=False, bucket=1e12), ranks=2, bandwidth=1e6)
    figure, axes = drawn((plan, timeline))
    bubble = 1 - (2 * 3e-3 + 5e-4) / timeline.makespan
    assert words(axes).count(f"transfer, {bubble:.0%}") == 2
    assert words(axes).count("all-reduce bucket 0") == 2
    assert words(axes).count("forward fc1") == 2
    assert texts(axes.get_yticklabels()) == ["0", "1"]
    lanes = texts(axes.get_yticklabels(minor=True))
    assert lanes == ["compute"] * 2 + ["communication"] * 2
    shares = axes.child_axes[0]
    assert texts(shares.get_yticklabels()) == [f"{bubble:.0%}"] * 2
    summary = axes.get_title(loc="left").splitlines()[1]
    assert summary == f"not computing: {bubble:.1%} of the run of every rank"
    assert legend(figure) == [
        "forward",
        "backward",
        "optimizer",
        "all-reduce",
        "idle, by cause",
        "transfer: data is on its way",
    ]


def legend(figure: Figure) -> list[str]:
    return texts(figure.legends[0].get_texts())


def test_communication_is_striped_where_computing_hides_it(run: Run) -> None:
    """Bucket 0 ends while layer 0 computes backward; bucket 1 begins after that."""
    figure, axes = drawn(run(ranks=2, bandwidth=1e6))
    hidden, every = boxes(axes)["hidden all-reduce"], boxes(axes)["all-reduce"]
    assert [box for box in every if box[1] <= 6e-3] == hidden
    assert len(every) == 2 * len(hidden) == 4
    assert legend(figure)[4:7] == ["communication", "exposed", "hidden behind computing"]
    _, axes = drawn(run(ranks=2, bandwidth=2e5))
    (part, *_), (whole, *_) = (boxes(axes)[kind] for kind in ("hidden all-reduce", "all-reduce"))
    assert part == pytest.approx((whole[0], 6e-3, *whole[2:]))


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


def test_a_server_has_a_row_of_its_own(run: Run) -> None:
    _, axes = drawn(run(ASGD(update=1e-3), 3))
    assert texts(axes.get_yticklabels()) == ["0", "1", "2", "server"]
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
    names = texts(axes.child_axes[0].get_xticklabels())
    assert names == ["step 0", "step 1 (lost)", "step 1", "step 2"]


def test_workers_that_do_not_wait_have_steps_of_their_own(run: Run) -> None:
    plan, timeline = run(ASGD(), ranks=2, steps=3)
    _, axes = drawn((plan, timeline))
    assert lines(axes) == [(end, 1.0) for end in timeline.finish[plan.ends].ravel().tolist()]
    assert "drain" in words(axes)
    plan, timeline = run(DDP(overlap=False, bucket=1e12), ranks=2, steps=2)
    bubble = 1 - 2 * (2 * 3e-3 + 5e-4) / timeline.makespan
    labels = words(drawn((plan, timeline))[1])
    assert sum(label.endswith(f"{bubble:.0%}") for label in labels) == 2 * 2, "shares of a step"


def test_the_usual_kinds_have_their_colours(run: Run) -> None:
    for axes in (drawn(run(ranks=2))[1], drawn(run(ASGD(), 2))[1]):
        for collection in axes.collections:
            if isinstance(collection, PolyCollection):
                face_colours = [to_hex(colour) for colour in np.asarray(collection.get_facecolor())]
                label = str(collection.get_label())
                hidden, cause = label.removeprefix("hidden "), label.removeprefix("idle: ")
                chosen = FILLS[cause].colour if cause != label else COLOURS[hidden]
                assert face_colours == [chosen if hidden == label else pale(chosen)]


def test_many_ranks_are_thinned_and_it_says_so(run: Run) -> None:
    _, axes = drawn(run(ranks=70))
    named = texts(axes.get_yticklabels())
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


def test_a_lone_worker_and_a_dollar_in_a_name(run: Run) -> None:
    alone = run(DDP(broadcast_buffers=False), ranks=1, name="$w$")
    assert legend(drawn(alone)[0]) == ["forward", "backward", "optimizer"]
    picture = to_bytes(
        timeline_drawing(strategy_spans(*alone).spans(), title="alone with $x_{$"), "svg"
    ).decode()
    assert {"forward $w$0", "alone with $x_{$"} <= set(re.findall(r"<!-- (.*?) -->", picture))


def shown(timeline: Timeline) -> Axes:
    return timeline_drawing(collective_spans(timeline, everyone=True)).axes[0]


def lanes(axes: Axes) -> list[str]:
    """The lanes of each row."""
    ticks = zip(axes.get_yticks(minor=True), axes.get_yticklabels(minor=True), strict=True)
    return [tick.get_text() for _, tick in sorted(ticks, key=lambda tick: tick[0])]


def test_a_message_is_a_box_of_its_sender_and_of_its_receiver(collective: Collective) -> None:
    axes = shown(collective("ring", 4))
    boxes_of = boxes(axes)
    assert {phase: len(rows) for phase, rows in boxes_of.items()} == {
        "reduce-scatter": 2 * 4 * 3,
        "all-gather": 2 * 4 * 3,
        "idle: transfer": 4 * 5,
        "idle: drain": 4,
    }
    assert [box[:2] for box in boxes_of["reduce-scatter"][:2]] == [
        pytest.approx((0.0, 250e-6)),
        pytest.approx((252e-6, 502e-6)),
    ]
    for row in range(4):
        messages = boxes_of["reduce-scatter"] + boxes_of["all-gather"]
        inside = [box for box in messages if row - 0.5 < box[2] < row + 0.5]
        assert [box[3] < row for box in inside] == [True, True, True, False, False, False] * 2
        assert all(box[3] < row + 0.5 for box in inside)
    assert lanes(axes) == ["sends", "receives"] * 4
    assert axes.get_title(loc="left") == "what each rank sends and receives, and why it waits"


def test_a_message_that_queues_names_its_link(collective: Collective) -> None:
    """Three workers push at once. After the first two, the last queues at the server's port."""
    axes = shown(collective("parameter_server", 4))
    queues = [box[:2] for box in boxes(axes)["idle: contention"]]
    assert queues == [
        pytest.approx((1e-6, 1001e-6), rel=1e-2),
        pytest.approx((1e-6, 2001e-6), rel=1e-2),
    ]
    assert "waits for switch->gpu0" in texts(axes.texts)
    assert "messages wait longest for switch->gpu0" in axes.get_title(loc="left")


def test_additions_are_boxes_of_the_receiver(collective: Collective) -> None:
    timeline = collective("tree_reduce", 2, reduction=1e-9)
    axes = shown(timeline)
    assert lanes(axes) == ["sends", "receives", "merges"] * 2
    rows = boxes(axes)["reduce"]
    assert sorted((round(box[2]), *np.round(np.array(box[:2]) * 1e6)) for box in rows) == [
        (0, 2, 1002),
        (0, 1002, 2002),
        (1, 0, 1000),
    ]


@given(st.sampled_from(["ring", "tree", "naive", "parameter_server_apart"]), st.integers(2, 7))
def test_boxes_do_not_overlap(collective: Collective, name: str, ranks: int) -> None:
    pieces = [box for rows in boxes(shown(collective(name, ranks, 5e-10))).values() for box in rows]
    assert_apart(pieces)


def test_computations_are_above_messages() -> None:
    builder = ScheduleBuilder(2, 1e6, phase="work")
    builder.compute(0, 1e-3)
    builder.phase("send")
    builder.copy(0, 1, slot=0)
    timeline = simulate(builder.build(), machine("star").with_links(bandwidth=1e9).build(2))
    boxes_of = boxes(shown(timeline))
    (work,), (sent, received) = boxes_of["work"], boxes_of["send"]
    assert work[3] < sent[2] < sent[3] < 0.5 < received[2]


def test_phases_are_in_the_legend_and_in_boxes(collective: Collective) -> None:
    figure = timeline_drawing(collective_spans(collective("tree", 2)))
    entries = legend(figure)
    assert entries[:4] == ["reduce", "broadcast", "idle, by cause", "transfer: data is on its way"]
    labels = texts(figure.axes[0].texts)
    assert [label for label in labels if label not in ("transfer", "drain")] == [
        *("broadcast", "reduce", "reduce", "broadcast")
    ]


def test_many_phases_have_different_colours_and_a_short_legend(collective: Collective) -> None:
    figure = timeline_drawing(collective_spans(collective("naive_serial", 24)))
    shapes = [c for c in figure.axes[0].collections if isinstance(c, PolyCollection)]
    assert len({tuple(np.ravel(shape.get_facecolor())) for shape in shapes}) == 24 + 3
    entries = legend(figure)
    assert entries[20] == "... 24 in all"


def test_all_ranks_are_drawn_where_one_stands_for_all() -> None:
    ring, star = find("ring"), machine("star").with_links(bandwidth=1e9).build(8)
    whole, fold = (ring.on(star, 8, 1e6, group) for group in (None, rotations(8)))
    assert fold.schedule.fold is not None
    part, full = (boxes(shown(simulate(run.schedule, run.topology))) for run in (fold, whole))
    for phase, rows in full.items():
        assert np.array(sorted(part[phase])) == pytest.approx(np.array(sorted(rows)))


def test_pipelines_are_below_each_other_with_the_numbers_of_micro_batches() -> None:
    runs = [
        pipeline_times(find_pipeline(name).build(2, 4), StageTimes(1e-3, 1e-3, 1e-3))
        for name in ("1f1b", "interleaved")
    ]
    upper, lower = timeline_drawing(*map(pipeline_spans, runs)).axes
    assert upper.get_title(loc="left").startswith("1f1b: 15ms, 3ms idle, 3ms within")
    assert upper.get_xlim() == lower.get_xlim()
    assert {kind: len(pieces) for kind, pieces in boxes(upper).items()} == {
        **{"forward": 2 * 4, "backward": 2 * 4},
        **{"idle: fill": 1, "idle: slower peer": 3, "idle: drain": 1},
    }
    assert "forward, later stages" in boxes(lower)
    assert {"2", "backward 2"} <= set(words(upper))
