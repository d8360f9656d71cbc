"""Times of an outline: each collective is simulated once for each way in which it is entered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple, TypeVar

import numpy as np

from simulator.engines import continued
from simulator.engines.continued import Part, Places, Windows
from simulator.kernels.records import Times
from simulator.schedules.routed import Routed, alike, in_ticks, whole_ticks
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from simulator.training.plan import Plan
from simulator.training.segments import (
    Entrance,
    Segment,
    Written,
    amounts,
    entrance,
    sized,
    structure,
    write,
)
from simulator.training.size import most_operations
from topologies.errors import InputError
from topologies.topology import Floats, Topology

Found = TypeVar("Found")
MOST_NODES = 2**26
"""So many nodes of simulated segments are remembered."""


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
    waits: Places
    """The lanes and media for which it waits that earlier segments hold."""


class Done(NamedTuple):
    """A segment in its place."""

    segment: Segment
    outcome: Outcome
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


class Replay:
    """The times of the outline `plan` under fifo.

    The outline is cut into segments. A segment is simulated from the times at which it is entered
    and from what earlier segments left on media and lanes, once for all that are alike. If a
    segment uses a medium or lane before an earlier one is through with it, the two are merged.
    """

    def __init__(
        self,
        plan: Plan,
        schedule: Schedule,
        machine: Callable[[Topology], Topology],
        tick: float,
        *,
        explained: bool = True,
    ) -> None:
        """`schedule` is that of the plan, with other seconds. `machine` is what changes of the
        topology. All durations are multiples of `tick`. A run that is `explained` remembers all
        times of its parts; another one finds them out if they are asked for."""
        self.plan, self.schedule, self._machine, self._tick = plan, schedule, machine, tick
        self._explained = explained
        self.rounds = 0
        """How often segments were merged because their windows overlap."""
        rows = len(self.schedule)
        self.ready, self.start, self.finish = np.zeros((3, rows))
        self._serials = self.schedule.ranks * (self.schedule.lanes + 1)
        self._free = np.zeros(self._serials + len(plan.topology.medium_bandwidth))
        self._last = np.full(len(self._free), -np.inf)
        self._user = np.full(len(self._free), -1)
        self._ends: dict[int, float] = {}
        self.done: list[Done] = []
        self._names: set[tuple[object, ...]] = set()
        changed = machine(plan.topology)
        columns = changed.latency, changed.medium_gap, changed.medium_bandwidth
        name = tick, *(column.tobytes() for column in columns)
        self._outcomes: dict[tuple[object, ...], Outcome] = plan.known.setdefault(name, {})
        self._parts: dict[tuple[object, ...], Part] = {}
        self._room: Times | None = None
        self._runs = True

    @property
    def places(self) -> int:
        """The number of lanes and media."""
        return len(self._free)

    @property
    def replayed(self) -> int:
        """Collectives that have the times of an earlier simulation."""
        return sum(len(done.segment.blocks) for done in self.done if done.known)

    def run(self) -> None:
        """Time everything."""
        pieces = self._pieces()
        while pieces:
            self._add(pieces)
        self._room, self._runs = None, False

    def _pieces(self) -> list[Segment]:
        """Each collective, and the computations between them, the last piece first."""
        pieces, first, blocks = list[Segment](), 0, iter(self.plan.blocks)
        for number, part in enumerate(self.plan.parts):
            called = () if part.collective is None else (next(blocks),)
            last = first + len(part.place) * (1 + len(called))
            pieces.append(Segment(first, last, called, slice(number, number + 1)))
            first = last
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
            self.rounds += 1
            earlier = reduce(Segment.until, (done.segment for done in self.done[overlap:]))
            segment = earlier.until(segment)
            # What overlaps goes on to: a segment that doubles is simulated a few times alone.
            more = len(earlier.blocks) - 1
            while pieces and more > 0:
                more -= len(pieces[-1].blocks)
                segment = segment.until(pieces.pop())
            operations = sum(len(block.region.schedule) for block in segment.blocks)
            if operations > most_operations():
                raise InputError(
                    f"{len(segment.blocks)} collectives that run at the same time have "
                    f"{operations:.3g} operations: take fewer ranks, or one stream, as fsdp:fsdp=1"
                )
            self._forget(overlap)

    def _keep(self, done: Done) -> None:
        segment, outcome = done.segment, done.outcome
        self.ready[segment.first : segment.last] = done.base + outcome.ready
        self.start[segment.first : segment.last] = done.base + outcome.start
        self.finish[segment.first : segment.last] = done.base + outcome.finish
        windows = outcome.windows
        self._free[windows.place] = done.base + windows.free
        self._last[windows.place] = np.maximum(self._last[windows.place], done.base + windows.last)
        self._user[windows.place] = len(self.done)
        for slot in _regions(segment):
            self._ends[slot] = max(self._ends.get(slot, 0.0), done.base + outcome.end)
        self.done.append(done)

    def _forget(self, number: int) -> None:
        kept = self.done[:number]
        self._free[:], self._last[:], self._user[:], self.done = 0.0, -np.inf, -1, []
        self._ends.clear()
        for done in kept:
            self._keep(done)

    def _overlap(self, done: Done) -> int | None:
        """The earliest segment that still uses what a segment uses, or None."""
        windows, regions = done.outcome.windows, _regions(done.segment)
        arrival = done.base + windows.first
        used = bool(np.any(self._last[windows.place] > arrival))
        if not used and all(self._ends.get(slot, 0.0) <= done.base for slot in regions):
            return None
        first = np.full(len(self._free), np.inf)
        first[windows.place] = arrival
        for number, earlier in enumerate(self.done):
            lasts = earlier.base + earlier.outcome.end > done.base
            if lasts and regions & _regions(earlier.segment):
                return number
            if used:
                others = earlier.outcome.windows
                if np.any(earlier.base + others.last > first[others.place]):
                    return number
        return None

    def _timed(self, segment: Segment) -> Done:
        entered = self.entrance(segment)
        ready = entered.ready(self.finish)
        base = float(np.maximum(ready[entered.roots], 0.0).min(initial=np.inf))
        entry = ready - base
        if not segment.blocks and entered.is_independent:
            entry = np.maximum(entry, 0.0)
            outcome = self._computed(segment, entered.lanes, entry, base)
            return Done(segment, outcome, base, entry, np.zeros(0), False, len(self.done))
        written = self.written(segment)
        left = np.maximum(self._free[written.places] - base, 0.0)
        name = self._name(segment, entry, left)
        known = name in self._names
        self._names.add(name)
        if name not in self._outcomes:
            if self._explained:
                part = self._part(name, segment, entry, left)
            else:
                part = self._simulated(segment, entry, left, fills=False)
                self._room = part.times
            times = (part.times.ready, part.times.start, part.times.finish)
            nodes = written.routed.node_indptr[written.place]
            self._outcomes[name] = Outcome(
                times[0][written.place],
                times[1][nodes],
                times[2][written.place],
                part.windows,
                float(times[2].max(initial=0.0)),
                part.waits,
            )
        outcome = self._outcomes[name]
        since = int(self._user[outcome.waits].min(initial=len(self.done)))
        return Done(segment, outcome, base, entry, left, known, since)

    def entrance(self, segment: Segment) -> Entrance:
        """What the segment waits for, found once for all simulations of the plan."""
        rows = segment.first, segment.last
        return self._once("entrances", rows, lambda: entrance(self.schedule, segment))

    def written(self, segment: Segment) -> Written:
        """The segment, written out; all that are alike share this."""
        return self._once("written", self._structure(segment), lambda: write(self.plan, segment))

    def _structure(self, segment: Segment) -> tuple[object, ...]:
        """The structure of a segment, which is the same for all seconds of computations."""
        rows = segment.first, segment.last
        return self._once("structures", rows, lambda: structure(self.schedule, segment))

    def _once(self, what: str, key: object, find: Callable[[], Found]) -> Found:
        """What all simulations of the plan find out once."""
        known = self.plan.known.setdefault(what, {})
        if key not in known:
            known[key] = find()
        result: Found = known[key]
        return result

    def _name(self, segment: Segment, entry: Floats, left: Floats) -> tuple[object, ...]:
        """What has the same outcome."""
        return (
            *self._structure(segment),
            *amounts(self.schedule, segment),
            np.maximum(entry, 0.0).tobytes(),
            left.tobytes(),
        )

    def routed(self, segment: Segment) -> Routed:
        """The segment, written out for the machine, with durations in ticks."""
        routed = sized(self.written(segment), self.schedule, segment)
        changed = replace(routed, topology=self._machine(routed.topology))
        return in_ticks(alike(routed, changed), self._tick)

    def part(self, done: Done) -> Part:
        """All times of a segment, from its begin on."""
        return self._part(self.name(done), done.segment, done.entry, done.left)

    def spread(self, done: Done) -> Floats:
        """When each lane and medium is free of segments before a segment, from its begin on; 0 if
        the segment does not use it."""
        return self._spread(self.written(done.segment), done.left)

    def _spread(self, written: Written, left: Floats) -> Floats:
        free = np.zeros(self.places)
        free[written.places] = left
        return free

    def name(self, done: Done) -> tuple[object, ...]:
        """What segments with the same times have in common."""
        return self._name(done.segment, done.entry, done.left)

    def _part(
        self, name: tuple[object, ...], segment: Segment, entry: Floats, left: Floats
    ) -> Part:
        if name in self._parts:
            return self._parts[name]
        needed = int(self.written(segment).routed.node_indptr[-1])
        while self._parts and needed + self._nodes > MOST_NODES:
            part = self._parts.pop(next(iter(self._parts)))
            # Later explanations read the times of parts: then their room is not free.
            self._room = part.times if self._runs else None
        part = self._simulated(segment, entry, left)
        self._parts[name], self._room = part, None
        return part

    @property
    def _nodes(self) -> int:
        """The nodes of parts that are remembered."""
        return sum(len(part.times.start) for part in self._parts.values())

    def _simulated(
        self, segment: Segment, entry: Floats, left: Floats, *, fills: bool = True
    ) -> Part:
        written = self.written(segment)
        ready = np.zeros(len(written.routed.schedule))
        ready[written.place] = np.maximum(entry, 0.0)
        free = self._spread(written, left)
        routed, room = self.routed(segment), self._room
        return continued.run(routed, ready, free, written.parts, fills=fills, room=room)

    def _computed(self, segment: Segment, lanes: Places, entry: Floats, base: float) -> Outcome:
        """Computations on `lanes` that do not wait for each other."""
        start = np.maximum(entry, self._free[lanes] - base)
        seconds = self.schedule.seconds[segment.first : segment.last]
        finish = start + whole_ticks(seconds, self._tick)
        end = float(finish.max(initial=0.0))
        windows = Windows(lanes, entry, entry, finish)
        return Outcome(entry, start, finish, windows, end, lanes[:0])


def _regions(segment: Segment) -> set[int]:
    return {block.region.slot for block in segment.blocks}


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
    schedule = replace(plan.schedule, seconds=seconds)
    run = Replay(plan, schedule, machine, tick, explained=explained)
    run.run()
    causes = np.full(len(schedule), -1, dtype=np.int32)
    routed = in_ticks(replace(plan.routed, schedule=schedule), tick)
    return Replayed(routed, run.ready, run.finish, run.start, causes, replay=run)
