"""The boxes of a picture: no more than the eye can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.timelines.tracks import Boxes, bands
from simulator.schedules.timeline import Timeline

PIXELS = 1550
"""Approximate width of the time axis."""
SEAM = 6
"""Boxes of at least this many pixels have edges. Narrower neighbours of one kind become one box."""
BOXES = 200_000
"""At most this many boxes are drawn."""


class Bars(NamedTuple):
    """Boxes as they are drawn."""

    boxes: Boxes
    band: npt.NDArray[np.int64]
    """The band of its lane on which each box is drawn."""
    several: npt.NDArray[np.bool_]
    """Whether a box stands for several neighbours of one kind."""
    kinds: Sequence[str]
    """The kind of each phase. All boxes of a kind have one colour and one line in the legend."""

    def wide(self, timeline: Timeline) -> npt.NDArray[np.bool_]:
        """Whether each box has edges."""
        return np.asarray(self.boxes.end - self.boxes.start >= SEAM * timeline.makespan / PIXELS)


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
    return Bars(boxes.take(first)._replace(end=boxes.end[last]), band[first], last > first, kinds)


def longest(bars: Bars) -> tuple[Bars, list[str]]:
    """At most 200,000 boxes, the longest, and remarks on what is not drawn as it is."""
    boxes, remarks = bars.boxes, []
    if bars.several.any():
        remarks.append(
            f"neighbours of one kind that are mostly narrower than {SEAM} pixels are drawn as one"
        )
    if len(boxes.rank) <= BOXES:
        return bars, remarks
    chosen = np.sort(np.argsort(boxes.start - boxes.end, kind="stable")[:BOXES])
    remarks.append(f"the longest {BOXES} of {len(boxes.rank)} boxes are drawn")
    return Bars(boxes.take(chosen), bars.band[chosen], bars.several[chosen], bars.kinds), remarks
