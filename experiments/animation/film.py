"""A film: shapes with times. One painter draws its pictures, one script plays it on a page, and
neither knows what the shapes stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.topology import Floats

INK, QUIET, RULE, PANEL, GROUND, ACCENT = "ink", "quiet", "rule", "panel", "ground", "accent"
"""Colours that depend on whether the page is light or dark. All others are #rrggbb."""
ALARM = "#d1242f"
BASE = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7"),
    *("#56b4e9", "#d55e00", "#f0e442", "#8a8f98"),
)
"""After Okabe and Ito: a colour for each of eight ranks."""


class Stripe(NamedTuple):
    """A part of a box."""

    place: int
    """How many parts are to its left."""
    colour: str
    text: str


class Look(NamedTuple):
    """How a shape is drawn. An empty colour draws nothing."""

    fill: str = ""
    text: str = ""
    """In the middle. Where only its first word fits, that is drawn."""
    edge: str = ""
    width: float = 1.0
    """Pixels of the edge or line."""
    ink: str = ""
    """The colour of texts; "" for what is easiest to read."""
    style: str = ""
    """Of a box: "", "round", "dashed", or "left" for its text. Of a line between the middles of two
    boxes: "line" or "arrow"."""
    before: str = ""
    """A text to the left of the box."""
    after: str = ""
    """A text to the right of the box."""
    stripes: tuple[Stripe, ...] = ()
    parts: int = 1
    """The number of parts that stripes are of."""
    copies: int = 1
    """Boxes that lie on each other."""


class TimedShape(NamedTuple):
    """A box or line. It is to be seen from `begin` until just before `end`."""

    look: Look
    place: int
    """The box where it is, a row in the boxes of each layout."""
    begin: float = -np.inf
    end: float = np.inf
    goal: int = -1
    """The box that it moves to, and changes into, until `arrival`; or where the line ends."""
    arrival: float = np.inf
    way: int = -1
    """What it passes meanwhile, a place in the ways of each layout; -1 for nothing."""


class Canvas(NamedTuple):
    """Where all places are. The origin is at the top left."""

    width: float
    height: float
    boxes: Floats
    """Left, top, width and height of each place, shape (places, 4). Shapes at further places, which
    only the first layout has, are hidden."""
    unit: float = 1.0
    """Pixels of a unit of length, at most."""
    ways: Sequence[Sequence[tuple[float, float]]] = ()
    """Points that moving shapes pass."""
    margin: float = 0.0
    """Pixels to the left of the origin."""
    stretches: bool = False
    """Whether lengths across follow the width of the page, and only these."""


class RunningFigure(NamedTuple):
    """A figure that changes."""

    name: str
    unit: str
    """seconds, bytes, share, count or rate (bytes per second)."""
    moments: Floats
    values: Floats
    """The value at each moment."""
    total: float | None = None
    """What the value is a part of."""
    jumps: bool = False
    """Whether it stays the same between moments."""

    def at(self, moment: float) -> float:
        """The value at a moment."""
        if self.jumps:
            return float(self.values[np.searchsorted(self.moments, moment, side="right") - 1])
        return float(np.interp(moment, self.moments, self.values))


class Key(NamedTuple):
    """An entry of the legend."""

    name: str
    colour: str
    sign: str = ""


@dataclass(frozen=True, eq=False)
class Act:
    """A film on one clock."""

    name: str
    marks: Sequence[float]
    """When each step ends; the first mark is 0."""
    titles: Sequence[str]
    """What each step is called; the first one is the state before."""
    sentences: Sequence[str]
    """What happens in each step."""
    shapes: Sequence[TimedShape]
    """The lowest first; shapes on their way lie on all others."""
    figures: Sequence[RunningFigure]
    end: float
    wrong: str = ""
    """Why the act stops before its last mark."""
    details: Sequence[Sequence[str]] = ()
    """Remarks on each step."""
    part: float = 1.0
    """The share of a step in which shapes move."""

    @cached_property
    def times(self) -> Floats:
        """Begin and end of each shape, shape (2, shapes)."""
        return np.array([(shape.begin, shape.end) for shape in self.shapes]).T

    def visible(self, moment: float) -> list[TimedShape]:
        """The shapes that are to be seen at a moment."""
        begin, end = self.times
        shown = np.flatnonzero((begin <= moment) & (moment < end))
        return [self.shapes[place] for place in shown.tolist()]

    def step(self, moment: float) -> int:
        """The step that is running at a moment."""
        return int(np.searchsorted(self.marks, moment - 1e-9 * self.end))


@dataclass(frozen=True, eq=False)
class Film:
    """What a page and pictures show."""

    acts: Sequence[Act]
    """The film on each clock. Pictures show the last."""
    layouts: Sequence[Canvas]
    """For wide windows and pictures, and for narrow windows."""
    facts: Sequence[str]
    """Sentences about the run."""
    note: str
    """How to read it."""
    legend: Sequence[Key] = ()
    stops: int | None = None
    """Steps that pictures show, at most; of more, some are left out."""
    frames: int = 240
    """Pictures of a GIF, at most."""
    pause: int = 1200
    """Milliseconds that a GIF shows the end of a step."""


def changing(place: int, states: Sequence[tuple[float, Look]]) -> list[TimedShape]:
    """A shape for each state of a place, from (begin, look) in the order of time."""
    ends = [*(begin for begin, _ in states[1:]), np.inf]
    return [
        TimedShape(look, place, begin, end)
        for (begin, look), end in zip(states, ends, strict=True)
        if begin < end
    ]


def moving(
    look: Look, ends: tuple[int, int], begin: float, end: float, way: int = -1
) -> TimedShape:
    """A shape that moves from place to place, and is not to be seen at either."""
    return TimedShape(look, ends[0], nextafter(begin, inf), end, ends[1], end, way)


def rectangles(*sides: npt.ArrayLike) -> Floats:
    """Boxes from left, top, width and height, which are numbers or columns, shape (boxes, 4)."""
    return np.stack(np.broadcast_arrays(*sides), axis=1)


def rank_colours(count: int) -> list[str]:
    """A colour for each rank. From the ninth on they are shades of the first eight, mixed with
    white or black."""
    colours = list(BASE)
    for ground, share in ((255, 0.45), (0, 0.35), (255, 0.72)):
        for colour in BASE:
            parts = (round(v * (1 - share) + ground * share) for v in bytes.fromhex(colour[1:]))
            colours.append(f"#{bytes(parts).hex()}")
    return [colours[rank % len(colours)] for rank in range(count)]
