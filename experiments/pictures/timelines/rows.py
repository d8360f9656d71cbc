"""Where boxes are drawn: a row for each rank, lanes within rows, bands within lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.timelines.bars import Bars
from topologies.topology import Floats, Ints

FULL, INK = 0.86, 0.92
"""Height of all lanes of a rank as a share of its row, and of a box as a share of its band."""


class Lane(NamedTuple):
    """A lane of a row."""

    name: str
    height: float = 1.0
    """Its height, compared with that of other lanes."""


class Group(NamedTuple):
    """Rows with the same lanes."""

    rows: npt.NDArray[np.bool_]
    """Whether each row belongs to the group."""
    lanes: Mapping[int, Lane]
    """The lanes by their numbers. The one with the lowest number is at the top."""


class Places(NamedTuple):
    """Where boxes and lanes are drawn, in rows: row 0 is centred at 0, row 1 at 1."""

    middle: Floats
    """The vertical middle of each box."""
    height: Floats
    """The height of each box."""
    main_middle: Floats
    """The vertical middle of the top lane of each row."""
    main_height: Floats
    """The height of the top lane of each row."""
    lanes: Sequence[tuple[float, float, str]]
    """The middle, the height and the name of each lane of each row."""


def places_of(bars: Bars, ranks: Ints, groups: Sequence[Group]) -> Places:
    """Divide the rows of a group in one way. A lane of a row has as many bands as the row needs at
    once."""
    row = np.searchsorted(ranks, bars.boxes.rank)
    lane, band = bars.boxes.lane, bars.band
    depth = np.ones((len(ranks), int(lane.max(initial=0)) + 1), dtype=np.int64)
    np.maximum.at(depth, (row, lane), band + 1)
    middle, height = np.zeros(depth.shape), np.zeros(depth.shape)
    main, lanes = np.zeros((len(ranks), 2)), list[tuple[float, float, str]]()
    for rows, divided in groups:
        unit, top = FULL / sum(each.height for each in divided.values()), -FULL / 2
        for place, number in enumerate(sorted(divided)):
            name, weight = divided[number]
            centre, tall = top + weight * unit / 2, weight * unit
            if number < depth.shape[1]:
                middle[rows, number], height[rows, number] = centre, tall
            lanes += [(at + centre, tall, name) for at in np.flatnonzero(rows).tolist()]
            top += tall
            if place == 0:
                main[rows] = centre, tall
    share = height[row, lane] / depth[row, lane]
    at = row + middle[row, lane] - height[row, lane] / 2 + (band + 0.5) * share
    rows_at = np.arange(float(len(ranks)))
    return Places(at, share * INK, rows_at + main[:, 0], main[:, 1] * INK, lanes)


def corners_of(start: Floats, end: Floats, middle: Floats, height: Floats) -> Floats:
    """The corners of each box, shape (boxes, 4, 2)."""
    bottom, top = middle - height / 2, middle + height / 2
    x = np.stack((start, end, end, start), axis=1)
    return np.stack((x, np.stack((bottom, bottom, top, top), axis=1)), axis=2)
