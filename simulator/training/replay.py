"""Times of an outline: each collective is simulated once for each way in which it is entered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from simulator.engines.compiled import RunPart, Windows, run_part
from simulator.kernels.records import Times
from simulator.schedules.routed import Routed, alike, in_ticks, whole_ticks
from simulator.schedules.timeline import Timeline
from simulator.training.plan import Plan
from simulator.training.segments import Segment, segment_of
from simulator.training.size import most_operations
from topologies.errors import InputError
from topologies.topology import Floats, Longs, Topology

REMEMBERED_NODES = 2**26
"""So many nodes of simulated segments are remembered."""


class SegmentTimes(NamedTuple):
    """What a segment does, in seconds from its begin."""

    ready: Floats
    """When each operation of the outline is ready."""
    start: Floats
    """When each operation of the outline starts."""
    finish: Floats
    windows: Windows
    end: float
    """When all of its operations are finished."""
    waits: Longs
    """The lanes and media for which it waits that earlier segments hold."""


@dataclass(frozen=True, eq=False)
class TimedSegment:
    """A segment in its place."""

    segment: Segment
    name: tuple[object, ...]
    """The same for segments with the same times."""
    outcome: SegmentTimes
    base: float
    """When the segment begins."""
    entry: Floats
    """When what each operation waits for before the segment is finished, from the begin on; below
    0: it waits for nothing there."""
    left: Floats
    """When each lane and medium that it uses is free of earlier segments, from the begin on; of
    computations nothing."""
    known: bool
    """Whether a segment before has the same outcome."""
    since: int
    """The first of the segments for whose media and lanes it waits, or itself."""

    @property
    def end(self) -> float:
        """When all of its operations are finished."""
        return self.base + self.outcome.end


class Replay:
    """The times of the outline `plan` under fifo.

    The outline is cut into segments. A segment is simulated from the times at which it is entered
    and from what earlier segments left on media and lanes, once for all that are alike. If a
    segment uses a medium or lane before an earlier one is through with it, the two are merged.
    """

    def __init__(
        self,
        plan: Plan,
        seconds: Floats,
        machine: Callable[[Topology], Topology],
        tick: float,
        *,
        explained: bool = True,
    ) -> None:
        """Computations take `seconds`. `machine` is what changes of the topology. All durations are
        multiples of `tick`. A run that is `explained` remembers all times of its parts; another one
        finds them out if they are asked for."""
        self.plan, self.schedule = plan, replace(plan.schedule, seconds=seconds)
        self._machine, self._tick, self._explained = machine, tick, explained
        self.rounds = 0
        """How often segments were merged because their windows overlap."""
        rows = len(self.schedule)
        self.ready, self.start, self.finish = np.zeros((3, rows))
        serials = self.schedule.ranks * (self.schedule.lanes + 1)
        self._free = np.zeros(serials + len(plan.topology.medium_bandwidth))
        self._last = np.full(len(self._free), -np.inf)
        self._user = np.full(len(self._free), -1)
        self._ends: dict[int, float] = {}
        self.timed: list[TimedSegment] = []
        self._names: dict[tuple[object, ...], tuple[object, ...]] = {}
        changed = machine(plan.topology)
        columns = changed.latency, changed.medium_gap, changed.medium_bandwidth
        name = tick, *(column.tobytes() for column in columns)
        self._outcomes: dict[tuple[object, ...], SegmentTimes] = plan.known.setdefault(name, {})
        self._parts: dict[tuple[object, ...], RunPart] = {}
        self._room: Times | None = None
        self._runs = True

    @property
    def replayed(self) -> int:
        """Collectives that have the times of an earlier simulation."""
        return sum(len(timed.segment.collectives) for timed in self.timed if timed.known)

    def run(self) -> None:
        """Time each collective, and the computations between them."""
        next_part, count = 0, len(self.plan.parts)
        while next_part < count:
            begin, end = next_part, next_part + 1
            while True:
                timed = self._timed(segment_of(self.plan, begin, end))
                overlap = self._overlap(timed)
                if overlap is None:
                    break
                self.rounds += 1
                earlier = segment_of(self.plan, self.timed[overlap].segment.begin, begin)
                # What overlaps goes on to: a segment that doubles is simulated a few times alone.
                more, begin = len(earlier.collectives) - 1, earlier.begin
                while end < count and more > 0:
                    more -= self.plan.parts[end].schedule is not None
                    end += 1
                self._check_size(segment_of(self.plan, begin, end))
                self._forget(overlap)
            self._keep(timed)
            next_part = end
        self._room, self._runs = None, False

    def _check_size(self, segment: Segment) -> None:
        operations = sum(len(schedule) for _, schedule in segment.collectives)
        if operations > most_operations():
            raise InputError(
                f"{len(segment.collectives)} collectives that run at the same time have "
                f"{operations:.3g} operations: take fewer ranks, or one stream, as fsdp:fsdp=1"
            )

    def _keep(self, timed: TimedSegment) -> None:
        rows, outcome, base = timed.segment.rows, timed.outcome, timed.base
        self.ready[rows] = base + outcome.ready
        self.start[rows] = base + outcome.start
        self.finish[rows] = base + outcome.finish
        windows = outcome.windows
        self._free[windows.place] = base + windows.free
        self._last[windows.place] = np.maximum(self._last[windows.place], base + windows.last)
        self._user[windows.place] = len(self.timed)
        for part, _ in timed.segment.collectives:
            self._ends[part.slot] = max(self._ends.get(part.slot, 0.0), timed.end)
        self.timed.append(timed)

    def _forget(self, number: int) -> None:
        kept = self.timed[:number]
        self._free[:], self._last[:], self._user[:], self.timed = 0.0, -np.inf, -1, []
        self._ends.clear()
        for timed in kept:
            self._keep(timed)

    def _overlap(self, timed: TimedSegment) -> int | None:
        """The earliest segment that still uses what a segment uses, or None."""
        windows, slots = timed.outcome.windows, _slots(timed.segment)
        arrival = timed.base + windows.first
        used = bool(np.any(self._last[windows.place] > arrival))
        if not used and all(self._ends.get(slot, 0.0) <= timed.base for slot in slots):
            return None
        first = np.full(len(self._free), np.inf)
        first[windows.place] = arrival
        for number, earlier in enumerate(self.timed):
            if earlier.end > timed.base and slots & _slots(earlier.segment):
                return number
            if used:
                others = earlier.outcome.windows
                if np.any(earlier.base + others.last > first[others.place]):
                    return number
        return None

    def _timed(self, segment: Segment) -> TimedSegment:
        ready = segment.ready(self.finish)
        base = float(np.maximum(ready[segment.roots], 0.0).min(initial=np.inf))
        entry = ready - base
        if segment.is_computed:
            entry = np.maximum(entry, 0.0)
            outcome = self._computed(segment, entry, base)
            number = len(self.timed)
            return TimedSegment(segment, (), outcome, base, entry, np.zeros(0), False, number)
        written = segment.transfers
        left = np.maximum(self._free[written.places] - base, 0.0)
        # What has the same outcome.
        name = (
            *segment.structure,
            self.schedule.seconds[segment.rows].tobytes(),
            *segment.sizes,
            np.maximum(entry, 0.0).tobytes(),
            left.tobytes(),
        )
        known = name in self._names
        name = self._names.setdefault(name, name)
        if name not in self._outcomes:
            if self._explained:
                part = self._part(name, segment, entry, left)
            else:
                part = self._simulated(segment, entry, left, fills=False)
                self._room = part.times
            ready, start, finish = part.times.ready, part.times.start, part.times.finish
            self._outcomes[name] = SegmentTimes(
                ready[written.place],
                start[written.routed.node_indptr[written.place]],
                finish[written.place],
                part.windows,
                float(finish.max(initial=0.0)),
                part.waits,
            )
        outcome = self._outcomes[name]
        since = int(self._user[outcome.waits].min(initial=len(self.timed)))
        return TimedSegment(segment, name, outcome, base, entry, left, known, since)

    def routed(self, segment: Segment) -> Routed:
        """The segment, written out for the machine, with durations in ticks."""
        routed = segment.routed(self.schedule)
        changed = replace(routed, topology=self._machine(routed.topology))
        return in_ticks(alike(routed, changed), self._tick)

    def part(self, timed: TimedSegment) -> RunPart:
        """All times of a segment, from its begin on."""
        return self._part(timed.name, timed.segment, timed.entry, timed.left)

    def alone(self, segment: Segment, base: float) -> RunPart:
        """All times of a segment that begins at `base` and waits for nothing that others hold."""
        entry = segment.ready(self.finish) - base
        return self._simulated(segment, entry, np.zeros(len(segment.transfers.places)))

    def _part(
        self, name: tuple[object, ...], segment: Segment, entry: Floats, left: Floats
    ) -> RunPart:
        if name in self._parts:
            return self._parts[name]
        nodes = int(segment.transfers.routed.node_indptr[-1])
        nodes += sum(len(part.times.start) for part in self._parts.values())
        while self._parts and nodes > REMEMBERED_NODES:
            part = self._parts.pop(next(iter(self._parts)))
            nodes -= len(part.times.start)
            # Later explanations read the times of parts: then their room is not free.
            self._room = part.times if self._runs else None
        part = self._simulated(segment, entry, left)
        self._parts[name], self._room = part, None
        return part

    def _simulated(
        self, segment: Segment, entry: Floats, left: Floats, *, fills: bool = True
    ) -> RunPart:
        written, free = segment.transfers, np.zeros(len(self._free))
        free[written.places] = left
        ready = np.zeros(len(written.routed.schedule))
        ready[written.place] = np.maximum(entry, 0.0)
        routed = self.routed(segment)
        return run_part(routed, ready, free, written.parts, fills=fills, room=self._room)

    def _computed(self, segment: Segment, entry: Floats, base: float) -> SegmentTimes:
        """Computations that do not wait for each other."""
        lanes = segment.lanes
        start = np.maximum(entry, self._free[lanes] - base)
        finish = start + whole_ticks(self.schedule.seconds[segment.rows], self._tick)
        windows = Windows(lanes, entry, entry, finish)
        return SegmentTimes(
            entry, start, finish, windows, float(finish.max(initial=0.0)), lanes[:0]
        )


def _slots(segment: Segment) -> set[int]:
    return {part.slot for part, _ in segment.collectives}


@dataclass(frozen=True, eq=False)
class Replayed(Timeline):
    """The timeline of an outline, and how it came about."""

    replay: Replay | None = None


def replay(
    plan: Plan,
    seconds: Floats,
    machine: Callable[[Topology], Topology],
    tick: float,
    *,
    explained: bool = True,
) -> Replayed:
    """The timeline of an outline, of which computations take `seconds`; see :class:`Replay`."""
    run = Replay(plan, seconds, machine, tick, explained=explained)
    run.run()
    causes = np.full(len(run.schedule), -1, dtype=np.int32)
    routed = in_ticks(replace(plan.routed, schedule=run.schedule), tick)
    return Replayed(routed, run.ready, run.finish, run.start, causes, replay=run)
