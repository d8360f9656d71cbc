"""The colours of ranks in animations, safe for colour-blind readers."""

from __future__ import annotations

BASE = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7"),
    *("#56b4e9", "#d55e00", "#f0e442", "#8a8f98"),
)
"""After Okabe and Ito: a colour for each of eight ranks."""
SHADES = ((255, 0.45), (0, 0.35), (255, 0.72))
"""For further ranks: mixed with white (255) or black (0), and how much of it."""


def rank_colours(count: int) -> list[str]:
    """A colour for each rank. From the ninth on they are shades of the first eight."""
    colours = [*BASE, *(_mixed(colour, *shade) for shade in SHADES for colour in BASE)]
    return [colours[rank % len(colours)] for rank in range(count)]


def _mixed(colour: str, ground: int, share: float) -> str:
    parts = bytes.fromhex(colour[1:])
    return f"#{bytes(round(v * (1 - share) + ground * share) for v in parts).hex()}"
