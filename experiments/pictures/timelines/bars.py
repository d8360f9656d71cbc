"""The boxes of a picture: no more than the eye can tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.timelines.tracks import Boxes, bands
from simulator.schedules.timeline import Timeline
from topologies.topology import Floats

PIXELS = 1400
"""Approximate width of the time axis."""
SEAM = 6
"""Boxes of at least this many pixels have edges. Narrower neighbours of one kind become one box."""
THINNEST = 1.6
"""Pixels of the thinnest box, which are 0.75 points: others are drawn wider than they are."""
BOXES = 200_000
"""At most this many boxes are drawn."""


class Bars(NamedTuple):
    """Boxes as they are drawn."""

    boxes: Boxes
    band: npt.NDArray[np.int64]
    """The band of its lane on which each box is drawn."""
    several: npt.NDArray[np.bool_]
    """Whether a box stands for several neighbours of one kind."""
    hidden: npt.NDArray[np.bool_]
    """Whether a box is communication that computations hide."""
    whole: npt.NDArray[np.bool_]
    """Whether a box begins and ends what it shows, shape (boxes, 2)."""
    kinds: Sequence[str]
    """The kind of each phase. All boxes of a kind have one colour and one line in the legend."""

    def wide(self, timeline: Timeline) -> npt.NDArray[np.bool_]:
        """Whether each box has edges."""
        return np.asarray(self.boxes.end - self.boxes.start >= SEAM * timeline.makespan / PIXELS)

    def take(self, chosen: npt.NDArray[Any]) -> Bars:
        """Some of the boxes."""
        band, several, hidden, whole = (column[chosen] for column in self[1:5])
        return Bars(self.boxes.take(chosen), band, several, hidden, whole, self.kinds)


def thinnest(timeline: Timeline) -> float:
    """Seconds as wide as the thinnest box."""
    return THINNEST * timeline.makespan / PIXELS


def arranged(boxes: Boxes, timeline: Timeline, kinds: Sequence[str]) -> Bars:
    """Put boxes that overlap on different bands, and join narrow neighbours.

    Neighbours of one kind that touch become one box if both are narrow, or if most boxes of their
    kind are.
    """
    slack, seam = 1e-9 * timeline.makespan, SEAM * timeline.makespan / PIXELS
    lane = boxes.rank.astype(np.int64) * (int(boxes.lane.max(initial=0)) + 1) + boxes.lane
    band = bands(lane, boxes.start, boxes.end - slack)
    order = np.lexsort((boxes.start, band, lane))
    boxes, band, lane = boxes.take(order), band[order], lane[order]
    kind = np.unique(kinds, return_inverse=True)[1][boxes.phase]
    narrow = boxes.end - boxes.start < seam
    for number in np.unique(kind):
        narrow |= (kind == number) & (np.median(narrow[kind == number]) > 0)
    joined = (lane[1:] == lane[:-1]) & (band[1:] == band[:-1]) & (kind[1:] == kind[:-1])
    joined &= narrow[1:] & narrow[:-1] & (boxes.start[1:] <= boxes.end[:-1] + slack)
    first = np.flatnonzero(np.append(True, ~joined)[: len(lane)])
    last = np.append(first[1:], len(lane))[: len(first)] - 1
    plain = np.zeros(len(first), dtype=np.bool_)
    whole = np.ones((len(first), 2), dtype=np.bool_)
    boxes = boxes.take(first)._replace(end=boxes.end[last])
    return Bars(boxes, band[first], last > first, plain, whole, kinds)


def widened(bars: Bars, timeline: Timeline) -> Bars:
    """Give every box the least width, and join those of one kind that overlap then."""
    boxes, least = bars.boxes, thinnest(timeline)
    thin = boxes.end - boxes.start < least
    start = np.where(thin, (boxes.start + boxes.end - least) / 2, boxes.start)
    start = np.where(thin, np.clip(start, 0.0, timeline.makespan - least), start)
    boxes = boxes._replace(start=start, end=np.where(thin, start + least, boxes.end))
    kind = np.unique(bars.kinds, return_inverse=True)[1][boxes.phase]
    joined = thin[1:] & thin[:-1] & (start[1:] < boxes.end[:-1])
    for column in (boxes.rank, boxes.lane, bars.band, kind, bars.hidden):
        joined &= column[1:] == column[:-1]
    first = np.flatnonzero(np.append(True, ~joined)[: len(start)])
    last = np.append(first[1:], len(start))[: len(first)] - 1
    wide = bars._replace(boxes=boxes).take(first)
    wide = wide._replace(boxes=wide.boxes._replace(end=boxes.end[last]))
    return wide._replace(several=wide.several | (last > first))


def longest(bars: Bars) -> tuple[Bars, list[str]]:
    """At most 200,000 boxes, the longest, and remarks on what is not drawn as it is."""
    boxes, remarks = bars.boxes, []
    if bars.several.any():
        remarks.append("narrow neighbours of one kind are drawn as one")
    if len(boxes.rank) <= BOXES:
        return bars, remarks
    chosen = np.sort(np.argsort(boxes.start - boxes.end, kind="stable")[:BOXES])
    remarks.append(f"the longest {BOXES} of {len(boxes.rank)} boxes are drawn")
    return bars.take(chosen), remarks


def with_hidden(
    bars: Bars, talking: npt.NDArray[np.bool_], busy: Mapping[int, Floats], least: float
) -> Bars:
    """Cut communications where their rank begins or ends to compute.

    `talking` says which boxes communicate, and `busy` when each rank computes, shape (2, n), as
    intervals in order that do not touch. A piece that would be narrower than `least` seconds goes
    with the rest of its box, and a whole box that is narrower is what most of it is.
    """
    owner, starts, ends, hidden = list[int](), list[float](), list[float](), list[bool]()
    rank, start, end = (column.tolist() for column in (bars.boxes.rank, *bars.boxes[2:4]))
    for row, talks in enumerate(talking.tolist()):
        pieces = [(start[row], end[row], False)]
        if talks and rank[row] in busy:
            pieces = _pieces(start[row], end[row], busy[rank[row]], least)
        for begin, until, covered in pieces:
            owner.append(row)
            starts.append(begin)
            ends.append(until)
            hidden.append(covered)
    cut = bars.take(np.array(owner, dtype=np.int64))
    same = np.diff(owner, prepend=-1, append=len(talking)) == 0
    return cut._replace(
        boxes=cut.boxes._replace(start=np.array(starts), end=np.array(ends)),
        hidden=np.array(hidden, dtype=np.bool_),
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
    times = [start, *inside, end]
    pieces = list[tuple[float, float, bool]]()
    for place, (begin, until) in enumerate(pairwise(times)):
        covered = place % 2 == 1
        if until - begin < least and pieces:
            pieces[-1] = pieces[-1][0], until, pieces[-1][2]
        elif pieces and (pieces[-1][2] == covered or pieces[-1][1] - pieces[-1][0] < least):
            pieces[-1] = pieces[-1][0], until, covered
        elif until > begin:
            pieces.append((begin, until, covered))
    return pieces or [(start, end, False)]
