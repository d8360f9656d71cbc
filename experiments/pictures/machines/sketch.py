"""What is drawn of a machine, before and after it has places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from topologies.topology import Floats

Numbers = npt.NDArray[np.int64]
Pair = tuple[int, int]
Item = TypeVar("Item")


class Frame(NamedTuple):
    """The box round a node."""

    node: int
    left: float
    bottom: float
    right: float
    top: float


class Layout(NamedTuple):
    """Device `devices[k]` has its centre at `places[k]`, shape (devices, 2), and is `widths[k]`
    wide, in columns.

    Links go straight, or by `curves`: from two places in `devices` to the four points of a Bézier
    curve. `dots` are where devices are left out, `left_out` says which. With `rows` links between
    rows run from top to bottom.
    """

    devices: Numbers
    places: Floats
    widths: Floats
    curves: Mapping[Pair, Floats] = {}
    frames: tuple[Frame, ...] = ()
    dots: tuple[tuple[float, float], ...] = ()
    left_out: tuple[str, ...] = ()
    rows: bool = False


class Sketch(NamedTuple):
    """What is drawn, by numbers of its own: `pairs` of them have a link; `place` counts the devices
    of the lowest row, drawn or not, and is -1 for others."""

    devices: Numbers
    kinds: list[str]
    nodes: list[int]
    place: list[int]
    pairs: list[Pair]

    def only(self, devices: list[int]) -> Sketch:
        """A part of it."""
        number = {old: new for new, old in enumerate(devices)}
        return Sketch(
            self.devices[devices],
            [self.kinds[k] for k in devices],
            [self.nodes[k] for k in devices],
            [self.place[k] for k in devices],
            [
                (number[first], number[second])
                for first, second in self.pairs
                if first in number and second in number
            ],
        )


def ends(row: list[Item], count: int) -> list[Item]:
    """The first and the last, `count` together or all.

    >>> ends([0, 1, 2, 3, 4], 3)
    [0, 1, 4]
    """
    return row if len(row) <= count else row[: count - count // 2] + row[len(row) - count // 2 :]
