"""Draws a film with matplotlib: at one moment, as a GIF, or as an SVG for each step."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import pairwise

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import BoxStyle, Patch
from matplotlib.path import Path
from matplotlib.textpath import TextPath

from experiments.animation import film as films
from experiments.animation.film import Act, Canvas, Film, Look, TimedShape
from experiments.pictures.figures import to_bytes
from experiments.pictures.timelines.palette import ink_on
from topologies.errors import InputError
from topologies.topology import Floats
from topologies.units import format_bytes, format_seconds

PIXEL, WIDEST, NARROWEST, BORDER = 0.0082, 9.0, 6.5, 0.08
"""Inches: of a pixel of the page, of the width of a picture, and to its left and right."""
HEAD, FOOT = 1.05, 0.75
"""Inches of the text above the shapes, and of the legend below them."""
LIGHT = {
    films.INK: "#1b1f24",
    films.QUIET: "#57606a",
    films.RULE: "#d0d7de",
    films.PANEL: "#f5f6f8",
    films.GROUND: "#ffffff",
    films.ACCENT: "#0b63b0",
}
"""The colours of a light page, as in page.css."""
LETTERS, FIT, LEAST = 0.75, 1.3, 4.2 / 72
"""The height of letters in that of a box; that of a letter in its width; and the least size that
people can read, in inches."""
WORDS: Mapping[str, Callable[[float], str]] = {
    "seconds": format_seconds,
    "bytes": lambda nbytes: format_bytes(nbytes, True),
    "rate": lambda rate: f"{rate / 1e9:.4g} GB/s" if rate else "none",
    "share": "{:.1%}".format,
    "count": "{:.3g}".format,
}
"""How values of each unit are written."""
SQUARE, ROUND = BoxStyle.Square(pad=0.0), BoxStyle.Round(pad=0.0, rounding_size=0.06)


def figure(film: Film, act: Act, moment: float) -> Figure:
    """What an act shows at a moment."""
    layout = film.layouts[0]
    inch = min(layout.unit * PIXEL, WIDEST / layout.width)
    margin, foot = layout.margin * PIXEL, FOOT if film.legend else 0.0
    width, height = layout.width * inch + margin, layout.height * inch
    size = max(width + 2 * BORDER, NARROWEST), HEAD + height + foot
    result = Figure(figsize=size, facecolor="white")
    left = (1 - width / size[0]) / 2
    axes = result.add_axes((left, foot / size[1], 1 - 2 * left, height / size[1]))
    axes.set(xlim=(-margin, width - margin), ylim=(height, 0))
    axes.set_axis_off()
    axes.add_collection(drawn(layout, act.visible(moment), moment, inch), autolim=False)
    _head(result, act, moment)
    keys = [Patch(color=key.colour, label=f"{key.name} {key.sign}".strip()) for key in film.legend]
    if keys:
        result.legend(handles=keys, loc="lower center", ncols=5, frameon=False, fontsize=7.5)
    return result


def drawn(
    layout: Canvas, shapes: Iterable[TimedShape], moment: float, inch: float
) -> PathCollection:
    """Shapes at a moment, in inches; those on their way lie on all others."""
    brush, boxes, on_way = Brush(), layout.boxes * inch, list[tuple[Look, Floats]]()
    for shape in shapes:
        look, box, goal = shape.look, boxes[shape.place], boxes[shape.goal]
        if shape.goal < 0:
            brush.box(look, box)
            continue
        between = layout.ways[shape.way] if shape.way >= 0 else ()
        passed = (np.array(point) * inch for point in between)
        points = np.array([box[:2] + box[2:] / 2, *passed, goal[:2] + goal[2:] / 2])
        if look.style in ("line", "arrow"):
            brush.line(look, points)
            continue
        arrived = moment >= shape.arrival
        share = 1.0 if arrived else (moment - shape.begin) / (shape.arrival - shape.begin)
        size = (1 - share) * box[2:] + share * goal[2:]
        moved = np.append(_on_way(points, share) - size / 2, size)
        if arrived:
            brush.box(look, moved)
        else:
            on_way.append((look, moved))
    for look, box in on_way:
        brush.box(look, box)
    return brush.drawn()


def _head(result: Figure, act: Act, moment: float) -> None:
    width, height = result.get_size_inches()
    step, failed = act.step(moment), act.wrong and moment >= act.end
    title = textwrap.shorten(act.titles[step], 70)
    head = result.text(0.02, 1 - 0.1 / height, title, size=12, va="top", parse_math=False)
    head.set_fontweight("bold")
    lines = textwrap.wrap(act.wrong if failed else act.sentences[step], int(width * 14))[:3]
    colour = films.ALARM if failed else LIGHT[films.INK]
    result.text(0.02, 1 - 0.34 / height, "\n".join(lines), size=8.5, va="top", color=colour)
    words = [f"{each.name} {WORDS[each.unit](each.at(moment))}" for each in act.figures]
    if (total := act.figures[0].total) is not None:
        # There is no room for the totals of others.
        words[0] += f" of {WORDS[act.figures[0].unit](total)}"
    place, quiet = 1 - (HEAD - 0.05) / height, LIGHT[films.QUIET]
    result.text(0.02, place, "    ".join(words), size=8, va="bottom", color=quiet)


class Brush:
    """Collects outlines of boxes, lines and letters, and draws all at once, which is far faster.
    Lengths are inches."""

    def __init__(self) -> None:
        self.outlines = list[Path]()
        self.styles = list[tuple[str, str, float, str]]()

    def drawn(self) -> PathCollection:
        """What has been collected, the first at the bottom."""
        faces, edges, widths, dashes = zip(*self.styles, strict=True)
        every = list(dashes) if "--" in dashes else "-"
        return PathCollection(
            self.outlines, facecolors=faces, edgecolors=edges, linewidths=widths, linestyles=every
        )

    def line(self, look: Look, points: Floats) -> None:
        """A line, or the course of something with an arrow in its middle."""
        colour = LIGHT[look.edge]
        faint = "99" if look.style == "arrow" else ""
        self._outline(Path(points), "", colour + faint, look.width)
        if look.style == "arrow":
            middle = _on_way(points, 0.5)
            ahead = middle - _on_way(points, 0.49)
            turn = np.arctan2(ahead[1], ahead[0]) + np.array([0.0, 2.5, -2.5])
            tip = middle + 0.055 * np.stack((np.cos(turn), np.sin(turn)), axis=1)
            self._outline(Path(tip), colour)

    def box(self, look: Look, box: Floats) -> None:
        """A box with its stripes and texts."""
        x, y, width, height = box.tolist()
        # A box is a pixel of a GIF wide at least.
        width = max(width, 0.0125) if look.fill else width
        outline = (ROUND if look.style == "round" else SQUARE)(x, y, width, height, 1.0)
        for k in range(look.copies - 1, 0, -1):
            behind = SQUARE(x + 0.04 * k, y - 0.04 * k, width, height, 1.0)
            self._outline(behind, films.PANEL, look.edge, look.width)
        self._outline(outline, look.fill)
        part, size, middle = width / look.parts, _size(height), y + height / 2
        for place, colour, text in look.stripes:
            left = x + place * part
            self._outline(SQUARE(left, y, part, height, 1.0), colour)
            self._fitting(text, (left, y, part, height), ink_on(colour))
        for k in range(1, look.parts if part > 0.06 else 1):
            self._outline(SQUARE(x + k * part - 0.006, y, 0.012, height, 1.0), films.GROUND)
        self._outline(outline, "", look.edge, look.width, "--" if look.style == "dashed" else "-")
        readable = ink_on(LIGHT.get(look.fill, look.fill)) if look.fill else films.INK
        if look.style == "left":
            self._write(look.text, x, middle, size, films.INK, 0.0)
        else:
            self._fitting(look.text, (x, y, width, height), look.ink or readable)
        self._write(look.before, x - 0.55 * height, middle, size, films.QUIET)
        right, larger = x + width + 0.6 * height, max(1.2 * size, LEAST)
        self._write(look.after, right, middle, larger, look.ink or films.INK)

    def _fitting(self, text: str, box: tuple[float, float, float, float], ink: str) -> None:
        """A text in the middle of a box, or its first word, as large as it fits."""
        x, y, width, height = box
        for words in (text, text.partition(" ")[0]):
            size = min(_size(height), width / max(1, len(words)) * FIT)
            if size >= LEAST:
                self._write(words, x + width / 2, y + height / 2, size, ink)
                return

    def _write(
        self, text: str, x: float, y: float, size: float, ink: str, before: float = 0.5
    ) -> None:
        """A text with a share of its width to the left of x."""
        if text and size >= LEAST:
            letters, width = _letters(text)
            corners = np.asarray(letters.vertices) * (size, -size) + (x - before * width * size, y)
            self._outline(Path(corners, letters.codes), ink)

    def _outline(
        self, outline: Path, fill: str, edge: str = "", width: float = 0.0, dashes: str = "-"
    ) -> None:
        if fill or edge:
            face, line = (LIGHT.get(colour, colour) or "none" for colour in (fill, edge))
            self.outlines.append(outline)
            self.styles.append((face, line, width * 0.7, dashes))


def _size(height: float) -> float:
    """The size of letters in a box: they fill a small box."""
    return max(height * LETTERS, min(height, LEAST))


@cache
def _letters(text: str) -> tuple[Path, float]:
    """The outline of letters of size 1, digits half above 0 and half below, and their width."""
    letters, digit = (TextPath((0, 0), each, size=1) for each in (text, "0"))
    height, ends = digit.get_extents().height, letters.get_extents()
    return Path(np.asarray(letters.vertices) - (ends.x0, height / 2), letters.codes), ends.width


def _on_way(points: Floats, share: float) -> Floats:
    reached = np.append(0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T)))
    return np.array([np.interp(share * reached[-1], reached, axis) for axis in points.T])


MOST_BYTES = 5_000_000
"""The size of a GIF, at most."""
DPI = 80


def gif(film: Film) -> tuple[bytes, int]:
    """The film as a GIF, and the number of its frames.

    It has fewer frames a step where it would be larger than :data:`MOST_BYTES`. Raises InputError
    if it is too large even so.
    """
    stops, part = _stops(film), film.acts[-1].part
    # Frames of a step: as many as fit into the size.
    for detail in (6, 4, 3, 2, 1):
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
        duration=[film.pause if moment in stops else 130 for moment in moments],
        loop=0,
    )
    return file.getvalue()
