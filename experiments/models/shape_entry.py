"""A shape with the length of its sequences, as the catalogue and config.json files give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from experiments.models.model_shapes import Shape
from experiments.models.shape_options import MOST, changed, describe, parse_size

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

    @property
    def options(self) -> dict[str, str]:
        """What each option is for, with its default."""
        return {"seq": f"tokens of a sequence, 1 to {self.most} [{self.seq}]"} | describe(
            self.shape
        )

    def parse_option(self, name: str, key: str, text: str) -> int:
        """The value of an option of the model `name`. Raises InputError if it is out of range."""
        return parse_size(name, key, text, 1, self.most if key == "seq" else MOST[key])

    def with_options(self, values: Mapping[str, int]) -> tuple[Shape, int]:
        """The shape and the tokens of a sequence with the options in `values`.

        Raises InputError for heads that do not divide.
        """
        seq = values.get("seq", self.seq)
        return changed(self.shape, values, seq if self.stretched else 0), seq
