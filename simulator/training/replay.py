"""Times of an outline: each collective is simulated once for each way in which it is entered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.engines import continued
from simulator.engines.continued import Windows
from simulator.schedules.routed import in_ticks, route
from simulator.schedules.timeline import Timeline
from simulator.training.plan import Plan
from simulator.training.segments import (
    Segment,
    Written,
    amounts,
    groups,
    ready_from_outside,
    sized,
    structure,
    write,
)
from topologies.topology import Floats

FINENESS = 2.0**-46
"""The tick of times, as a share of the time that a rank computes: sums are exact in runs that take
up to 128 times as long."""


class Outcome(NamedTuple):
    """What a segment does, in seconds from its begin."""

    ready: Floats
    """When each operation of the outline is ready."""
    start: Floats
    """When each operation of the outline starts."""
    finish: Floats
    windows: Windows
    end: float
    """When all of its operations are finished."""


class Done(NamedTuple):
    """A segment in its place."""

    segment: Segment
    outcome: Outcome
    base: float
    """When the segment begins."""


@dataclass
class Counts:
    """How collectives were timed."""

    hits: int = 0
    """Segments whose times were known."""
    misses: int = 0
    """Segments that were simulated."""
    rounds: int = 0
    """How often segments were merged because their windows overlap."""
    alone: int = 0
    """Collectives that are a segment of their own."""


class Replay:
    """The times of the outline `plan` under fifo.

    The outline is cut into segments. A segment is simulated from the times at which it is entered
    and from what earlier segments left on media and lanes, once for all that are alike. If a
    segment uses a medium or lane before an earlier one is through with it, the two are merged.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.schedule, self.topology = plan, plan.schedule, plan.topology
        self.counts = Counts()
        rows = len(self.schedule)
        self.ready, self.start, self.finish = np.zeros((3, rows))
        lanes = self.schedule.lanes + 1
        self._count = len(self.topology.medium_names)
        self._free = np.zeros(self._count + self.schedule.ranks * lanes)
        self._last = np.full(len(self._free), -np.inf)
        self._done: list[Done] = []
        self._written: dict[tuple[object, ...], Written] = {}
        self._outcomes: dict[tuple[object, ...], Outcome] = {}
        self._tick = tick_of(plan)

    def run(self) -> Timeline:
        """Time everything."""
        pieces = self._pieces()
        while pieces:
            self._add(pieces)
        self.counts.alone = sum(len(done.segment.blocks) == 1 for done in self._done)
        causes = np.full(len(self.schedule), -1, dtype=np.int32)
        routed = route(self.schedule, self.topology)
        return Timeline(routed, self.ready, self.finish, self.start, causes)

    def _pieces(self) -> list[Segment]:
        """Each collective, and the computations between them, the last piece first."""
        pieces, row = [], 0
        for block in self.plan.blocks:
            first, last = int(block.first[0]), int(block.last[-1]) + 1
            pieces += [Segment(*ends, ()) for ends in groups(self.schedule, row, first)]
            pieces.append(Segment(first, last, (block,)))
            row = last
        pieces += [Segment(*ends, ()) for ends in groups(self.schedule, row, len(self.schedule))]
        return pieces[::-1]

    def _add(self, pieces: list[Segment]) -> None:
        """Time the last of `pieces`, with the segments before that it overlaps."""
        segment = pieces.pop()
        while True:
            done = self._timed(segment)
            overlap = self._overlap(done)
            if overlap is None:
                self._keep(done)
                return
            self.counts.rounds += 1
            blocks = [block for each in self._done[overlap:] for block in each.segment.blocks]
            first = self._done[overlap].segment.first
            segment = Segment(first, segment.last, (*blocks, *segment.blocks))
            # What overlaps goes on to: a segment that doubles is simulated a few times alone.
            for _ in range(len(blocks) - 1):
                if pieces and pieces[-1].blocks:
                    piece = pieces.pop()
                    segment = Segment(first, piece.last, (*segment.blocks, *piece.blocks))
            self._forget(overlap)

    def _keep(self, done: Done) -> None:
        segment, outcome = done.segment, done.outcome
        self.ready[segment.first : segment.last] = done.base + outcome.ready
        self.start[segment.first : segment.last] = done.base + outcome.start
        self.finish[segment.first : segment.last] = done.base + outcome.finish
        windows = outcome.windows
        self._free[windows.place] = done.base + windows.free
        self._last[windows.place] = np.maximum(self._last[windows.place], done.base + windows.last)
        self._done.append(done)

    def _forget(self, number: int) -> None:
        kept = self._done[:number]
        self._free[:], self._last[:], self._done = 0.0, -np.inf, []
        for done in kept:
            self._keep(done)

    def _overlap(self, done: Done) -> int | None:
        """The earliest segment that still uses what a segment uses, or None."""
        windows, regions = done.outcome.windows, _regions(done.segment)
        arrival = done.base + windows.first
        used = bool(np.any(self._last[windows.place] > arrival))
        first = np.full(len(self._free), np.inf)
        first[windows.place] = arrival
        for number, earlier in enumerate(self._done):
            lasts = earlier.base + earlier.outcome.end > done.base
            if lasts and regions & _regions(earlier.segment):
                return number
            if used:
                others = earlier.outcome.windows
                if np.any(earlier.base + others.last > first[others.place]):
                    return number
        return None

    def _timed(self, segment: Segment) -> Done:
        ready, roots = ready_from_outside(self.schedule, segment, self.finish)
        base = float(ready[roots].min(initial=np.inf))
        entry = np.maximum(ready - base, 0.0)
        if not segment.blocks and segment.last - segment.first == len(roots):
            return Done(segment, self._computed(segment, entry, base), base)
        key = structure(self.schedule, segment)
        if key not in self._written:
            self._written[key] = write(self.schedule, segment, self.topology)
        written = self._written[key]
        used = np.unique(written.uses.place)
        left = np.zeros(len(self._free))
        left[used] = np.maximum(self._free[used] - base, 0.0)
        name = (*key, *amounts(self.schedule, segment), entry.tobytes(), left[used].tobytes())
        if name in self._outcomes:
            self.counts.hits += 1
        else:
            self.counts.misses += 1
            self._outcomes[name] = self._simulated(segment, written, entry, left)
        return Done(segment, self._outcomes[name], base)

    def _simulated(
        self, segment: Segment, written: Written, entry: Floats, left: Floats
    ) -> Outcome:
        ready = np.zeros(len(written.routed.schedule))
        ready[written.place] = entry
        routed = in_ticks(sized(written, self.schedule, segment), self._tick)
        part = continued.run(routed, written.uses, ready, left)
        ready, start, finish = (times[written.place] for times in part[:3])
        return Outcome(ready, start, finish, part.windows, float(part.finish.max(initial=0.0)))

    def _computed(self, segment: Segment, entry: Floats, base: float) -> Outcome:
        """Computations that do not wait for each other."""
        rows = slice(segment.first, segment.last)
        rank = self.schedule.rank[rows].astype(np.int64)
        place = self._count + rank * (self.schedule.lanes + 1) + self.schedule.lane[rows]
        assert len(np.unique(place)) == len(place)
        start = np.maximum(entry, self._free[place] - base)
        finish = start + self._rounded(self.schedule.seconds[rows])
        end = float(finish.max(initial=0.0))
        return Outcome(entry, start, finish, Windows(place, entry, entry, finish), end)

    def _rounded(self, seconds: Floats) -> Floats:
        """Seconds in whole ticks: sums of these are exact."""
        return np.asarray(np.rint(seconds / self._tick) * self._tick, dtype=np.float64)


def tick_of(plan: Plan) -> float:
    """The tick of the times of `plan`, a power of two in seconds."""
    schedule = plan.schedule
    busy = np.bincount(schedule.rank, schedule.seconds).max(initial=0.0)
    return float(2.0 ** np.ceil(np.log2(busy or 1.0))) * FINENESS


def _regions(segment: Segment) -> set[int]:
    return {block.region.slot for block in segment.blocks}


def replay(plan: Plan) -> Timeline:
    """The timeline of an outline."""
    return Replay(plan).run()
