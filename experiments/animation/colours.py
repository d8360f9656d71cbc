"""The colours of ranks in animations, safe for colour-blind readers."""

from __future__ import annotations

from matplotlib.colors import to_hex, to_rgb

BASE = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#f0e442",
    "#8a8f98",
)
"""After Okabe and Ito: a colour for each of eight ranks."""
SHADES = ((1.0, 0.45), (0.0, 0.35), (1.0, 0.72))
"""For further ranks: mixed with white (1) or black (0), and how much of it."""


def rank_colours(count: int) -> list[str]:
    """A colour for each rank. From the ninth on they are shades of the first eight."""
    colours = list(BASE)
    for ground, share in SHADES:
        for colour in BASE:
            red, green, blue = (v * (1 - share) + ground * share for v in to_rgb(colour))
            colours.append(to_hex((red, green, blue)))
    return [colours[rank % len(colours)] for rank in range(count)]
