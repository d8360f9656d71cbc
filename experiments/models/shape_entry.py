"""A shape with the length of its sequences, as the catalogue and config.json files give it."""

from __future__ import annotations

from typing import NamedTuple

from experiments.models.model_shapes import Shape

LONGEST = 131072
"""Tokens of the longest sequence, where no table of positions ends earlier."""


class Entry(NamedTuple):
    """A shape that is shipped."""

    shape: Shape
    seq: int
    """Tokens of a sequence, unless an option says otherwise."""
    source: str
    """Where its figures are published."""
    stretched: bool = False
    """Whether the table of positions has as many rows as a sequence has tokens, as in a training
    from scratch."""

    @property
    def most(self) -> int:
        """Tokens of the longest sequence."""
        return self.shape.positions if self.shape.positions and not self.stretched else LONGEST
