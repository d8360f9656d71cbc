"""Texts in boxes: those that fit, in letters that are legible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER, LARGEST, SMALLEST = 0.58, 7.0, 4.5
"""Width of a letter as a share of its height; heights in points, at most and at least."""
TEXT = "0.25"
"""The grey of texts beside boxes and on bubbles."""


def fitting(words: Sequence[str], points: float, size: float) -> str:
    """The first of the texts that fits into `points` in legible letters of this size, or ""."""
    fits = (word for word in words if word and len(word) * LETTER * size < points)
    return next(fits, "") if size >= SMALLEST else ""


def write(
    axes: Axes, x: float, y: float, text: str, size: float, colour: str, behind: str | None = None
) -> None:
    """Write a text centred at (x, y), and cover what is `behind` it with a colour."""
    if not text:
        return
    plain = text.replace("$", r"\$")
    written = axes.text(x, y, plain, ha="center", va="center_baseline", fontsize=size, color=colour)
    written.set(in_layout=False, clip_on=True)
    if behind:
        written.set_bbox({"facecolor": behind, "edgecolor": "none", "pad": 0.5})
