"""The boxes of a picture: as many as can be told apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.timelines.tracks import (
    Boxes,
    bands,
    communications,
    computations,
    kind_of,
)
from simulator.schedules.timeline import Timeline
from simulator.training.plan import Plan

PIXELS = 1550
"""Of the time axis, roughly."""
SEAM = 6
"""Pixels from which on a box has edges; neighbours that are narrower, or mostly so in their kind,
are drawn as one."""
BOXES = 200_000
"""That are drawn at most."""


class Bars(NamedTuple):
    """Boxes as they are drawn, each on a band of its lane; `several` are boxes of one kind that are
    drawn as one."""

    boxes: Boxes
    band: npt.NDArray[np.int64]
    several: npt.NDArray[np.bool_]

    def wide(self, timeline: Timeline) -> npt.NDArray[np.bool_]:
        """Which have edges."""
        return np.asarray(self.boxes.end - self.boxes.start >= SEAM * timeline.makespan / PIXELS)


def all_bars(plan: Plan, timeline: Timeline) -> Bars:
    """All boxes; neighbours of one kind that touch and are narrow, or most of their kind are,
    become one."""
    boxes = computations(plan, timeline).joined(communications(plan, timeline))
    slack, seam = 1e-9 * timeline.makespan, SEAM * timeline.makespan / PIXELS
    lane = boxes.rank.astype(np.int64) * (int(boxes.lane.max(initial=0)) + 1) + boxes.lane
    band = bands(lane, boxes.start, boxes.end - slack)
    order = np.lexsort((boxes.start, band, lane))
    boxes, band, lane = boxes.take(order), band[order], lane[order]
    kind = kinds(timeline, boxes)
    narrow = boxes.end - boxes.start < seam
    for crowd in np.unique(kind):
        narrow |= (kind == crowd) & (np.median(narrow[kind == crowd]) > 0)
    joined = (lane[1:] == lane[:-1]) & (band[1:] == band[:-1]) & (kind[1:] == kind[:-1])
    joined &= narrow[1:] & narrow[:-1] & (boxes.start[1:] <= boxes.end[:-1] + slack)
    first = np.flatnonzero(np.append(True, ~joined)[: len(lane)])
    last = np.append(first[1:], len(lane))[: len(first)] - 1
    return Bars(boxes.take(first)._replace(end=boxes.end[last]), band[first], last > first)


def kinds(timeline: Timeline, boxes: Boxes) -> npt.NDArray[np.str_]:
    """The first word of what every box is."""
    return np.array([kind_of(phase) for phase in timeline.schedule.phases])[boxes.phase]


def longest(bars: Bars) -> tuple[Bars, list[str]]:
    """As many as are drawn, and what is to be said about it."""
    boxes, remarks = bars.boxes, []
    if bars.several.any():
        remarks.append(
            f"neighbours of one kind that are mostly narrower than {SEAM} pixels are drawn as one"
        )
    if len(boxes.rank) <= BOXES:
        return bars, remarks
    chosen = np.sort(np.argsort(boxes.start - boxes.end, kind="stable")[:BOXES])
    remarks.append(f"the longest {BOXES} of {len(boxes.rank)} boxes are drawn")
    return Bars(boxes.take(chosen), bars.band[chosen], bars.several[chosen]), remarks
