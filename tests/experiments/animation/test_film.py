"""A film is shapes with times: it needs no collective and no training step."""

import numpy as np

from experiments.animation.film import (
    ACCENT,
    INK,
    Act,
    Canvas,
    Figure,
    Film,
    Look,
    changing,
    moving,
)
from experiments.animation.film_page import film_data
from experiments.animation.film_painter import drawn, gif, step_pictures

BALL = Look(fill=ACCENT, style="round")


def bouncing() -> Film:
    """A ball that moves to the right in a second, and a lamp that goes on at half time."""
    boxes = np.array([(0.0, 0.0, 1.0, 1.0), (4.0, 0.0, 1.0, 1.0), (2.0, 2.0, 1.0, 1.0)])
    lamp = changing(2, [(-np.inf, Look(edge=INK)), (0.5, Look(fill=INK)), (0.5, Look(fill=ACCENT))])
    figures = [Figure("height", "count", np.array([0.0, 1.0]), np.array([2.0, 4.0]), jumps=True)]
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
    assert Figure("height", "count", moments, values).at(0.5) == 3.0
    assert Figure("height", "count", moments, values, jumps=True).at(0.5) == 2.0


def test_a_page_and_pictures_show_any_film() -> None:
    film = bouncing()
    content, frames = gif(film)
    assert content.startswith(b"GIF")
    assert frames == 7
    assert list(step_pictures(film)) == ["step-0.svg", "step-1.svg", "step-2.svg"]
    looks = film_data(film)["looks"]
    assert isinstance(looks, list)
    assert {"fill": ACCENT, "style": "round", "stripes": []} in looks
