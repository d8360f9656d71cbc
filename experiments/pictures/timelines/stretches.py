"""Bubbles as they are drawn: stretches of idle time with one cause, wide enough to be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from experiments.names import link_name, rank_name
from simulator.analysis.bubble_spans import BUBBLE_CAUSES, BubbleSpans
from simulator.analysis.bubbles import CONTENTION, SLOWER_PEER
from simulator.schedules.timeline import Timeline

MEANINGS = {
    "transfer": "transfer: data is on its way",
    "contention": "contention: data queues\nbehind other ranks",
    "slower peer": "slower peer: another rank\nor lane still computes",
    "drain": "drain: nothing left to do",
    "fill": "fill: no work has come yet",
    "launch": "launch: the CPU is late",
}
"""What each cause means, for the legend."""


class Stretches(NamedTuple):
    """Bubbles of a timeline."""

    timeline: Timeline
    spans: BubbleSpans
    """The stretches."""
    mixed: int
    """How many of them have more than one cause: they show the longest."""
    place_name: Callable[[int], str] | None = None
    """What each rank is called; None: as in its schedule."""

    @property
    def causes(self) -> list[str]:
        """The causes that occur."""
        return [BUBBLE_CAUSES[cause] for cause in np.unique(self.spans.cause).tolist()]

    def words(self, row: int) -> Sequence[str]:
        """Texts for a stretch, the longest first: what it waits for, and its cause in a word."""
        spans, cause = self.spans, int(self.spans.cause[row])
        name, schedule = BUBBLE_CAUSES[cause], self.timeline.schedule
        if cause == CONTENTION and spans.medium[row] >= 0:
            medium = self.timeline.routed.topology.medium_names[spans.medium[row]]
            return [f"contention: waits for {link_name(medium)}", link_name(medium), name]
        operation = int(spans.operation[row])
        elsewhere = operation >= 0 and schedule.rank[operation] != spans.rank[row]
        if cause == SLOWER_PEER and elsewhere and schedule.ranks > 1:
            name_of = self.place_name or partial(rank_name, schedule)
            peer = name_of(int(schedule.rank[operation]))
            return [f"slower peer: {peer}", peer, name]
        return [name]


def drawn(timeline: Timeline, spans: BubbleSpans, least: float) -> Stretches:
    """Stretches of at least `least` seconds, where the gap is that long.

    Shorter stretches of one gap are drawn together, with the cause that takes most of the time.
    """
    thin, mixed = spans.end - spans.start < least, 0
    rows, owner = spans.take(~thin), np.flatnonzero(thin)
    parts = [rows]
    touches = np.append(
        False, (spans.rank[1:] == spans.rank[:-1]) & (spans.start[1:] - spans.end[:-1] < least / 4)
    )
    start, end, cause = spans.start.tolist(), spans.end.tolist(), spans.cause.tolist()
    cells: list[list[int]] = []
    for k in owner.tolist():
        open_cell = cells and cells[-1][-1] == k - 1 and touches[k]
        if open_cell and end[cells[-1][-1]] - start[cells[-1][0]] < least:
            cells[-1].append(k)
        else:
            cells.append([k])
    if cells:
        longest, begins, ends = list[int](), list[float](), list[float]()
        for cell in cells:
            seconds = dict.fromkeys((cause[k] for k in cell), 0.0)
            for k in cell:
                seconds[cause[k]] += end[k] - start[k]
            most = max(seconds, key=lambda each: seconds[each])
            mixed += len(seconds) > 1
            longest.append(next(k for k in cell if cause[k] == most))
            begins.append(start[cell[0]])
            ends.append(end[cell[-1]])
        chosen = spans.take(np.array(longest, dtype=np.int64))
        parts.append(chosen._replace(start=np.array(begins), end=np.array(ends)))
    joined = BubbleSpans.joined(*parts)
    return Stretches(timeline, _merged(joined, least / 4), mixed)


def _merged(spans: BubbleSpans, slack: float) -> BubbleSpans:
    """Neighbours of one rank, cause and medium as one stretch."""
    same = spans.start[1:] - spans.end[:-1] < slack
    for column in (spans.rank, spans.cause, spans.medium):
        same &= column[1:] == column[:-1]
    first = np.flatnonzero(np.append(True, ~same)[: len(spans.rank)])
    last = np.append(first[1:], len(spans.rank))[: len(first)] - 1
    return spans.take(first)._replace(end=spans.end[last])
