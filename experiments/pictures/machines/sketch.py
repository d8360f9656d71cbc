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
    """Places of the devices to draw. Lengths are in columns."""

    devices: Numbers
    """The number of each device in the topology."""
    places: Floats
    """The centre of each device, shape (devices, 2)."""
    widths: Floats
    """The width of each device."""
    curves: Mapping[Pair, Floats] = {}
    """The curved links: from two places in `devices` to the four points of a Bézier curve. Others
    are straight."""
    frames: tuple[Frame, ...] = ()
    """The boxes round nodes."""
    dots: tuple[tuple[float, float], ...] = ()
    """Where devices are left out."""
    left_out: tuple[str, ...] = ()
    """Which devices are left out."""
    rows: bool = False
    """Whether links between rows run from top to bottom."""


class Sketch(NamedTuple):
    """The devices to draw. They have numbers of their own, from 0 on."""

    devices: Numbers
    """The number of each device in the topology."""
    kinds: list[str]
    """The kind of each device."""
    nodes: list[int]
    """The node of each device."""
    place: list[int]
    """The place of each device in the lowest row, drawn or not; -1 in other rows."""
    pairs: list[Pair]
    """The pairs of devices with a link."""

    def only(self, devices: list[int]) -> Sketch:
        """The part of the sketch with some devices."""
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
