"""Frames of an animation as pictures: a GIF, or an SVG for each step."""

from __future__ import annotations

import io
from collections.abc import Iterator

from experiments.animation.film import Act, Film
from experiments.animation.frame_painter import Painter
from experiments.pictures.figure_file import to_bytes

MOST_BYTES = 5_000_000
"""The size of a GIF, at most."""
DETAILS = (6, 4, 3, 2, 1)
"""Frames of a step: as many as fit into the size."""
MOST_FRAMES = 240
PAUSE, FLOW = 1200, 130
"""Milliseconds that a frame at the end of a step stays, and any other."""
DPI = 80


def gif(film: Film) -> tuple[bytes, int]:
    """The animation with equal steps as a GIF, and the number of its frames. It has fewer frames a
    step where it would be larger than :data:`MOST_BYTES`."""
    act = film.acts["equal steps"]
    content, moments = b"", list[float]()
    for detail in DETAILS:
        moments = _moments(act, detail)
        if len(moments) > MOST_FRAMES and detail > 1:
            continue
        content = _gif(film, act, moments)
        if len(content) <= MOST_BYTES:
            break
    return content, len(moments)


def step_pictures(film: Film) -> Iterator[tuple[str, bytes]]:
    """Names and contents of files: an SVG for the start and for each step, with the messages of the
    step on their way, and one for the end."""
    act = film.acts["equal steps"]
    painter = Painter(film, act)
    for name, moment in zip(step_names(film), _step_moments(act), strict=True):
        yield name, to_bytes(painter.figure(moment), "svg")


def step_names(film: Film) -> list[str]:
    """The names of the files of :func:`step_pictures`."""
    count = len(_step_moments(film.acts["equal steps"]))
    return [f"step-{number:0{len(str(count - 1))}}.svg" for number in range(count)]


def _step_moments(act: Act) -> list[float]:
    marks = [float(mark) for mark in act.clock.marks if mark < act.end]
    return [0.0, *(min(mark + 0.45, act.end) for mark in marks), act.end]


def _moments(act: Act, detail: int) -> list[float]:
    """The moments of frames: the start, `detail` of each step, and the end."""
    steps = [float(mark) for mark in act.clock.marks if mark < act.end]
    inside = [(k + 0.6) / detail * 0.75 for k in range(detail - 1)]
    moments = [0.0]
    for mark in steps:
        moments += [mark + share for share in inside if mark + share < act.end]
        moments.append(min(mark + 1.0, act.end))
    return moments


def _gif(film: Film, act: Act, moments: list[float]) -> bytes:
    from PIL import Image

    pictures, painter = [], Painter(film, act)
    for moment in moments:
        file = io.BytesIO()
        painter.figure(moment).savefig(file, format="png", dpi=DPI)
        picture = Image.open(file).convert("RGB")
        pictures.append(picture.quantize(64, dither=Image.Dither.NONE))
    rests = {*act.clock.marks.tolist(), act.end}
    file = io.BytesIO()
    pictures[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=[PAUSE if moment in rests else FLOW for moment in moments],
        loop=0,
    )
    return file.getvalue()
