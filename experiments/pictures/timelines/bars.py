"""The boxes of a picture of spans: no more than the eye can tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.timelines.spans import MESSAGES, Columns, Flags, Spans, united
from topologies.topology import Floats, Ints

PIXELS = 1400
"""Approximate width of the time axis."""
SEAM = 6
"""Boxes of at least this many pixels have edges. Narrower neighbours of one kind become one box."""
THINNEST = 1.6
"""Pixels of the thinnest box, which are 0.75 points: others are drawn wider than they are."""
BOXES = 200_000
"""At most this many boxes are drawn."""


class Bars(NamedTuple):
    """Spans as they are drawn, a row for each."""

    columns: Columns
    band: npt.NDArray[np.int64]
    """The band of its lane on which each is drawn."""
    hidden: Flags
    """Whether it is communication that computations hide."""
    whole: Flags
    """Whether it begins and ends what it shows, shape (boxes, 2)."""

    def take(self, chosen: npt.NDArray[Any]) -> Bars:
        """Some of the boxes."""
        band, hidden, whole = (column[chosen] for column in self[1:])
        return Bars(self.columns.take(chosen), band, hidden, whole)

    def united(self, joined: Flags) -> Bars:
        """Boxes as one with the box behind them where `joined` says so."""
        first = np.flatnonzero(np.append(True, ~joined)[: len(self.band)])
        return self.take(first)._replace(columns=united(self.columns, joined))


def look_of(spans: Spans, columns: Columns) -> Ints:
    """What is drawn alike has one number: a kind, or behind all kinds a cause."""
    return np.where(columns.cause >= 0, len(spans.kinds) + columns.cause, columns.kind)


def bars_of(spans: Spans) -> tuple[Bars, list[str]]:
    """The boxes of all spans but of the idle time of the main lane, and remarks on what is not
    drawn as it is.

    Communication is cut where its rank begins or ends to compute. Neighbours of one kind that
    touch become one box if both are narrow, or if most boxes of their kind are. The thinnest boxes
    are widened. Of too many, the longest are drawn.
    """
    columns, main, pixel = spans.columns, spans.main, (spans.makespan or 1.0) / PIXELS
    drawn = ~(spans.idle & (columns.lane == main)) if main >= 0 else columns.row >= 0
    if main >= 0 and MESSAGES in spans.lanes:
        drawn &= columns.lane != list(spans.lanes).index(MESSAGES)
    bars = _arranged(spans, columns.take(drawn), pixel)
    if main >= 0:
        columns, workers = bars.columns, len(spans.rows) if spans.workers is None else spans.workers
        talks = (columns.lane != main) & (columns.nbytes > 0) & (columns.row < workers)
        busy = joined_times(columns.take(columns.lane == main), 1e-9 * spans.makespan)
        bars = with_hidden(bars, talks, busy, THINNEST * pixel)
    bars, remarks = _widened(spans, bars, THINNEST * pixel), []
    if (bars.columns.members > 1).any():
        remarks.append("narrow neighbours of one kind are drawn as one")
    if len(bars.band) > BOXES:
        remarks.append(f"the longest {BOXES} of {len(bars.band)} boxes are drawn")
        length = bars.columns.start - bars.columns.end
        bars = bars.take(np.sort(np.argsort(length, kind="stable")[:BOXES]))
    return bars, remarks


def _arranged(spans: Spans, columns: Columns, pixel: float) -> Bars:
    """Boxes that overlap on different bands; narrow neighbours as one."""
    band = spans.bands(columns)
    order = np.lexsort((columns.start, band, columns.lane, columns.row))
    columns, band = columns.take(order), band[order]
    look = look_of(spans, columns)
    narrow = columns.end - columns.start < SEAM * pixel
    for number in np.unique(look):
        narrow |= (look == number) & (np.median(narrow[look == number]) > 0)
    joined = narrow[1:] & narrow[:-1]
    joined &= columns.start[1:] <= columns.end[:-1] + 1e-9 * spans.makespan
    for column in (columns.row, columns.lane, band, look):
        joined &= column[1:] == column[:-1]
    whole = np.ones((len(band), 2), dtype=np.bool_)
    return Bars(columns, band, np.zeros(len(band), dtype=np.bool_), whole).united(joined)


def _widened(spans: Spans, bars: Bars, least: float) -> Bars:
    """Give every box that is not of idle time the least width, and join those of one kind that
    overlap then."""
    columns = bars.columns
    thin = (columns.end - columns.start < least) & (columns.cause < 0)
    start = np.where(thin, (columns.start + columns.end - least) / 2, columns.start)
    start = np.where(thin, np.clip(start, 0.0, max(spans.makespan - least, 0.0)), start)
    columns = columns._replace(start=start, end=np.where(thin, start + least, columns.end))
    joined = thin[1:] & thin[:-1] & (start[1:] < columns.end[:-1])
    for column in (columns.row, columns.lane, bars.band, look_of(spans, columns), bars.hidden):
        joined &= column[1:] == column[:-1]
    return bars._replace(columns=columns).united(joined)


def joined_times(columns: Columns, slack: float) -> dict[int, Floats]:
    """When some span of each row lasts, shape (2, n): intervals in order that are further apart
    than `slack`."""
    times = {}
    for row in np.unique(columns.row).tolist():
        mine = np.flatnonzero(columns.row == row)
        mine = mine[np.argsort(columns.start[mine], kind="stable")]
        start, until = columns.start[mine], np.maximum.accumulate(columns.end[mine])
        begins = np.append(True, start[1:] > until[:-1] + slack)
        times[row] = np.stack((start[begins], until[np.append(begins[1:], True)]))
    return times


def with_hidden(bars: Bars, talks: Flags, busy: Mapping[int, Floats], least: float) -> Bars:
    """Cut communications where their rank begins or ends to compute.

    `talks` says which boxes communicate, and `busy` when each row computes, shape (2, n), as
    intervals in order that do not touch. A piece that would be narrower than `least` seconds goes
    with the rest of its box, and a whole box that is narrower is what most of it is.
    """
    owner, pieces = list[int](), list[tuple[float, float, bool]]()
    columns = bars.columns
    rows = zip(columns.row.tolist(), columns.start.tolist(), columns.end.tolist(), strict=True)
    for place, (row, start, end) in enumerate(rows):
        stretches = [(start, end, False)]
        if talks[place] and row in busy:
            stretches = _pieces(start, end, busy[row], least)
        owner += [place] * len(stretches)
        pieces += stretches
    start, end, hidden = np.array(pieces, dtype=np.float64).reshape(-1, 3).T
    same = np.diff(owner, prepend=-1, append=len(talks)) == 0
    cut = bars.take(np.array(owner, dtype=np.int64))
    return cut._replace(
        columns=cut.columns._replace(start=start, end=end),
        hidden=hidden > 0,
        whole=~np.stack((same[:-1], same[1:]), axis=1),
    )


def _pieces(
    start: float, end: float, busy: Floats, least: float
) -> list[tuple[float, float, bool]]:
    """Begin, end and whether it is hidden, of the pieces of a box."""
    low, high = np.searchsorted(busy[1], start, side="right"), np.searchsorted(busy[0], end)
    inside = np.clip(busy[:, low:high], start, end).T.ravel().tolist()
    if end - start < least:
        covered = sum(inside[1::2]) - sum(inside[::2])
        return [(start, end, bool(2 * covered > end - start))]
    pieces = list[tuple[float, float, bool]]()
    for place, (begin, until) in enumerate(pairwise([start, *inside, end])):
        covered = place % 2 == 1
        if until - begin < least and pieces:
            pieces[-1] = pieces[-1][0], until, pieces[-1][2]
        elif pieces and (pieces[-1][2] == covered or pieces[-1][1] - pieces[-1][0] < least):
            pieces[-1] = pieces[-1][0], until, covered
        elif until > begin:
            pieces.append((begin, until, covered))
    return pieces or [(start, end, False)]
