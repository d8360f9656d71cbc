"""Where the boxes of a timeline are drawn: a row for each rank, lanes within rows, bands within
lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.pictures.timelines.bars import Bars
from experiments.pictures.timelines.spans import Columns, Spans
from topologies.topology import Floats

HIGHEST = 11.5
"""Inches of all rows of a timeline, at most."""
NAMES = 32
"""At most this many ranks are named."""
LARGEST = 7.0
"""Height of letters in points, at most."""
ROW, LANE = 0.3, 0.14
"""Inches: the height of a row, and of each of its lanes below the first."""
THIN = 0.42
"""Height of a lane as a share of the main lane's."""
FULL, INK = 0.86, 0.92
"""Height of all lanes of a rank as a share of its row, and of a box as a share of its band."""
POINTS = 670
"""Approximate width of the time axis, in points."""


@dataclass(frozen=True, eq=False)
class Chart:
    """The boxes of a timeline, and where they are drawn."""

    spans: Spans
    bars: Bars
    thinned: Sequence[str]
    """Remarks on what is not drawn as it is."""
    seconds: float
    """What the time axis shows."""

    @cached_property
    def workers(self) -> int:
        """The first rows, which train."""
        rows = len(self.spans.rows)
        return rows if self.spans.workers is None else self.spans.workers

    @cached_property
    def idle(self) -> Columns:
        """The idle time of main lanes, with known causes."""
        columns = self.spans.columns
        chosen = self.spans.idle & (columns.cause >= 0) & (columns.lane == self.spans.main)
        return columns.take(chosen)

    @cached_property
    def tall(self) -> Floats:
        """The height of each lane of each row as a share of a row, shape (rows, lanes); 0 for
        lanes that are not drawn."""
        rows, main, used = np.arange(len(self.spans.rows)), self.spans.main, self.bars.columns
        lanes = np.arange(len(self.spans.lanes))
        weight = np.zeros((len(rows), len(lanes)))
        for serving in (False, True):
            group = (rows >= self.workers) == serving
            drawn = np.isin(lanes, used.lane[group[used.row]]) | ((lanes == main) & (not serving))
            full = (lanes == main) | (main < 0) | serving
            weight[group] = np.where(drawn, np.where(full, 1.0, THIN), 0.0)
        return np.asarray(FULL * weight / np.maximum(weight.sum(axis=1, keepdims=True), THIN))

    @cached_property
    def middle(self) -> Floats:
        """The vertical middle of each lane of each row, in rows: row 0 is centred at 0."""
        below = np.cumsum(self.tall, axis=1) - self.tall / 2 - FULL / 2
        return np.asarray(below + np.arange(len(self.tall))[:, None])

    @cached_property
    def boxes(self) -> tuple[Floats, Floats]:
        """The vertical middle and the height of each box."""
        row, lane, band = self.bars.columns.row, self.bars.columns.lane, self.bars.band
        depth = np.ones(self.tall.shape, dtype=np.int64)
        np.maximum.at(depth, (row, lane), band + 1)
        share = self.tall[row, lane] / depth[row, lane]
        top = self.middle[row, lane] - self.tall[row, lane] / 2
        return top + (band + 0.5) * share, share * INK

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of boxes, without idle time."""
        columns = self.bars.columns
        kinds = np.unique(columns.kind[columns.cause < 0]).tolist()
        return [self.spans.kinds[kind] for kind in kinds]

    @cached_property
    def inches(self) -> float:
        """The height of all rows together."""
        lanes = int((self.tall > 0).sum(axis=1).max(initial=1))
        return min((ROW + LANE * (lanes - 1)) * len(self.spans.rows), HIGHEST)

    @cached_property
    def every(self) -> int:
        """Only every so many ranks are named."""
        return -(-len(self.spans.rows) // NAMES)

    @cached_property
    def shares(self) -> Floats:
        """The share of the run for which each worker is idle."""
        columns = self.spans.columns
        idle = columns.take(self.spans.idle & (columns.lane == self.spans.main))
        seconds = np.bincount(idle.row, idle.end - idle.start, self.workers)
        return np.asarray(seconds / (self.spans.makespan or 1.0))

    def points(self, seconds: float) -> float:
        """The approximate width of a duration, in points."""
        return seconds * POINTS / self.seconds

    def letters(self, height: float) -> float:
        """The height, in points, of letters that fit into a box of this share of a row."""
        return min(LARGEST, 72 * self.inches / len(self.spans.rows) * height / 1.25)
