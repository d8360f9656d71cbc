"""A film as pictures: a GIF, or an SVG for each step."""

from __future__ import annotations

import io
from itertools import pairwise

from experiments.animation.film import Film
from experiments.animation.film_painter import figure
from experiments.pictures.figure_file import to_bytes
from topologies.errors import InputError

MOST_BYTES = 5_000_000
"""The size of a GIF, at most."""
DETAILS = (6, 4, 3, 2, 1)
"""Frames of a step: as many as fit into the size."""
FLOW = 130
"""Milliseconds that a frame stays within a step."""
DPI = 80


def gif(film: Film) -> tuple[bytes, int]:
    """The film as a GIF, and the number of its frames.

    It has fewer frames a step where it would be larger than :data:`MOST_BYTES`. Raises InputError
    if it is too large even so.
    """
    stops, part = _stops(film), film.acts[-1].part
    for detail in DETAILS:
        moments = stops[:1]
        for begin, end in pairwise(stops):
            inside = ((k + 0.6) / detail * part for k in range(detail - 1))
            moments += [*(begin + share * (end - begin) for share in inside), end]
        if len(moments) <= film.frames:
            content = _gif(film, moments, stops)
            if len(content) <= MOST_BYTES:
                return content, len(moments)
    raise InputError(
        f"the GIF of {len(stops) - 1} steps has over {MOST_BYTES / 1e6:g} MB or "
        f"{film.frames} frames: take fewer ranks, or a page"
    )


def step_pictures(film: Film) -> dict[str, bytes]:
    """Contents of files by name: an SVG for the start and for each step, with the shapes of the
    step on their way, and one for the end."""
    act, stops = film.acts[-1], _stops(film)
    middles = [begin + 0.6 * act.part * (end - begin) for begin, end in pairwise(stops)]
    digits = len(str(len(stops)))
    return {
        f"step-{number:0{digits}}.svg": to_bytes(figure(film, act, moment), "svg")
        for number, moment in enumerate((stops[0], *middles, stops[-1]))
    }


def _stops(film: Film) -> list[float]:
    """The start, the ends of steps, and the end."""
    act = film.acts[-1]
    marks = [mark for mark in act.marks if mark < act.end]
    every = -(-len(marks) // (film.stops or len(marks)))
    return [*marks[::every], act.end]


def _gif(film: Film, moments: list[float], stops: list[float]) -> bytes:
    from PIL import Image

    pictures = []
    for moment in moments:
        drawing, file = figure(film, film.acts[-1], moment), io.BytesIO()
        drawing.savefig(file, format="rgba", dpi=DPI)
        size = int(drawing.get_figwidth() * DPI), int(drawing.get_figheight() * DPI)
        picture = Image.frombytes("RGBA", size, file.getvalue()).convert("RGB")
        pictures.append(picture.quantize(64, dither=Image.Dither.NONE))
    file = io.BytesIO()
    pictures[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=[film.pause if moment in stops else FLOW for moment in moments],
        loop=0,
    )
    return file.getvalue()
