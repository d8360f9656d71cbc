"""Animations of training steps: micro-batches of a pipeline, buckets of DDP."""

import numpy as np
import pytest

from experiments.animation.pipeline_film import DONE, KEPT, pipeline_film
from experiments.animation.step_film import covered
from simulator.parallel.pipeline_times import StageTimes, pipeline_times
from simulator.parallel.pipelines import find, orders


def test_every_pipeline_ends_with_all_micro_batches_done() -> None:
    for name in orders():
        times = pipeline_times(find(name).build(4, 8), StageTimes())
        film = pipeline_film(times, 0.0)
        done = film.states_at(film.end) == DONE
        assert done.all(axis=0).sum() == 8 or times.pipeline.copies > 1, name
        assert done.any(axis=0).all(), name
        assert film.marks[-1] == pytest.approx(film.end)
        by_name = {figure.name: figure.values for figure in film.figures}
        assert by_name["micro-batches done"][-1] == 8
        idle = float(times.idle.mean()) / times.step
        assert by_name["idle so far"][-1] == pytest.approx(idle, abs=1e-9), name


def test_activations_are_kept_until_the_backward() -> None:
    film = pipeline_film(pipeline_times(find("gpipe").build(2, 3), StageTimes()), 0.0)
    assert (film.states_at(4.5)[0] == KEPT).all()
    assert film.event(0.5).sentence == "Device 0 runs the forward of 0."


def test_spans_that_overlap_count_once() -> None:
    start, end = np.array([2.0, 0.0, 0.5]), np.array([3.0, 1.0, 2.5])
    measured = covered(start, end, np.array([0.0, 0.75, 2.0, 9.0]))
    assert measured.tolist() == [0.0, 0.75, 2.0, 3.0]
