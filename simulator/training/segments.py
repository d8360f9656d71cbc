"""Parts of an outline with their collectives written out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simulator.engines.compiled import used
from simulator.kernels.repeats import Parts
from simulator.schedules.alike_steps import alike_steps
from simulator.schedules.routed import Routed, alike, route
from simulator.schedules.schedule import Schedule
from simulator.training.plan import Plan
from simulator.training.step_lowering import TaskRows, add_parts, builder_of, layout
from topologies.columns import owners
from topologies.topology import Floats, Ints, Longs


class SegmentTransfers(NamedTuple):
    """A segment, written out."""

    routed: Routed
    places: Longs
    """The media and lanes that it uses."""
    place: Ints
    """The operation that is written for each operation of the outline."""
    between: tuple[Ints, ...]
    """The operations of each collective but for entering and leaving."""
    parts: Parts
    """Where its steps are alike."""
    nbytes: dict[tuple[float, ...], Floats]
    """The bytes of all operations, by the sizes of the collectives."""


@dataclass(frozen=True, eq=False)
class Segment:
    """The parts `begin` to `end` - 1 of an outline."""

    plan: Plan
    begin: int
    end: int

    @cached_property
    def parts(self) -> tuple[TaskRows, ...]:
        """Its parts."""
        return self.plan.parts[self.begin : self.end]

    @cached_property
    def collectives(self) -> list[tuple[TaskRows, Schedule]]:
        """Its collectives."""
        return [(part, part.schedule) for part in self.parts if part.schedule is not None]

    @cached_property
    def rows(self) -> slice:
        """Its operations in the outline."""
        begin, end = self.parts[0].tasks.start, self.parts[-1].tasks.stop
        return slice(int(self.plan.first[begin]), int(self.plan.last[end - 1]) + 1)

    @cached_property
    def slots(self) -> dict[tuple[int, int], Schedule]:
        """Its collectives by the first slots of their buffer and of their scratch."""
        return {(part.slot, part.scratch): schedule for part, schedule in self.collectives}

    @cached_property
    def _waits(self) -> tuple[Ints, Ints]:
        """What its operations wait for: the operation that waits, and that before it, both counted
        from its first operation on."""
        schedule, rows = self.plan.schedule, self.rows
        indptr = schedule.indptr[rows.start : rows.stop + 1]
        return owners(indptr), schedule.indices[indptr[0] : indptr[-1]] - rows.start

    @cached_property
    def structure(self) -> tuple[object, ...]:
        """What two segments have in common that are written out alike but for bytes and seconds."""
        schedule, rows, (row, before) = self.plan.schedule, self.rows, self._waits
        columns = schedule.rank[rows], schedule.lane[rows], row[before >= 0], before[before >= 0]
        numbers = {slots: number for number, slots in enumerate(self.slots)}
        return (
            *(column.tobytes() for column in columns),
            *(id(schedule.indices) for _, schedule in self.collectives),
            *(numbers[part.slot, part.scratch] for part, _ in self.collectives),
            *(int(self.plan.first[part.begin]) - rows.start for part, _ in self.collectives),
        )

    @cached_property
    def lanes(self) -> Longs:
        """The lane of each operation, as rank · (lanes + 1) + lane."""
        schedule, rows = self.plan.schedule, self.rows
        rank = schedule.rank[rows].astype(np.int64)
        return rank * (schedule.lanes + 1) + schedule.lane[rows]

    @cached_property
    def roots(self) -> Ints:
        """The operations that wait for nothing in the segment."""
        row, before = self._waits
        inner = np.bincount(row[before >= 0], minlength=len(self.lanes))
        return np.flatnonzero(inner == 0).astype(np.int32)

    @cached_property
    def is_computed(self) -> bool:
        """Whether its operations are computations that do not wait for each other."""
        alone = not self.collectives and len(self.roots) == len(self.lanes)
        assert not alone or len(np.unique(self.lanes)) == len(self.lanes)
        return alone

    def ready(self, finish: Floats) -> Floats:
        """When what each operation waits for before the segment is finished, -inf if it waits for
        nothing there. `finish` has a time for each operation of the outline."""
        ready, (row, before) = np.full(len(self.lanes), -np.inf), self._waits
        outer = before < 0
        np.maximum.at(ready, row[outer], finish[before[outer] + self.rows.start])
        return ready

    @cached_property
    def sizes(self) -> tuple[float, ...]:
        """The bytes of its collectives."""
        return tuple(schedule.nbytes_total for _, schedule in self.collectives)

    @cached_property
    def transfers(self) -> SegmentTransfers:
        """The segment, written out; all of the same structure share this."""
        known = self.plan.known.setdefault("transfers", {})
        if self.structure not in known:
            known[self.structure] = _write(self)
        result: SegmentTransfers = known[self.structure]
        return result

    def routed(self, schedule: Schedule) -> Routed:
        """The segment, written out, with the seconds of its operations in a schedule."""
        routed, place = self.transfers.routed, self.transfers.place
        seconds, lasting = routed.schedule.seconds, schedule.seconds[self.rows]
        if not np.array_equal(seconds[place], lasting):
            seconds = seconds.copy()
            seconds[place] = lasting
        changed = replace(routed.schedule, nbytes=self._nbytes(), seconds=seconds)
        vars(changed)["successors"] = routed.schedule.successors
        return alike(routed, replace(routed, schedule=changed))

    def _nbytes(self) -> Floats:
        written = self.transfers
        if self.sizes in written.nbytes:
            return written.nbytes[self.sizes]
        nbytes = written.routed.schedule.nbytes.copy()
        for (_, schedule), operations in zip(self.collectives, written.between, strict=True):
            if len(operations):
                nbytes[operations[0] : operations[-1] + 1] = schedule.nbytes
        if (len(written.nbytes) + 1) * len(nbytes) <= 2**22:
            # The bytes of further sizes would take too much memory.
            written.nbytes[self.sizes] = nbytes
        return nbytes


def segment_of(plan: Plan, begin: int, end: int) -> Segment:
    """The segment of some parts, the same for all simulations of a plan."""
    segments = plan.known.setdefault("segments", {})
    if (begin, end) not in segments:
        segments[begin, end] = Segment(plan, begin, end)
    segment: Segment = segments[begin, end]
    return segment


def _write(segment: Segment) -> SegmentTransfers:
    outline, plan = segment.plan.schedule, segment.plan
    nbytes, sizes, places = layout([*segment.slots.values()])
    fold = next((schedule.fold for schedule in segment.slots.values()), None)
    builder = builder_of(replace(outline, fold=fold), nbytes, **sizes)
    # All segments share the lanes of the outline.
    builder.compute(np.zeros(0, dtype=np.int32), 0.0, lane=outline.lanes - 1)
    slots = dict(zip(segment.slots, places, strict=True))
    moved = []
    for part in segment.parts:
        slot, scratch = slots.get((part.slot, part.scratch), (-1, -1))
        moved.append(part._replace(slot=slot, scratch=scratch))
    first, last, between = add_parts(builder, moved)
    begin, end = moved[0].begin, moved[-1].tasks.stop
    place = np.zeros(len(segment.lanes), dtype=np.int32)
    place[plan.first[begin:end] - segment.rows.start] = first
    place[plan.last[begin:end] - segment.rows.start] = last
    routed = route(builder.build(), plan.topology)
    _ = routed.peer, routed.sender  # Once for all segments that are alike.
    used_places = used(routed)
    steps = alike_steps(routed, used_places[used_places < routed.work.ranks.serials])
    return SegmentTransfers(routed, used_places, place, between, steps, {})
