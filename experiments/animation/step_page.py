"""The page with the animation of a training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.animation.step_film import Look, StepFilm
from experiments.output import Value
from experiments.pages.packed import pack
from experiments.pages.page import Facts, Page, Scene

NOTE = (
    "A row is a device. Its numbered cells are {items}: colour and sign say in which state each "
    "is. Boxes move from row to row. The bars below are the timeline so far. Keys: space plays, "
    "arrows go from event to event, Home and End jump."
)


def step_page(
    film: StepFilm, name: str, facts: Sequence[str], parameters: Mapping[str, Value]
) -> Page:
    """The page: `name` is its title, `facts` are sentences about the step."""
    shown = {key: str(value) for key, value in parameters.items() if value not in (None, False)}
    note = NOTE.format(items=f"{film.items}es" if film.items.endswith("ch") else f"{film.items}s")
    return Page(
        name,
        facts,
        [
            Scene("Animation", "step_animation", step_data(film), note, helpers=("player",)),
            Facts("Parameters", shown),
        ],
    )


def step_data(film: StepFilm) -> dict[str, object]:
    """What the script draws."""
    return {
        "rows": list(film.rows),
        "lanes": list(film.lanes),
        "items": film.items,
        "count": film.count,
        "kinds": [_look(look) for look in film.kinds],
        "states": [_look(look) for look in film.states],
        "boxes": pack(film.boxes._asdict()),
        "changes": pack(film.changes._asdict()),
        "flights": pack(film.flights._asdict()),
        "end": film.end,
        "marks": film.marks,
        "titles": [event.title for event in film.events],
        "sentences": [event.sentence for event in film.events],
        "figures": [
            {
                "name": figure.name,
                "unit": figure.unit,
                "values": np.round(figure.values, 9).tolist(),
            }
            for figure in film.figures
        ],
    }


def _look(look: Look) -> dict[str, str]:
    return {"name": look.name, "colour": look.colour, "sign": look.sign}
