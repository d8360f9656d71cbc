"""What an outline waits for: its bubbles and its critical path, through all transfers.

The walks go back through the outline. At the end of a collective they go on in the simulation of
its segment, until they come to what an operation waits for before the segment.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.analysis.bubbles import (
    DRAIN,
    computing_ranks,
    fill,
    gaps_of,
    last_operations,
    with_drain,
)
from simulator.analysis.critical_path import CriticalPath, walk_back
from simulator.kernels.queues import Gaps
from simulator.kernels.records import Csr
from simulator.schedules.routed import alike
from simulator.schedules.timeline import Timeline
from simulator.training.replay import Replay, Replayed, TimedSegment
from simulator.training.segments import segment_of
from topologies.columns import starts
from topologies.topology import Flags, Floats, Ints


class Explanation:
    """Walks back through an outline."""

    def __init__(self, timeline: Replayed) -> None:
        assert timeline.replay is not None
        self.replay: Replay = timeline.replay
        self.groups = _groups(self.replay.timed)
        """The segments that wait for each other's media and lanes."""
        schedule = timeline.schedule
        self.group = np.full(len(schedule), -1, dtype=np.int32)
        """The group of each operation; -1 for none."""
        for number, timed in enumerate(self.groups):
            if any(each.segment.collectives for each in timed):
                self.group[timed[0].segment.rows.start : timed[-1].segment.rows.stop] = number
        self.before = _latest(Csr(schedule.indptr, schedule.indices), timeline.finish)
        ends = (self.before >= 0) & (self.group[self.before] >= 0)
        self.outline = _without(timeline, ends)
        # Groups that look the same have a number, and share timelines and walks.
        self.looks: dict[tuple[object, ...], int] = {}
        self.timelines: dict[int, Timeline] = {}
        self.filled: dict[tuple[object, ...], tuple[Floats, Ints]] = {}
        self.paths: dict[tuple[int, int], CriticalPath] = {}
        self.end = max((timed.end for timed in self.replay.timed), default=0.0)
        """When all operations are finished."""

    def bubbles(self, lane: int, end: float) -> Floats:
        """As :func:`simulator.analysis.bubbles.bubbles`."""
        computing = computing_ranks(self.outline, lane)
        walk = _Walk(self, end)
        gaps, free = gaps_of(self.outline, lane, np.full(len(computing), -1, dtype=np.int32))
        walk.along(gaps)
        ranks = np.flatnonzero(computing).astype(np.int32)
        operation, group, until = self._last(ranks)
        for number in np.unique(group).tolist():
            chosen = (group == number) & (until > free[ranks])
            rank = ranks[chosen]
            itself = np.ones(len(rank), dtype=np.int8)
            walk.add(number, Gaps(operation[chosen], itself, rank, free[rank]))
            free[rank] = until[chosen]
        walk.back()
        return with_drain(walk.seconds, computing, free, min(self.end, end))

    def _last(self, rank: Ints) -> tuple[Ints, Ints, Floats]:
        """The operation that finishes last of those in which each rank takes part: that of the
        outline, or -2 less that of its group; the group, or -1 for none; and when it is
        finished."""
        operation = last_operations(self.outline)[rank]
        until, group = self.outline.finish[operation], self.group[operation]
        for number, timed in enumerate(self.groups):
            end = max(each.end for each in timed)
            if end <= until.min(initial=np.inf) or not any(
                each.segment.collectives for each in timed
            ):
                continue
            view = View(self, number)
            last = last_operations(view.timeline)[rank]
            finish = view.base + view.timeline.finish[last]
            later = (last >= 0) & (finish > until)
            operation = np.where(later, -2 - last, operation)
            until, group = np.where(later, finish, until), np.where(later, number, group)
        return operation.astype(np.int32), group, until

    def path(self, last: int) -> CriticalPath:
        """The critical path; computations have the numbers of the outline, and transfers have
        none."""
        if self.end == 0:
            return CriticalPath.empty()
        paths, row = [], last
        while row >= 0:
            group = int(self.group[row])
            paths.append(walk_back(self.outline, row) if group < 0 else View(self, group).path(row))
            row = int(self.before[int(paths[-1].operation[-1])])
        return CriticalPath.joined(paths)


def explanation_of(timeline: Replayed) -> Explanation:
    """The walks through a timeline, made once."""
    made = vars(timeline)
    if "explanation" not in made:
        made["explanation"] = Explanation(timeline)
    result: Explanation = made["explanation"]
    return result


class View:
    """A group of segments with all transfers. Times are in seconds from its begin on."""

    def __init__(self, explanation: Explanation, number: int) -> None:
        self._known, replay = explanation, explanation.replay
        self._timed = timed = explanation.groups[number]
        self.base = timed[0].base
        """When the first segment begins."""
        self._end = max(each.end for each in timed) - self.base
        begin, end = timed[0].segment.begin, timed[-1].segment.end
        self._segment = segment = segment_of(replay.plan, begin, end)
        self._from_outside = segment.ready(replay.finish) == replay.ready[segment.rows]
        look = (
            *(each.name for each in timed),
            *(each.base - self.base for each in timed),
            self._from_outside.tobytes(),
        )
        self._look = explanation.looks.setdefault(look, len(explanation.looks))

    @property
    def timeline(self) -> Timeline:
        """When the segments ran. Operations that wait for earlier segments alone have no
        predecessors here."""
        timelines, replay = self._known.timelines, self._known.replay
        if self._look not in timelines:
            # A few are enough, as most groups look like one of these.
            if len(timelines) == 8:
                timelines.pop(next(iter(timelines)))
            if len(self._timed) == 1:
                times = replay.part(self._timed[0]).times
            else:
                # A group waits for nothing that others hold, so it runs as it does alone.
                times = replay.alone(self._segment, self.base).times
            ends = np.zeros(len(times.ready), dtype=np.bool_)
            ends[self._place] = self._from_outside
            whole = Timeline(
                replay.routed(self._segment), times.ready, times.finish, times.start, times.cause
            )
            timelines[self._look] = _without(whole, ends)
        return timelines[self._look]

    @property
    def _place(self) -> Ints:
        """The operation that is written for each operation of the outline."""
        return self._segment.transfers.place

    def written(self, row: Ints) -> Ints:
        """The operations that are written for some of the outline."""
        return np.asarray(self._place[np.maximum(row - self._segment.rows.start, 0)])

    def row(self, operation: Ints) -> Ints:
        """The operation of the outline that each operation is written for; -1: none."""
        order = np.argsort(self._place, kind="stable")
        number = np.searchsorted(self._place[order], operation).clip(max=len(order) - 1)
        row, is_there = order[number], self._place[order[number]] == operation
        return np.where(is_there, self._segment.rows.start + row, -1).astype(np.int32)

    def fill(self, gaps: Gaps, end: float) -> tuple[Floats, Ints]:
        """As :func:`simulator.analysis.bubbles.fill`, once for all groups that look the same.

        Nothing happens before the begin, so it does not matter how long before it a gap begins.
        """
        gaps = gaps._replace(begin=np.where(gaps.begin < 0, -1.0, gaps.begin))
        end, filled = min(end, self._end), self._known.filled
        name = self._look, end, *(column.tobytes() for column in gaps)
        if name not in filled:
            filled[name] = fill(self.timeline, gaps, end)
        return filled[name]

    def path(self, row: int) -> CriticalPath:
        """As :func:`simulator.analysis.critical_path.walk_back`, from an operation of the outline,
        once for all groups that look the same. Transfers have no numbers."""
        name, paths = (self._look, row - self._segment.rows.start), self._known.paths
        if name not in paths:
            paths[name] = walk_back(self.timeline, int(self._place[name[1]]))
        return replace(paths[name], operation=self.row(paths[name].operation))


class _Walk:
    """Explains gaps, the latest groups of segments first."""

    def __init__(self, explanation: Explanation, end: float) -> None:
        self._explanation, self._end = explanation, end
        ranks = explanation.outline.schedule.ranks
        self.seconds = np.zeros((ranks, DRAIN))
        self._waiting: dict[int, list[Gaps]] = {}

    def add(self, group: int, gaps: Gaps) -> None:
        """Explain gaps from operations of a group on, or of the outline."""
        if group < 0:
            self.along(gaps)
        elif len(gaps.operation):
            self._waiting.setdefault(group, []).append(gaps)

    def along(self, gaps: Gaps) -> None:
        """Explain gaps from operations of the outline on, as far as collectives."""
        if not len(gaps.operation):
            return
        seconds, stops = fill(self._explanation.outline, gaps, self._end)
        self.seconds += seconds
        self._on(gaps, stops)

    def _on(self, gaps: Gaps, stops: Ints) -> None:
        """Go on before the operations of the outline at which walks stopped, -1 for none."""
        chosen = np.flatnonzero(stops >= 0)
        before = self._explanation.before[stops[chosen]]
        rest = Gaps(before, np.ones(len(chosen), np.int8), gaps.rank[chosen], gaps.begin[chosen])
        group = self._explanation.group[before]
        for number in np.unique(group).tolist():
            self.add(number, Gaps(*(column[group == number] for column in rest)))

    def back(self) -> None:
        while self._waiting:
            number = max(self._waiting)
            parts = self._waiting.pop(number)
            gaps = Gaps(*map(np.concatenate, zip(*parts, strict=True)))
            view, operation = View(self._explanation, number), gaps.operation
            # Below -1 are operations of the group itself.
            inner = np.where(operation < -1, -2 - operation, view.written(operation))
            within = gaps._replace(operation=inner.astype(np.int32), begin=gaps.begin - view.base)
            seconds, stops = view.fill(within, self._end - view.base)
            self.seconds += seconds
            self._on(gaps, np.where(stops >= 0, view.row(np.maximum(stops, 0)), -1))


def _groups(timed: list[TimedSegment]) -> list[list[TimedSegment]]:
    """Segments behind each other that wait for no media and lanes of others."""
    groups: list[tuple[int, int]] = []
    for number, each in enumerate(timed):
        low = min(number, each.since)
        while groups and groups[-1][1] > low:
            low = min(low, groups.pop()[0])
        groups.append((low, number + 1))
    return [timed[low:high] for low, high in groups]


def _latest(predecessors: Csr, finish: Floats) -> Ints:
    """The predecessor of each operation that finished last, -1 for none."""
    count = np.diff(predecessors.indptr)
    result = np.full(len(count), -1, dtype=np.int32)
    some = np.flatnonzero(count)
    if len(some):
        times = finish[predecessors.indices]
        most = np.repeat(np.maximum.reduceat(times, predecessors.indptr[some]), count[some])
        places = np.where(times == most, np.arange(len(times)), len(times))
        first = np.minimum.reduceat(places, predecessors.indptr[some])
        result[some] = predecessors.indices[first]
    return result


def _without(timeline: Timeline, ends: Flags) -> Timeline:
    """A timeline in which some operations have no predecessors."""
    routed, schedule = timeline.routed, timeline.routed.schedule
    count = np.diff(schedule.indptr)
    kept = np.repeat(~ends, count)
    indptr = starts(np.where(ends, 0, count))
    fewer = replace(schedule, indptr=indptr, indices=schedule.indices[kept])
    cut = alike(routed, replace(routed, schedule=fewer))
    return Timeline(cut, timeline.ready, timeline.finish, timeline.node_start, timeline.node_cause)
