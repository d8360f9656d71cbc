"""Films: shapes with times need no collective and no training step; and films of steps."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ddp_steps import MODEL, planned, star
from experiments.animation.film import (
    ACCENT,
    INK,
    Act,
    Canvas,
    Film,
    Look,
    RunningFigure,
    changing,
    moving,
)
from experiments.animation.film_page import film_data
from experiments.animation.film_painter import drawn, gif, step_pictures
from experiments.animation.spans_film import overlap_figures, pipeline_film, spans_film
from experiments.animation.step_film import LEAST, READY, STATES, WAITS
from experiments.pictures.timelines.spans import Columns
from experiments.pictures.timelines.step_spans import strategy_spans
from simulator.parallel.pipeline_times import StageTimes, pipeline_times
from simulator.parallel.pipelines import find, orders
from simulator.training.asgd import ASGD
from simulator.training.buckets import initial, rebuilt
from simulator.training.ddp import DDP
from simulator.training.local_sgd import LocalSGD
from simulator.training.model import Tensor
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train

BALL = Look(fill=ACCENT, style="round")


def bouncing() -> Film:
    """A ball that moves to the right in a second, and a lamp that goes on at half time."""
    boxes = np.array([(0.0, 0.0, 1.0, 1.0), (4.0, 0.0, 1.0, 1.0), (2.0, 2.0, 1.0, 1.0)])
    lamp = changing(2, [(-np.inf, Look(edge=INK)), (0.5, Look(fill=INK)), (0.5, Look(fill=ACCENT))])
    figures = [
        RunningFigure("height", "count", np.array([0.0, 1.0]), np.array([2.0, 4.0]), jumps=True)
    ]
    shapes = [*lamp, moving(BALL, (0, 1), 0.0, 1.0)]
    act = Act("time", [0.0, 1.0], ["before", "bounce"], ["", "It moves."], shapes, figures, 1.0)
    return Film([act], [Canvas(5.0, 3.0, boxes, unit=40.0)], [], "A ball.")


def test_shapes_are_there_from_their_begin_until_before_their_end() -> None:
    act = bouncing().acts[0]
    looks = {
        moment: [shape.look for shape in act.visible(moment)] for moment in (0.0, 0.4, 0.5, 1.0)
    }
    assert looks[0.0] == [Look(edge=INK)]
    assert looks[0.4] == [Look(edge=INK), BALL]
    assert looks[0.5] == [Look(fill=ACCENT), BALL]
    assert looks[1.0] == [Look(fill=ACCENT)]
    assert [act.step(moment) for moment in (0.0, 0.4, 1.0)] == [0, 1, 1]


def test_a_shape_is_drawn_on_its_way() -> None:
    film = bouncing()
    ball = [shape for shape in film.acts[0].shapes if shape.look == BALL]
    extents = drawn(film.layouts[0], ball, 0.25, 1.0).get_paths()[0].get_extents()
    assert np.allclose([extents.x0, extents.x1, extents.y0], [1.0, 2.0, 0.0])


def test_figures_grow_or_jump() -> None:
    moments, values = np.array([0.0, 1.0]), np.array([2.0, 4.0])
    assert RunningFigure("height", "count", moments, values).at(0.5) == 3.0
    assert RunningFigure("height", "count", moments, values, jumps=True).at(0.5) == 2.0


def test_a_page_and_pictures_show_any_film() -> None:
    film = bouncing()
    content, frames = gif(film)
    assert content.startswith(b"GIF")
    assert frames == 7
    assert list(step_pictures(film)) == ["step-0.svg", "step-1.svg", "step-2.svg"]
    looks = film_data(film)["looks"]
    assert isinstance(looks, list)
    assert {"fill": ACCENT, "style": "round", "stripes": []} in looks


def states(film: Film, moment: float, state: str) -> list[list[bool]]:
    """Whether each micro-batch is in a state at each device."""
    colour, signs = next((key.colour, key.sign) for key in STATES if key.name == state)
    cells = {
        shape.place: shape.look.fill == colour and shape.look.text.endswith(signs)
        for shape in film.acts[0].visible(moment)
        if shape.goal < 0 and shape.look.fill and shape.look.text
    }
    devices = (
        max(
            int(shape.look.text.partition(" ")[2])
            for shape in film.acts[0].shapes
            if shape.look.style == "left"
        )
        + 1
    )
    count = len(cells) // devices
    return [[cells[device * count + micro] for micro in range(count)] for device in range(devices)]


def test_every_pipeline_ends_with_all_micro_batches_done() -> None:
    for name in orders():
        times = pipeline_times(find(name).build(4, 8), StageTimes())
        film = pipeline_film(times, 0.0)
        act = film.acts[0]
        done = np.array(states(film, act.end, "done"))
        assert done.all(axis=0).sum() == 8 or times.pipeline.copies > 1, name
        assert done.any(axis=0).all(), name
        assert act.marks[-1] == pytest.approx(times.step)
        ends = {figure.name: figure.at(act.end) for figure in act.figures}
        assert ends["micro-batches done"] == 8
        assert ends["activations of the fullest device"] == 0
        idle = float(times.idle.mean()) / times.step
        assert ends["idle so far"] == pytest.approx(idle, abs=1e-9), name


def test_a_row_runs_one_box_at_an_event() -> None:
    """Times of actions are sums, in which rounding moves ends."""
    for name in orders():
        times = pipeline_times(find(name).build(4, 8), StageTimes(0.001, 0.001, 0.001))
        act = pipeline_film(times, 0.0).acts[0]
        for sentence in act.sentences:
            devices = re.findall(r"evice (\d+) runs", sentence)
            assert len(devices) == len(set(devices)), (name, sentence)
        for mark in act.marks:
            late = np.abs(times.finish - mark) < 1e-9
            assert (times.finish[late] <= mark).all(), "a paused frame shows what has ended"


def test_activations_are_kept_until_the_backward() -> None:
    film = pipeline_film(pipeline_times(find("gpipe").build(2, 3), StageTimes()), 0.0)
    act = film.acts[0]
    assert all(states(film, 4.5, "activations kept")[0])
    assert act.sentences[act.step(0.5)] == "Device 0 runs the forward of 0."
    assert {figure.name: figure.at(4.5) for figure in act.figures}[
        "activations of the fullest device"
    ] == 3


def test_time_in_which_boxes_overlap_counts_once() -> None:
    start, end = np.array([2.0, 0.0, 0.5]), np.array([3.0, 1.0, 2.5])
    boxes = Columns.of(np.zeros(3, dtype=np.int32), start, end, lane=np.array([0, 1, 1]))
    both = [figure.at(3.0) for figure in overlap_figures(boxes, 1, 3.0)]
    assert both == pytest.approx([0.5, 2.0])


def test_items_are_steps_that_wait_when_a_task_ends() -> None:
    plan = LocalSGD(every=2).plan(MODEL, Setting(star(2), 2, steps=2))
    film = spans_film(strategy_spans(plan, train(plan)))
    assert film.acts[0].end == train(plan).makespan
    assert WAITS in film.legend
    assert "numbered cells are steps" in film.note


def bucket_film(find_unused: bool = False) -> Film:
    """A step with three buckets of up to three tensors, of layers with two tensors whose gradients
    take time to copy. Some ranks get their buffers a little later than others."""
    tensors = Tensor("w", 4096.0), Tensor("b", 4096.0)
    layers = tuple(replace(layer, tensors=tensors) for layer in MODEL.layers)
    model = replace(MODEL, layers=layers, memory_bandwidth=1e6)
    strategy = DDP(bucket=12288.0, find_unused=find_unused)
    plan = planned(strategy, 4, model=model, topology=star(4, bandwidth=1e5))
    buckets = (initial if find_unused else rebuilt)(model, strategy.bucket)
    return spans_film(strategy_spans(plan, train(plan)), buckets)


@pytest.mark.parametrize("find_unused", [False, True])
def test_buckets_are_ready_travel_and_are_averaged(find_unused: bool) -> None:
    film = bucket_film(find_unused)
    act = film.acts[0]
    assert "4 ranks run the backward of bucket 0." in act.sentences
    assert any("4 ranks run the all-reduce of bucket 0" in each for each in act.sentences)
    assert (np.diff(act.marks) > LEAST * act.end).all(), "ranks that are little apart are one event"
    assert np.all(states(film, act.end, "averaged"))
    ready = [np.array(states(film, mark, "ready")) for mark in act.marks]
    assert np.any(ready, axis=(0, 1)).all(), "each bucket is ready at some event"
    # No bucket is ready while it still gets gradients.
    backward = next(key for key in film.legend if key.name == "backward")
    for place in {shape.place for shape in act.shapes if shape.look.text.endswith(READY.sign)}:
        texts = [shape.look.text for shape in act.shapes if shape.place == place]
        later = texts[next(k for k, text in enumerate(texts) if text.endswith(READY.sign)) :]
        assert not [text for text in later if text.endswith(backward.sign)]


def test_no_two_entries_of_a_legend_look_alike() -> None:
    films = [
        bucket_film(),
        pipeline_film(pipeline_times(find("zb_h1").build(2, 3), StageTimes()), 0.0),
    ]
    for strategy in (LocalSGD(every=2), ASGD()):
        plan = planned(strategy, 2, topology=star(2, servers=strategy.servers(2)), steps=2)
        films.append(spans_film(strategy_spans(plan, train(plan))))
    for film in films:
        signs = [key.sign for key in film.legend if key.sign]
        assert len(set(signs)) == len(signs)
        assert len({key.colour for key in film.legend}) == len(film.legend)
