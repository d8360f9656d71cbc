"""Draws one moment of an animation with matplotlib."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from experiments.animation.colours import rank_colours
from experiments.animation.film import Act, Film, Message, Still
from experiments.animation.run_figures import measures
from experiments.animation.shown_values import Shown, shown_values
from experiments.pictures.timelines.palette import ink_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCH, HEAD = 0.62, 1.05
"""Inches of a unit of the drawing at most, and of the text above it."""
WIDEST = 9.0
INK, QUIET, RULE, PANEL, ACCENT, ALARM = (
    "#1b1f24",
    "#57606a",
    "#d0d7de",
    "#f5f6f8",
    "#0b63b0",
    "#d1242f",
)
Box = tuple[float, float, float, float]


class _Rectangle(NamedTuple):
    """A rectangle to draw."""

    corners: list[tuple[float, float]]
    face: str
    edge: str
    width: float
    style: str


class Painter:
    """Draws the stills of an act."""

    def __init__(self, film: Film, act: Act) -> None:
        self.film, self.act, self.stage = film, act, film.wide
        self.inch = min(INCH, WIDEST / self.stage.width)
        self.colours = rank_colours(film.schedule.workers)
        self.values: list[Shown] = shown_values(act.run)
        self.sums = act.run.promise.whole > 1
        self.boxes, self.layer = list[_Rectangle](), 1
        self.carried = {write.operation: write.carried for write in reversed(act.run.writes)}

    def figure(self, moment: float) -> Figure:
        """What the animation shows at a moment."""
        still, stage = self.act.still(moment), self.stage
        size = max(stage.width * self.inch, 6.5), stage.height * self.inch + HEAD
        figure = Figure(figsize=size, facecolor="white")
        share = stage.height * self.inch / size[1]
        left = (1 - stage.width * self.inch / size[0]) / 2
        axes = figure.add_axes((left, 0.0, 1 - 2 * left, share))
        axes.set(xlim=(0, stage.width), ylim=(stage.height, 0))
        axes.set_axis_off()
        self._text(figure, moment, still)
        self.layer = 1
        self._scenery(axes)
        for slot, value in enumerate(still.values):
            self._slot(axes, slot, value)
        self._lay(axes)
        failed = self.act.wrong is not None and moment >= self.act.end
        if failed and self.act.wrong is not None:
            x, y, width, height = self._box(self.act.wrong.place)
            self._rectangle(axes, (x - 0.05, y - 0.05, width + 0.1, height + 0.1), "none", ALARM, 3)
        for message in [] if failed else still.messages:
            self._message(axes, message)
        self._lay(axes)
        return figure

    def _text(self, figure: Figure, moment: float, still: Still) -> None:
        act, height = self.act, figure.get_figheight()
        failed = act.wrong is not None and moment >= act.end
        title = textwrap.shorten(act.titles[still.step], 70)
        head = figure.text(0.02, 1 - 0.1 / height, title, size=12, va="top", parse_math=False)
        head.set_fontweight("bold")
        sentence = act.wrong.text if failed and act.wrong else act.sentences[still.step]
        wide = int(figure.get_figwidth() * 14)
        lines = textwrap.wrap(sentence, wide)[:3]
        colour = ALARM if failed else INK
        figure.text(0.02, 1 - 0.34 / height, "\n".join(lines), size=8.5, va="top", color=colour)
        words = measures(self.film, act, moment).words
        figure.text(0.02, 1 - (HEAD - 0.05) / height, words, size=8, va="bottom", color=QUIET)

    def _scenery(self, axes: Axes) -> None:
        stage, card = self.stage, self.stage.card
        for first, second in stage.links:
            axes.plot(*zip(first, second, strict=True), color=RULE, linewidth=1.5, zorder=0)
        for device in stage.devices:
            corner = device.x - device.width / 2, device.y - 0.25
            self._card(axes, corner, (device.width, 0.5), PANEL, QUIET)
            size = min(0.26, 1.6 * device.width / len(device.name))
            self._write(axes, device.name, device.x, device.y, size)
        for rank, name in enumerate(self.film.names):
            left, top = self._corner(rank)
            around = card.width + 0.16, card.height + 0.08
            self._card(axes, (left - 0.08, top), around, "white", RULE)
            if rank < len(self.colours):
                chip = left + 0.06, top + 0.12, 0.26, 0.26
                self._rectangle(axes, chip, self.colours[rank], "none", 0)
            self._write(axes, name, left + 0.42, top + 0.26, 0.28, align="left")

    def _slot(self, axes: Axes, slot: int, value: int) -> None:
        film, box = self.film, self._box(slot)
        rank, number = int(film.slots.rank[slot]), int(film.slots.slot[slot])
        schedule = film.schedule
        scratch = rank >= schedule.workers or number >= schedule.buffer
        label = number - schedule.buffer if number >= schedule.buffer else number
        promised = self.act.run.promise.cells.get(int(self.act.cells[slot]))
        complete = self.act.run.values.sets[value] == promised
        self._fill(axes, value, box, number)
        edge, width = (INK, 1.6) if complete else (QUIET, 0.6)
        self._rectangle(axes, box, "none", edge, width, style="--" if scratch else "-")
        if self.stage.card.columns == 1:
            middle = box[1] + box[3] / 2
            self._write(axes, f"{label}", box[0] - 0.17, middle, 0.22, colour=QUIET)
            if complete:
                self._write(axes, "✓", box[0] + box[2] + 0.18, middle, 0.26)

    def _fill(self, axes: Axes, value: int, box: Box, own: int) -> None:
        """The contributions of a value as stripes, or its only one as a bar."""
        x, y, width, height = box
        self._rectangle(axes, box, PANEL, "none", 0)
        shown = self.values[value]
        parts = len(self.colours) if self.sums or shown.number > 1 else 1
        for rank in shown.ranks:
            left = x + width * rank / parts if parts > 1 else x
            colour = self.colours[rank]
            self._rectangle(axes, (left, y, width / parts, height), colour, "none", 0)
            plain = parts > 1 or shown.origin in (own, None)
            name = f"{rank}" if plain else f"{rank}.{shown.origin}"
            size = min(height * 0.75, 0.24, width / parts / len(name) * 1.3)
            middle = left + width / parts / 2, y + height / 2
            self._write(axes, name, *middle, size, colour=ink_on(colour))
        for rank in range(1, parts if width / parts > 0.1 else 1):
            between = x + width * rank / parts - 0.01, y, 0.02, height
            self._rectangle(axes, between, "white", "none", 0)

    def _message(self, axes: Axes, message: Message) -> None:
        schedule, number = self.film.schedule, message.operation
        points = self._way(number)
        axes.plot(
            *zip(*points, strict=True), color=ACCENT, linewidth=1.2, alpha=0.6, zorder=self.layer
        )
        ends = _on_way(points, 0.49), _on_way(points, 0.51)
        axes.add_patch(
            FancyArrowPatch(
                *ends,
                arrowstyle="-|>",
                mutation_scale=10,
                color=ACCENT,
                shrinkA=0,
                shrinkB=0,
                zorder=self.layer,
            )
        )
        x, y = _on_way(points, message.share)
        source, target = int(schedule.source[number]), int(schedule.target[number])
        if source < 0 or target < 0:
            axes.plot([x], [y], "o", color=ACCENT, markersize=5, zorder=self.layer)
            return
        into = self._box(self.film.slots.number[schedule.peer[number], target])
        self._rectangle(axes, into, "none", ACCENT, 2)
        if self.stage.card.columns == 1:
            sign = "+" if schedule.reduces[number] else "←"
            right, middle = into[0] + into[2] + 0.18, into[1] + into[3] / 2
            self._write(axes, sign, right, middle, 0.3, colour=ACCENT)
        carried = self.carried[number]
        _, _, width, height = self._box(self.film.slots.number[schedule.rank[number], source])
        self._lay(axes)
        for k in range(min(int(schedule.count[number]), 3) - 1, -1, -1):
            box = x - width / 2 + 0.06 * k, y - height / 2 - 0.06 * k, width, height
            self._fill(axes, carried, box, source) if not k else None
            self._rectangle(axes, box, "none" if not k else PANEL, ACCENT, 1.5)
        self._lay(axes)

    def _way(self, number: int) -> list[tuple[float, float]]:
        """The points that a message passes."""
        schedule, ends = self.film.schedule, list[tuple[float, float]]()
        sides = (schedule.rank, schedule.source), (schedule.peer, schedule.target)
        for ranks, slots in sides:
            rank, slot = int(ranks[number]), int(slots[number])
            if slot < 0:
                x, y = self.stage.ranks[rank].tolist()
            else:
                left, top, width, height = self._box(self.film.slots.number[rank, slot])
                x, y = left + width / 2, top + height / 2
            ends.append((x, y))
        route = int(self.film.timeline.routed.route[number])
        between = self.stage.ways[route] if schedule.remote[number] else ()
        return [ends[0], *between, ends[1]]

    def _corner(self, rank: int) -> tuple[float, float]:
        x, y = self.stage.ranks[rank].tolist()
        return x - self.stage.card.width / 2, y - self.stage.card.height / 2

    def _box(self, slot: int) -> Box:
        """Left, top, width and height of a slot."""
        card, slots = self.stage.card, self.film.slots
        left, top = self._corner(int(slots.rank[slot]))
        x, y = card.middle(int(slots.place[slot]))
        width, height = card.slot
        side = 0.36 if card.columns == 1 else 0.03
        return (
            left + x - width / 2 + side,
            top + y - height / 2 + 0.03,
            width - 2 * side,
            height - 0.06,
        )

    def _write(
        self,
        axes: Axes,
        text: str,
        x: float,
        y: float,
        size: float,
        *,
        colour: str = INK,
        align: str = "center",
    ) -> None:
        points = size * self.inch * 72
        if points >= 4:
            letters = axes.text(x, y, text, size=points, color=colour, parse_math=False)
            letters.set(ha=align, va="center", zorder=self.layer + 0.5)

    def _card(
        self,
        axes: Axes,
        corner: tuple[float, float],
        size: tuple[float, float],
        face: str,
        edge: str,
    ) -> None:
        style = "round,pad=0,rounding_size=0.1"
        patch = FancyBboxPatch(corner, *size, boxstyle=style, fc=face, ec=edge, linewidth=0.8)
        axes.add_patch(patch)

    def _rectangle(
        self, axes: Axes, box: Box, face: str, edge: str, width: float, style: str = "-"
    ) -> None:
        """Remember a rectangle: :meth:`_lay` draws all of them at once, which is far faster."""
        x, y, across, down = box
        corners = [(x, y), (x + across, y), (x + across, y + down), (x, y + down)]
        self.boxes.append(_Rectangle(corners, face, edge, width, style))

    def _lay(self, axes: Axes) -> None:
        """Draw the rectangles so far: what follows lies on top of them."""
        if self.boxes:
            corners, faces, edges, widths, styles = zip(*self.boxes, strict=True)
            laid = PolyCollection(
                corners, facecolors=faces, edgecolors=edges, linewidths=widths, linestyles=styles
            )
            laid.set_zorder(self.layer)
            axes.add_collection(laid, autolim=False)
        self.boxes.clear()
        self.layer += 1


def _on_way(points: list[tuple[float, float]], share: float) -> tuple[float, float]:
    """The point at a share of a way."""
    corners = np.array(points)
    reached = np.append(0.0, np.cumsum(np.hypot(*np.diff(corners, axis=0).T)))
    x, y = (float(np.interp(share * reached[-1], reached, axis)) for axis in corners.T)
    return x, y
