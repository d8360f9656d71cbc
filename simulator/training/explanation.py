"""What an outline waits for: its bubbles and its critical path, through all transfers.

The walks go back through the outline. At the end of a collective they go on in the simulation of
its segment, until they come to what an operation waits for before the segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.analysis.bubbles import DRAIN, Bubbles, fill, gaps_of, last_operations, with_drain
from simulator.analysis.critical_path import Path, walk_back
from simulator.engines.continued import HELD, uses_of
from simulator.kernels.queues import Gaps
from simulator.kernels.records import Csr, Times
from simulator.schedules.routed import alike
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Timeline
from simulator.training.replay import Done, Replay, Replayed
from simulator.training.segments import Segment
from topologies.topology import Floats, Ints

MOST_TIMELINES = 8
"""Timelines of groups that are kept, as other groups look the same."""


class Walks(NamedTuple):
    """The walks through segments that look the same."""

    filled: dict[tuple[object, ...], tuple[Floats, Ints]]
    """What fills gaps, by the gaps."""
    paths: dict[int, Path]
    """The critical path to each operation of the outline, counted from the first one."""


class View(NamedTuple):
    """Segments that wait for each other's media and lanes, with all transfers."""

    timeline: Callable[[], Timeline]
    """When they ran, from the begin on. Operations that wait for earlier segments alone have no
    predecessors here."""
    walks: Walks
    base: float
    """When the first one begins."""
    end: float
    """When all are finished, from the begin on."""
    first: int
    """The first operation of the outline in it."""
    place: Ints
    """The operation that is written for each operation of the outline."""

    def row(self, operation: Ints) -> Ints:
        """The operation of the outline that each operation is written for; -1: none."""
        order = np.argsort(self.place, kind="stable")
        place = np.searchsorted(self.place[order], operation).clip(max=len(order) - 1)
        number = order[place]
        alike = self.place[number] == operation
        return np.where(alike, self.first + number, -1).astype(np.int32)

    def fill(self, gaps: Gaps, end: float) -> tuple[Floats, Ints]:
        """As :func:`simulator.analysis.bubbles.fill`, once for all segments that look the same.

        Times are in seconds from the begin on. Nothing happens before it, so it does not matter how
        long before it a gap begins.
        """
        gaps = gaps._replace(begin=np.where(gaps.begin < 0, -1.0, gaps.begin))
        end = min(end, self.end)
        name = end, *(column.tobytes() for column in gaps)
        if name not in self.walks.filled:
            self.walks.filled[name] = fill(self.timeline(), gaps, end)
        return self.walks.filled[name]

    def path(self, row: int) -> Path:
        """As :func:`simulator.analysis.critical_path.walk_back`, from an operation of the outline,
        once for all segments that look the same. Transfers have no numbers."""
        number = row - self.first
        if number not in self.walks.paths:
            self.walks.paths[number] = walk_back(self.timeline(), int(self.place[number]))
        path = self.walks.paths[number]
        return replace(path, operation=self.row(path.operation))


class Explanation:
    """Walks back through an outline."""

    def __init__(self, timeline: Replayed) -> None:
        replay = timeline.replay
        assert replay is not None
        self.replay: Replay = replay
        self.groups = _groups(replay.done)
        schedule = timeline.schedule
        self.group = np.full(len(schedule), -1, dtype=np.int32)
        for number, (low, high) in enumerate(self.groups):
            if any(done.segment.blocks for done in replay.done[low:high]):
                rows = slice(replay.done[low].segment.first, replay.done[high - 1].segment.last)
                self.group[rows] = number
        self.before = _latest(Csr(schedule.indptr, schedule.indices), timeline.finish)
        ends = (self.before >= 0) & (self.group[self.before] >= 0)
        self.outline = _without(timeline, ends)
        self._walks: dict[tuple[object, ...], Walks] = {}
        self._timelines: dict[tuple[object, ...], Timeline] = {}

    def view(self, number: int) -> View:
        """A group of segments."""
        low, high = self.groups[number]
        chosen = self.replay.done[low:high]
        segment, base = chosen[0].segment, chosen[0].base
        if len(chosen) > 1:
            segment = reduce(Segment.until, (done.segment for done in chosen))
        written = self.replay.written(segment)
        ready = self.replay.entrance(segment).ready(self.replay.finish)
        start = self.replay.ready[segment.first : segment.last]
        from_outside = ready == start
        name = (
            *(self.replay.name(done) for done in chosen),
            *(done.base - base for done in chosen),
            from_outside.tobytes(),
        )

        def timeline() -> Timeline:
            if name not in self._timelines:
                if len(self._timelines) == MOST_TIMELINES:
                    self._timelines.pop(next(iter(self._timelines)))
                self._timelines[name] = self._timeline(chosen, segment, from_outside)
            return self._timelines[name]

        walks = self._walks.setdefault(name, Walks({}, {}))
        end = max(done.base + done.outcome.end for done in chosen) - base
        return View(timeline, walks, base, end, segment.first, written.place)

    def _timeline(
        self, chosen: list[Done], segment: Segment, from_outside: npt.NDArray[np.bool_]
    ) -> Timeline:
        times = self.replay.part(chosen[0]).times
        if len(chosen) > 1:
            times = _joined(self.replay, chosen)
        ends = np.zeros(len(times.ready), dtype=np.bool_)
        ends[self.replay.written(segment).place] = from_outside
        routed = self.replay.routed(segment)
        timeline = Timeline(routed, times.ready, times.finish, times.start, times.cause)
        return _without(timeline, ends)

    def bubbles(self, lane: int, end: float) -> Bubbles:
        """As :func:`simulator.analysis.bubbles.bubbles`."""
        schedule, outline = self.outline.schedule, self.outline
        computing = np.zeros(schedule.ranks, dtype=np.bool_)
        computing[schedule.rank[(schedule.kind == COMPUTE) & (schedule.lane == lane)]] = True
        walk = _Walk(self, end)
        gaps, free = gaps_of(outline, lane, np.full(schedule.ranks, -1, dtype=np.int32))
        walk.along(gaps)
        latest = self._latest(np.flatnonzero(computing).astype(np.int32))
        for group in np.unique(latest.group).tolist():
            chosen = (latest.group == group) & (latest.until > free[latest.rank])
            rank = latest.rank[chosen]
            itself = np.ones(len(rank), dtype=np.int8)
            walk.add(group, Gaps(latest.operation[chosen], itself, rank, free[rank]))
            free[rank] = latest.until[chosen]
        walk.back()
        return with_drain(walk.seconds, computing, free, min(self._end, end))

    @property
    def _end(self) -> float:
        """When all operations are finished."""
        return max((done.base + done.outcome.end for done in self.replay.done), default=0.0)

    def _latest(self, rank: Ints) -> _Latest:
        """The operations that finish last of those in which each rank takes part."""
        operation = last_operations(self.outline)[rank]
        until, group = self.outline.finish[operation], self.group[operation]
        for number, (low, high) in enumerate(self.groups):
            chosen = self.replay.done[low:high]
            end = max(done.base + done.outcome.end for done in chosen)
            if end <= until.min(initial=np.inf) or not any(done.segment.blocks for done in chosen):
                continue
            view = self.view(number)
            timeline = view.timeline()
            last = last_operations(timeline)[rank]
            finish = view.base + timeline.finish[last]
            later = (last >= 0) & (finish > until)
            # Below -1 are operations of the view itself.
            operation = np.where(later, -2 - last, operation)
            until, group = np.where(later, finish, until), np.where(later, number, group)
        return _Latest(rank, operation.astype(np.int32), group, until)

    def path(self, last: int) -> Path:
        """As :func:`simulator.analysis.critical_path.trace_back`; computations have the numbers of
        the outline, and transfers have none."""
        if self._end == 0:
            return Path.of([])
        paths, row = [], last
        while row >= 0:
            group = int(self.group[row])
            if group < 0:
                path = walk_back(self.outline, row)
                row = int(path.operation[-1])
            else:
                view = self.view(group)
                path = view.path(row)
                row = int(path.operation[-1])
            paths.append(path)
            row = int(self.before[row])
        return Path.joined(paths)


def explanation_of(timeline: Replayed) -> Explanation:
    """The walks through a timeline, made once."""
    made = vars(timeline)
    if "explanation" not in made:
        made["explanation"] = Explanation(timeline)
    result: Explanation = made["explanation"]
    return result


class _Latest(NamedTuple):
    """The operations that finish last of those in which ranks take part."""

    rank: Ints
    operation: Ints
    """The operation of the outline, or -2 less the operation of the view of `group`."""
    group: Ints
    """The group of segments; -1: none."""
    until: Floats
    """When the operation is finished."""


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
        """Explain what waits in groups."""
        while self._waiting:
            number = max(self._waiting)
            parts = self._waiting.pop(number)
            gaps = Gaps(*map(np.concatenate, zip(*parts, strict=True)))
            view = self._explanation.view(number)
            rows = np.maximum(gaps.operation - view.first, 0)
            inner = np.where(gaps.operation < -1, -2 - gaps.operation, view.place[rows])
            within = gaps._replace(operation=inner.astype(np.int32), begin=gaps.begin - view.base)
            seconds, stops = view.fill(within, self._end - view.base)
            self.seconds += seconds
            self._on(gaps, np.where(stops >= 0, view.row(np.maximum(stops, 0)), -1))


def _groups(done: list[Done]) -> list[tuple[int, int]]:
    """Ranges of segments that wait for no media and lanes of others."""
    groups: list[tuple[int, int]] = []
    for number, each in enumerate(done):
        low = min(number, each.since)
        while groups and groups[-1][1] > low:
            low = min(low, groups.pop()[0])
        groups.append((low, number + 1))
    return groups


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


def _without(timeline: Timeline, ends: npt.NDArray[np.bool_]) -> Timeline:
    """A timeline in which some operations have no predecessors."""
    routed, schedule = timeline.routed, timeline.routed.schedule
    count = np.diff(schedule.indptr)
    kept = np.repeat(~ends, count)
    indptr = np.zeros_like(schedule.indptr)
    np.cumsum(np.where(ends, 0, count), out=indptr[1:])
    fewer = replace(schedule, indptr=indptr, indices=schedule.indices[kept])
    cut = alike(routed, replace(routed, schedule=fewer))
    return Timeline(cut, timeline.ready, timeline.finish, timeline.node_start, timeline.node_cause)


def _joined(replay: Replay, chosen: list[Done]) -> Times:
    """The times of segments, one behind the other, from the begin of the first on."""
    base, holder = chosen[0].base, np.full(replay.places, -1, dtype=np.int32)
    columns: list[list[npt.NDArray[Any]]] = [[], [], [], []]
    behind = 0
    for done in chosen:
        outcome, later = done.outcome, done.base - base
        if done.segment.blocks:
            part = replay.part(done)
            times, cause = part.times, part.times.cause.copy()
            cause[cause >= 0] += behind
            routed = replay.written(done.segment).routed
            node, place = uses_of(routed, np.flatnonzero(times.cause == HELD))
            left = replay.spread(done)
            waiting = np.flatnonzero(left[place] == times.start[node])[::-1]
            cause[node[waiting]] = holder[place[waiting]]
            used = part.windows.place
            latest = part.holder[used]
            holder[used] = np.where(latest >= 0, latest + behind, holder[used])
            rows = times.ready, times.finish, times.start
        else:
            rows = outcome.ready, outcome.finish, outcome.start
            cause = np.full(len(outcome.ready), -1, dtype=np.int32)
            holder[outcome.windows.place] = behind + np.arange(len(cause))
        for column, times_of in zip(columns, rows, strict=False):
            column.append(times_of + later)
        columns[3].append(cause)
        behind += len(cause)
    ready, finish, start, causes = map(np.concatenate, columns)
    return Times(ready, finish, start, causes.astype(np.int32), np.zeros(0))
