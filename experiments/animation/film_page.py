"""The page that plays a film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from experiments.animation.film import Act, Canvas, Figure, Film, Look, Stripe, TimedShape
from experiments.output import Value
from experiments.pages import page as pages
from experiments.pages.page import pack


def film_page(
    film: Film, name: str, parameters: Mapping[str, Value], figures: Sequence[pages.Figure] = ()
) -> pages.Page:
    """The page with its title, the options of the command and further pictures."""
    shown = {key: str(value) for key, value in parameters.items() if value not in (None, False)}
    scene = pages.Scene("Animation", "film", film_data(film), film.note, helpers=("player",))
    return pages.Page(name, film.facts, [scene, *figures, pages.Facts("Parameters", shown)])


def film_data(film: Film) -> dict[str, object]:
    """What the script draws."""
    looks, stripes = dict[Look, int](), dict[Stripe, int]()
    return {
        "acts": [_act(act, looks) for act in film.acts],
        "looks": [_look(look, stripes) for look in looks],
        "stripes": list(stripes),
        "layouts": [_layout(layout) for layout in film.layouts],
        "legend": [key._asdict() for key in film.legend],
    }


def _look(look: Look, stripes: dict[Stripe, int]) -> dict[str, object]:
    """What is unusual of a look, with the numbers of its stripes."""
    every = zip(Look._fields, look, Look(), strict=True)
    unusual: dict[str, object] = {name: value for name, value, usual in every if value != usual}
    numbers = [stripes.setdefault(stripe, len(stripes)) for stripe in look.stripes]
    return unusual | {"stripes": numbers}


def _layout(layout: Canvas) -> dict[str, object]:
    columns = layout.boxes.T.astype(np.float32)
    sides = dict(zip(("left", "top", "width", "height"), columns, strict=True))
    return {**layout._asdict(), "boxes": pack(sides)}


def _act(act: Act, looks: dict[Look, int]) -> dict[str, object]:
    """An act. New looks get the next numbers."""
    columns = dict(zip(TimedShape._fields, map(list, zip(*act.shapes, strict=True)), strict=True))
    columns["look"] = [looks.setdefault(look, len(looks)) for look in columns["look"]]
    packed = pack({name: np.array(column) for name, column in columns.items()})
    every = {field.name: getattr(act, field.name) for field in fields(act)}
    return {**every, "shapes": packed, "figures": [_figure(each) for each in act.figures]}


def _figure(figure: Figure) -> dict[str, object]:
    curve = pack({"moments": figure.moments, "values": figure.values})
    return {**figure._asdict(), "moments": None, "values": curve}
