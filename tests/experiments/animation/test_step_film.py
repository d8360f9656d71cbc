"""Animations of training steps: micro-batches of a pipeline, buckets of DDP."""

import numpy as np
import pytest

from experiments.animation.film import Film
from experiments.animation.spans_film import STATES, pipeline_film
from experiments.animation.step_film import overlap_figures
from experiments.pictures.timelines.spans import Columns
from simulator.parallel.pipeline_times import StageTimes, pipeline_times
from simulator.parallel.pipelines import find, orders


def looks(film: Film, moment: float, state: str) -> list[list[bool]]:
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
        done = np.array(looks(film, act.end, "done"))
        assert done.all(axis=0).sum() == 8 or times.pipeline.copies > 1, name
        assert done.any(axis=0).all(), name
        assert act.marks[-1] == pytest.approx(times.step)
        ends = {figure.name: figure.at(act.end) for figure in act.figures}
        assert ends["micro-batches done"] == 8
        assert ends["activations of the fullest device"] == 0
        idle = float(times.idle.mean()) / times.step
        assert ends["idle so far"] == pytest.approx(idle, abs=1e-9), name


def test_activations_are_kept_until_the_backward() -> None:
    film = pipeline_film(pipeline_times(find("gpipe").build(2, 3), StageTimes()), 0.0)
    act = film.acts[0]
    assert all(looks(film, 4.5, "activations kept")[0])
    assert act.sentences[act.step(0.5)] == "Device 0 runs the forward of 0."
    assert {figure.name: figure.at(4.5) for figure in act.figures}[
        "activations of the fullest device"
    ] == 3


def test_time_in_which_boxes_overlap_counts_once() -> None:
    start, end = np.array([2.0, 0.0, 0.5]), np.array([3.0, 1.0, 2.5])
    boxes = Columns.of(np.zeros(3, dtype=np.int32), start, end, lane=np.array([0, 1, 1]))
    hidden, exposed = (figure.at(3.0) for figure in overlap_figures(boxes, 1, 3.0))
    assert (hidden, exposed) == (pytest.approx(0.5), pytest.approx(2.0))
