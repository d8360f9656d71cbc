"""Draws one moment of a training step with matplotlib."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.animation.step_film import StepFilm
from experiments.pictures.timelines.palette import ink_on
from topologies.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEAD, FOOT = 9.0, 0.95, 0.75
"""Inches: the width, the text above the rows and the legend below them."""
STRIP, LANE, GAP = 0.26, 0.14, 0.12
"""Inches: the height of a row's cells and of a lane, and the gap to the next row."""
FEW = 8
"""Rows up to which a row has its full height."""
LEFT = 0.09
"""Where cells begin, as a share of the width."""
INK, QUIET, PANEL, ACCENT = "#1b1f24", "#57606a", "#f0f2f4", "#0b63b0"
LETTERS = 7.5


def step_figure(film: StepFilm, moment: float) -> Figure:
    """What the animation of a step shows at a moment."""
    shrink = 1.0 if len(film.rows) <= FEW else 0.6
    row = (STRIP + LANE * len(film.lanes) + GAP) * shrink
    height = row * len(film.rows)
    figure = Figure(figsize=(WIDTH, HEAD + height + FOOT), facecolor="white")
    total = HEAD + height + FOOT
    axes = figure.add_axes((0, FOOT / total, 1, height / total))
    axes.set(xlim=(0, 1), ylim=(height, 0))
    axes.set_axis_off()
    _text(figure, film, moment)
    _rows(axes, film, moment, (row, shrink))
    used = [0, *np.unique(film.changes.state).tolist()]
    looks = [film.states[k] for k in dict.fromkeys(used)]
    looks += [film.kinds[k] for k in np.unique(film.boxes.look).tolist()]
    names = {look.name: look for look in reversed(looks)}
    handles = [
        Patch(color=look.colour, label=f"{look.name} {look.sign}".strip())
        for look in reversed(names.values())
    ]
    figure.legend(handles=handles, loc="lower center", ncols=5, frameon=False, fontsize=LETTERS)
    return figure


def _text(figure: Figure, film: StepFilm, moment: float) -> None:
    height, event = figure.get_figheight(), film.event(moment)
    title, sentence = (
        (event.title, event.sentence) if moment > 0 else ("before the first event", "")
    )
    figure.text(0.01, 1 - 0.08 / height, title, size=12, va="top", weight="bold")
    lines = textwrap.wrap(sentence, 120)[:2]
    figure.text(0.01, 1 - 0.32 / height, "\n".join(lines), size=8.5, va="top", color=INK)
    words = [f"time {format_seconds(moment)} of {format_seconds(film.end)}"]
    for name, unit, values in film.figures:
        value = float(np.interp(moment, film.moments, values))
        words.append(f"{name} {_in_words(value, unit)}")
    line = "    ".join(words)
    figure.text(0.01, 1 - (HEAD - 0.08) / height, line, size=8, va="bottom", color=QUIET)


def _in_words(value: float, unit: str) -> str:
    if unit == "seconds":
        return format_seconds(value)
    if unit == "bytes":
        return format_bytes(value, True)
    return f"{value:.1%}" if unit == "share" else f"{value:.3g}"


def _rows(axes: Axes, film: StepFilm, moment: float, size: tuple[float, float]) -> None:
    row, shrink = size
    strip, lane = STRIP * shrink, LANE * shrink
    cell = min(0.07, (0.99 - LEFT) / film.count)
    polygons, colours = list[list[tuple[float, float]]](), list[str]()

    def box(x: float, y: float, width: float, height: float, colour: str) -> None:
        polygons.append([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])
        colours.append(colour)

    def label(x: float, y: float, text: str, colour: str, align: str = "center") -> None:
        written = axes.text(x, y, text, size=LETTERS * max(0.75, shrink), color=colour)
        written.set(ha=align, va="center", zorder=5)

    def place(time: float) -> float:
        return LEFT + (0.99 - LEFT) * time / (film.end or 1.0)

    states = film.states_at(moment)
    for number, name in enumerate(film.rows):
        top = number * row
        label(0.01, top + strip / 2, name, INK, "left")
        box(LEFT, top + strip + 0.03, 0.99 - LEFT, lane * len(film.lanes), PANEL)
        for item, state in enumerate(states[number].tolist()):
            look = film.states[state]
            box(LEFT + item * cell, top, cell - 0.003, strip, look.colour)
            if cell >= 0.015:
                text = f"{item} {look.sign}".strip() if cell > 0.035 else f"{item}"
                label(LEFT + (item + 0.5) * cell, top + strip / 2, text, ink_on(look.colour))
        axes.plot(
            [place(moment)] * 2, [top + strip, top + row - GAP * shrink], color=INK, linewidth=1
        )
    columns = (column.tolist() for column in film.boxes)
    for of_row, of_lane, start, end, look_number, _ in zip(*columns, strict=True):
        if start < moment:
            left, right = place(start), place(min(moment, end))
            top = of_row * row + strip + 0.03 + of_lane * lane
            box(
                left,
                top,
                max(right - left - 0.0005, 0.0005),
                lane * 0.95,
                film.kinds[look_number].colour,
            )
    axes.add_collection(
        PolyCollection(polygons, facecolors=colours, edgecolors="none"), autolim=False
    )
    _flights(axes, film, moment, (row, strip, cell))


def _flights(axes: Axes, film: StepFilm, moment: float, size: tuple[float, float, float]) -> None:
    """The items on their way."""
    row, strip, cell = size
    flights = film.flights
    for k in np.flatnonzero((flights.start < moment) & (moment < flights.end)).tolist():
        share = (moment - flights.start[k]) / (flights.end[k] - flights.start[k])
        here, there, item = int(flights.row[k]), int(flights.peer[k]), int(flights.item[k])
        x, y = LEFT + item * cell, (here + (there - here) * share) * row
        corners = [(x, y), (x + cell - 0.003, y), (x + cell - 0.003, y + strip), (x, y + strip)]
        moving = PolyCollection([corners], facecolors="white", edgecolors=ACCENT, linewidths=1.5)
        moving.set_zorder(6)
        axes.add_collection(moving, autolim=False)
        sign = "↓" if there > here else "↑"
        text = f"{item} {sign}" if cell > 0.035 else f"{item}"
        written = axes.text(x + cell / 2, y + strip / 2, text, size=LETTERS, color=ACCENT)
        written.set(ha="center", va="center", zorder=7)
