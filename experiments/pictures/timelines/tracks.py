"""The spans of a timeline as boxes, and when links are held: of pictures, pages and traces."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.timeline import Timeline
from topologies.topology import Floats, Ints

Integers = npt.NDArray[np.integer]


class Boxes(NamedTuple):
    """Bars of a timeline, a row for each."""

    rank: Ints
    """The rank."""
    lane: Ints
    """Its lane."""
    start: Floats
    """When the box begins, in seconds."""
    end: Floats
    """When it ends, in seconds."""
    phase: Ints
    """The phase, as a place in the phases of the schedule."""
    first: Ints
    """The operation that starts with the box."""
    last: Ints
    """The operation that finishes with it."""

    def take(self, chosen: Integers | npt.NDArray[np.bool_]) -> Boxes:
        """Some of the boxes."""
        return Boxes._make(column[chosen] for column in self)

    def joined(self, boxes: Boxes) -> Boxes:
        """These boxes and others."""
        columns: Iterable[tuple[Any, Any]] = zip(self, boxes, strict=True)
        return Boxes._make(np.concatenate(pair) for pair in columns)


class Sends(NamedTuple):
    """When a transfer held a medium of its first or last link, a row for each transfer between two
    ranks."""

    operation: Ints
    """The transfer."""
    medium: Ints
    """The medium."""
    start: Floats
    """Since when, in seconds."""
    end: Floats
    """Until when, in seconds."""


def kind_of(phase: str) -> str:
    """The first word of a phase: "forward" of "forward conv1"."""
    return phase.partition(" ")[0]


def all_computations(timeline: Timeline) -> Boxes:
    """Computations that take time."""
    schedule = timeline.schedule
    visible = (schedule.kind == COMPUTATION) & (timeline.finish > timeline.start)
    chosen = np.flatnonzero(visible).astype(np.int32)
    return boxes_of(timeline, schedule.rank[chosen], schedule.lane[chosen], chosen, chosen)


def boxes_of(timeline: Timeline, rank: Ints, lane: Integers, first: Ints, last: Ints) -> Boxes:
    """Boxes from the start of first operations to the finish of last ones."""
    phase = timeline.schedule.phase[first].astype(np.int32)
    return Boxes(
        rank,
        lane.astype(np.int32),
        timeline.start[first],
        timeline.finish[last],
        phase,
        first,
        last,
    )


def merges(timeline: Timeline) -> Boxes:
    """Additions and local copies that take time, at the rank that does them, on lane 1."""
    schedule = timeline.schedule
    start = timeline.node_start[timeline.routed.node_indptr[1:] - 1]
    local = (schedule.kind != COMPUTATION) & ~schedule.remote
    visible = (local | (schedule.reduces == 1)) & (start < timeline.finish)
    chosen = np.flatnonzero(visible).astype(np.int32)
    lane = np.ones_like(chosen)
    boxes = boxes_of(timeline, schedule.peer[chosen], lane, chosen, chosen)
    return boxes._replace(start=start[chosen])


def rank_phases(timeline: Timeline) -> Boxes:
    """The part of each rank in each phase: from its first message to its last, on lane 1.

    Messages are those that the rank sends or receives; parts that take no time are left out.
    """
    schedule = timeline.schedule
    moves = np.flatnonzero(schedule.kind != COMPUTATION).astype(np.int32)
    operation = np.concatenate((moves, moves))
    rank = np.concatenate((schedule.rank[moves], schedule.peer[moves]))
    part = rank.astype(np.int64) * len(schedule.phases) + schedule.phase[operation]
    first = operation[np.lexsort((timeline.start[operation], part))]
    last = operation[np.lexsort((timeline.finish[operation], part))]
    ranks = np.sort(rank)
    parts, begin = np.unique(np.sort(part), return_index=True)
    final = np.append(begin[1:], len(part))[: len(begin)] - 1
    lane = np.ones(len(parts), dtype=np.int32)
    boxes = boxes_of(timeline, ranks[begin], lane, first[begin], last[final])
    return boxes.take(boxes.end > boxes.start)


def sends(timeline: Timeline) -> Sends:
    """Transfers between two ranks while they hold that medium of their first link which they hold
    longest."""
    node = timeline.hops[2]
    return _holding(timeline, node == timeline.routed.node_indptr[timeline.hops[0]])


def receives(timeline: Timeline) -> Sends:
    """Transfers between two ranks while they hold that medium of their last link which they hold
    longest."""
    operation = timeline.hops[0]
    return _holding(timeline, np.diff(operation, append=len(timeline.schedule)) > 0)


def _holding(timeline: Timeline, chosen_hops: npt.NDArray[np.bool_]) -> Sends:
    """Transfers while they hold a medium of one of their links."""
    topology, schedule = timeline.routed.topology, timeline.schedule
    operation, link = (column[chosen_hops] for column in timeline.hops[:2])
    node = timeline.hops[2][chosen_hops]
    indptr, media = topology.link_indptr, topology.link_media
    count = np.diff(indptr)[link]
    row = np.repeat(np.arange(len(link)), count)
    begins = np.cumsum(count) - count
    medium = media[indptr[link[row]] + np.arange(len(row)) - begins[row]]
    seconds = (
        topology.medium_gap[medium]
        + schedule.nbytes[operation[row]] / topology.medium_bandwidth[medium]
    )
    longest = np.maximum.reduceat(seconds, begins) if len(seconds) else seconds
    chosen = np.flatnonzero(seconds == longest[row])
    chosen = chosen[np.diff(row[chosen], prepend=-1) > 0]
    start = timeline.node_start[node]
    end = timeline.sent[operation] if timeline.sharing == "fair" else start + longest
    return Sends(operation, medium[chosen], start, end)


def bands(
    track: Integers, start: npt.NDArray[np.int64] | Floats, end: npt.NDArray[np.int64] | Floats
) -> npt.NDArray[np.int64]:
    """The band of every span, so that no two of a track and a band overlap: 0 wherever they do not
    overlap anyway."""
    order = np.lexsort((end, start, track))
    track, start, end = track[order], start[order], end[order]
    band = np.zeros(len(order), dtype=np.int64)
    overlap = (track[1:] == track[:-1]) & (start[1:] < end[:-1])
    for crowded in np.unique(track[1:][overlap]):
        part = slice(*np.searchsorted(track, [crowded, crowded + 1]))
        band[part] = partition(start[part], end[part])
    result = np.empty_like(band)
    result[order] = band
    return result


def joined_times(rank: Ints, start: Floats, end: Floats, slack: float) -> dict[int, Floats]:
    """When some span of each rank lasts, shape (2, n): intervals in order that are further apart
    than `slack`."""
    times = {}
    for each in np.unique(rank).tolist():
        mine = np.flatnonzero(rank == each)
        mine = mine[np.argsort(start[mine], kind="stable")]
        until = np.maximum.accumulate(end[mine])
        begins = np.append(True, start[mine][1:] > until[:-1] + slack)
        times[each] = np.stack((start[mine][begins], until[np.append(begins[1:], True)]))
    return times


def partition(start: npt.NDArray[np.int64] | Floats, end: npt.NDArray[np.int64] | Floats) -> Ints:
    """The fewest bands in which no two spans overlap, for spans in order of start: each takes the
    lowest free one."""
    band, free = np.zeros(len(start), dtype=np.int32), list[int]()
    busy: list[tuple[float, int]] = []
    for k, (begin, until) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        band[k] = heappop(free) if free else len(busy)
        heappush(busy, (until, int(band[k])))
    return band
