"""Frames of an animation as pictures: a GIF, or an SVG for each step."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import NamedTuple

from matplotlib.figure import Figure

from experiments.animation.film import Film
from experiments.animation.frame_painter import Painter
from experiments.animation.step_film import StepFilm
from experiments.animation.step_painter import step_figure
from experiments.pictures.figure_file import to_bytes
from topologies.errors import InputError

MOST_BYTES = 5_000_000
"""The size of a GIF, at most."""
DETAILS = (6, 4, 3, 2, 1)
"""Frames of a step: as many as fit into the size."""
MOST_STOPS = 40
"""Events of a training step in a GIF or folder; of more, some are left out."""
FLOW = 130
"""Milliseconds that a frame stays within a step."""
DPI = 80


class Reel(NamedTuple):
    """An animation as pictures."""

    figure: Callable[[float], Figure]
    """What is to be seen at a moment."""
    stops: list[float]
    """The start, the ends of steps, and the end."""
    part: float
    """The share of a step in which messages move."""
    most: int = 240
    """Frames of a GIF, at most."""
    pause: int = 1200
    """Milliseconds that the frame at the end of a step stays."""

    def moments(self, detail: int) -> list[float]:
        """The moments of frames: the start, and `detail` of each step."""
        inside = [(k + 0.6) / detail * self.part for k in range(detail - 1)]
        moments = self.stops[:1]
        for begin, end in zip(self.stops[:-1], self.stops[1:], strict=True):
            moments += [begin + share * (end - begin) for share in inside]
            moments.append(end)
        return moments

    @property
    def seen(self) -> list[float]:
        """The moments of single pictures: the start, the middle of each step, and the end."""
        middles = zip(self.stops[:-1], self.stops[1:], strict=True)
        shown = [begin + 0.6 * self.part * (end - begin) for begin, end in middles]
        return [self.stops[0], *shown, self.stops[-1]]

    @property
    def names(self) -> list[str]:
        """The names of the files of single pictures."""
        count = len(self.stops) + 1
        return [f"step-{number:0{len(str(count - 1))}}.svg" for number in range(count)]


def collective_reel(film: Film) -> Reel:
    """The pictures of a collective, with steps of equal length."""
    act = film.acts["equal steps"]
    stops = [*(float(mark) for mark in act.clock.marks if mark < act.end), act.end]
    return Reel(Painter(film, act).figure, stops, act.clock.part)


def step_reel(film: StepFilm) -> Reel:
    """The pictures of a training step: a stop at each event, or at some of them."""
    every = -(-len(film.events) // MOST_STOPS)
    stops = [*film.marks[:-1:every], film.end]
    return Reel(lambda moment: step_figure(film, moment), stops, 1.0, most=80, pause=600)


def gif(reel: Reel) -> tuple[bytes, int]:
    """The animation as a GIF, and the number of its frames.

    It has fewer frames a step where it would be larger than :data:`MOST_BYTES`. Raises InputError
    if it is too large even so.
    """
    for detail in DETAILS:
        moments = reel.moments(detail)
        if len(moments) <= reel.most:
            content = _gif(reel, moments)
            if len(content) <= MOST_BYTES:
                return content, len(moments)
    raise InputError(
        f"the GIF of {len(reel.stops) - 1} steps has over {MOST_BYTES / 1e6:g} MB or "
        f"{reel.most} frames: take fewer ranks, or a page"
    )


def step_pictures(reel: Reel) -> Iterator[tuple[str, bytes]]:
    """Names and contents of files: an SVG for the start and for each step, with the messages of the
    step on their way, and one for the end."""
    for name, moment in zip(reel.names, reel.seen, strict=True):
        yield name, to_bytes(reel.figure(moment), "svg")


def _gif(reel: Reel, moments: list[float]) -> bytes:
    from PIL import Image

    pictures = []
    for moment in moments:
        file = io.BytesIO()
        reel.figure(moment).savefig(file, format="png", dpi=DPI)
        picture = Image.open(file).convert("RGB")
        pictures.append(picture.quantize(64, dither=Image.Dither.NONE))
    file = io.BytesIO()
    pictures[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=[reel.pause if moment in reel.stops else FLOW for moment in moments],
        loop=0,
    )
    return file.getvalue()
