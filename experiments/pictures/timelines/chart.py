"""Where the boxes of a picture of spans are drawn: a row for each rank, lanes within rows, bands
within lanes; and no more boxes than the eye can tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.pictures.timelines.spans import MESSAGES, Columns, Spans, busy_times
from topologies.topology import Floats, Ints, Longs

PIXELS = 1400
"""Approximate width of the time axis."""
SEAM = 6
"""Boxes of at least this many pixels have edges. Narrower neighbours of one kind become one box."""
THINNEST = 1.6
"""Pixels of the thinnest box, which are 0.75 points: others are drawn wider than they are."""
THIN = 0.42
"""Height of a lane as a share of the main lane's."""
FULL, INK = 0.86, 0.92
"""Height of all lanes of a rank as a share of its row, and of a box as a share of its band."""


def look_of(spans: Spans, columns: Columns) -> Ints:
    """What is drawn alike has one number: a kind, or behind all kinds a cause."""
    return np.where(columns.cause >= 0, len(spans.kinds) + columns.cause, columns.kind)


def boxes_of(spans: Spans) -> tuple[Columns, Longs, list[str]]:
    """The boxes of all spans, the band of its lane on which each is drawn, and remarks on what is
    not drawn as it is.

    Neighbours of one kind that touch become one box if both are narrow, or if most boxes of their
    kind are.
    """
    columns, pixel = spans.columns, (spans.makespan or 1.0) / PIXELS
    if spans.main >= 0 and MESSAGES in spans.lanes:
        columns = columns.take(columns.lane != list(spans.lanes).index(MESSAGES))
    band = spans.bands(columns)
    order = np.lexsort((columns.start, band, columns.lane, columns.row))
    columns, band = columns.take(order), band[order]
    look = look_of(spans, columns)
    narrow = columns.end - columns.start < SEAM * pixel
    for number in np.unique(look):
        narrow |= (look == number) & (np.median(narrow[look == number]) > 0)
    joined = narrow[1:] & narrow[:-1] & columns.alike("row", "lane")
    joined &= columns.start[1:] <= columns.end[:-1] + 1e-9 * spans.makespan
    joined &= (band[1:] == band[:-1]) & (look[1:] == look[:-1])
    columns, band = columns.united(joined), band[np.append(True, ~joined)[: len(band)]]
    remarks = ["narrow neighbours of one kind are drawn as one"]
    return columns, band, remarks * bool(joined.any())


@dataclass(frozen=True, eq=False)
class Chart:
    """The boxes of a timeline, and where they are drawn."""

    spans: Spans
    columns: Columns
    """The boxes, as wide as what they stand for."""
    band: Longs
    """The band of its lane on which each is drawn."""
    remarks: list[str]
    """Sentences on boxes that are not drawn as they are."""
    seconds: float
    """The length of the time axis."""

    @cached_property
    def boxes(self) -> Columns:
        """All boxes; those that are not of idle time have the least width."""
        columns, least = self.columns, THINNEST * (self.spans.makespan or 1.0) / PIXELS
        thin = (columns.end - columns.start < least) & (columns.cause < 0)
        start = np.where(thin, (columns.start + columns.end - least) / 2, columns.start)
        start = np.where(thin, np.clip(start, 0.0, max(self.seconds - least, 0.0)), start)
        return columns._replace(start=start, end=np.where(thin, start + least, columns.end))

    @cached_property
    def hidden(self) -> tuple[Ints, Columns]:
        """The parts of communications that computations of their rank hide, and the box of each."""
        columns, boxes, main = self.columns, self.boxes, self.spans.main
        computes = (columns.lane == main) & (columns.cause < 0)
        # Rounding errors between two computations expose nothing.
        slack, work = 1e-9 * self.spans.makespan, columns.take(computes)
        busy = busy_times(work._replace(end=work.end + slack))
        talks = (columns.lane != main) & (columns.nbytes > 0) & (columns.row < self.workers)
        owner, pieces = list[int](), [np.zeros((2, 0))]
        for k in np.flatnonzero(talks & (main >= 0)).tolist():
            times = busy.get(int(columns.row[k]), np.zeros((2, 0)))
            low = np.searchsorted(times[1], boxes.start[k] + slack, side="right")
            high = np.searchsorted(times[0], boxes.end[k])
            inside = np.clip(times[:, low:high], boxes.start[k], boxes.end[k])
            owner += [k] * inside.shape[1]
            pieces.append(inside)
        start, end = np.hstack(pieces)
        place = np.array(owner, dtype=np.int32)
        return place, columns.take(place)._replace(start=start, end=end)

    @cached_property
    def workers(self) -> int:
        """The first rows, which train."""
        rows = len(self.spans.rows)
        return rows if self.spans.workers is None else self.spans.workers

    @cached_property
    def tall(self) -> Floats:
        """The height of each lane of each row as a share of a row, shape (rows, lanes); 0 for
        lanes that are not drawn."""
        rows, main, used = np.arange(len(self.spans.rows)), self.spans.main, self.boxes
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
    def heights(self) -> tuple[Floats, Floats]:
        """The vertical middle and the height of each box."""
        boxes, band, depth = self.columns, self.band, np.ones(self.tall.shape, dtype=np.int64)
        place = boxes.row, boxes.lane
        np.maximum.at(depth, place, band + 1)
        share = self.tall[place] / depth[place]
        top = self.middle[place] - self.tall[place] / 2
        return top + (band + 0.5) * share, share * INK

    @cached_property
    def inches(self) -> float:
        """The height of all rows together: of a lane, and of further lanes of a row."""
        lanes = int((self.tall > 0).sum(axis=1).max(initial=1))
        return min((0.3 + 0.14 * (lanes - 1)) * len(self.spans.rows), 11.5)

    @cached_property
    def every(self) -> int:
        """Only every so many ranks are named."""
        return -(-len(self.spans.rows) // 32)
