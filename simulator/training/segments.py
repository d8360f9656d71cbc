"""Parts of an outline with their collectives written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from simulator.engines.continued import Places, used
from simulator.kernels.repeats import Parts
from simulator.schedules.alike_steps import alike_steps
from simulator.schedules.routed import Routed, alike, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Folded
from simulator.training.plan import Plan
from simulator.training.step_lowering import Block, Region, add_collective, layout
from topologies.topology import Floats, Ints


@dataclass(frozen=True, eq=False)
class Segment:
    """The operations `first` to `last` - 1 of an outline, with the collectives among them."""

    first: int
    last: int
    blocks: tuple[Block, ...]
    parts: slice
    """The parts of the outline that these operations are of."""

    def until(self, later: Segment) -> Segment:
        """This segment and all behind it up to a later one, with the collectives of both."""
        parts = slice(self.parts.start, later.parts.stop)
        return Segment(self.first, later.last, (*self.blocks, *later.blocks), parts)


class Written(NamedTuple):
    """A segment, written out."""

    routed: Routed
    places: Places
    """The media and lanes that it uses."""
    place: Ints
    """The operation that is written for each operation of the outline."""
    between: tuple[Ints, ...]
    """The operations of each collective but for entering and leaving."""
    parts: Parts
    """Where its steps are alike."""
    nbytes: dict[tuple[float, ...], Floats]
    """The bytes of all operations, by the sizes of the collectives."""


def structure(schedule: Schedule, segment: Segment) -> tuple[object, ...]:
    """What two segments have in common that are written out alike but for bytes and seconds."""
    rows = slice(segment.first, segment.last)
    begin, end = schedule.indptr[segment.first], schedule.indptr[segment.last]
    before = schedule.indices[begin:end] - segment.first
    row = np.repeat(
        np.arange(segment.last - segment.first),
        np.diff(schedule.indptr[segment.first : segment.last + 1]),
    )
    columns = schedule.rank[rows], schedule.lane[rows]
    waits = row[before >= 0], before[before >= 0]
    names = {region: k for k, region in enumerate(_regions(segment))}
    return (
        *(column.tobytes() for column in (*columns, *waits)),
        *(id(block.region.schedule.indices) for block in segment.blocks),
        *(names[_place(block.region)] for block in segment.blocks),
        *(int(block.first[0]) - segment.first for block in segment.blocks),
    )


def write(plan: Plan, segment: Segment) -> Written:
    """Write the segment out."""
    regions = _regions(segment)
    builder, slots = _builder(plan.schedule, list(regions.values()))
    region_of = dict(zip(regions, slots, strict=True))
    rows = slice(*np.searchsorted(plan.first, (segment.first, segment.last)))
    first, last = np.full((2, rows.stop - rows.start), -1, dtype=np.int32)
    blocks, between, end = iter(segment.blocks), list[Ints](), 0
    for part in plan.parts[segment.parts]:
        tasks, end = slice(end, end + len(part.place)), end + len(part.place)
        before = part.after - rows.start
        waits = np.where(before >= 0, last[np.maximum(before, 0)], -1)
        if part.collective is None:
            first[tasks] = last[tasks] = builder.compute(
                part.place, part.seconds, lane=part.lane, after=waits
            )
            continue
        region = region_of[_place(next(blocks).region)]
        added = add_collective(builder, region, part.place, waits, part.lane, part.seconds)
        first[tasks], last[tasks] = added.first, added.last
        between.append(added.between)
    place = np.zeros(segment.last - segment.first, dtype=np.int32)
    place[plan.first[rows] - segment.first] = first
    place[plan.last[rows] - segment.first] = last
    routed = route(builder.build(), plan.topology)
    _ = routed.peer, routed.sender  # Once for all segments that are alike.
    places = used(routed)
    parts = alike_steps(routed, places[places < routed.work.ranks.serials])
    return Written(routed, places, place, tuple(between), parts, {})


def amounts(schedule: Schedule, segment: Segment) -> tuple[object, ...]:
    """The bytes and seconds of a segment, as a key."""
    nbytes = (block.region.schedule.nbytes_total for block in segment.blocks)
    return schedule.seconds[segment.first : segment.last].tobytes(), *nbytes


def sized(written: Written, schedule: Schedule, segment: Segment) -> Routed:
    """What is written for a segment, with the bytes and seconds of another that is alike."""
    routed, seconds = written.routed, written.routed.schedule.seconds
    lasting = schedule.seconds[segment.first : segment.last]
    if not np.array_equal(seconds[written.place], lasting):
        seconds = seconds.copy()
        seconds[written.place] = lasting
    changed = replace(routed.schedule, nbytes=_nbytes(written, segment), seconds=seconds)
    vars(changed)["successors"] = routed.schedule.successors
    return alike(routed, replace(routed, schedule=changed))


MOST_REMEMBERED = 2**22
"""Operations of a written segment whose bytes are remembered, for all sizes together."""


def _nbytes(written: Written, segment: Segment) -> Floats:
    """The bytes of all operations, where collectives have the sizes of those of a segment."""
    sizes = tuple(block.region.schedule.nbytes_total for block in segment.blocks)
    if sizes in written.nbytes:
        return written.nbytes[sizes]
    nbytes = written.routed.schedule.nbytes.copy()
    for block, operations in zip(segment.blocks, written.between, strict=True):
        if len(operations):
            nbytes[operations[0] : operations[-1] + 1] = block.region.schedule.nbytes
    if (len(written.nbytes) + 1) * len(nbytes) <= MOST_REMEMBERED:
        written.nbytes[sizes] = nbytes
    return nbytes


def _place(region: Region) -> tuple[int, int]:
    return region.slot, region.scratch


def _regions(segment: Segment) -> dict[tuple[int, int], Region]:
    return {_place(block.region): block.region for block in segment.blocks}


def _builder(schedule: Schedule, regions: Sequence[Region]) -> tuple[ScheduleBuilder, list[Region]]:
    slots = layout([region.schedule for region in regions])
    folds = [region.schedule.fold for region in regions]
    fold = folds[0] if folds else None
    builder = ScheduleBuilder(
        schedule.workers if fold is None else Folded(fold.shifts, (), fold.channels),
        slots.nbytes,
        slots=slots.buffer,
        scratch=slots.scratch,
        servers=schedule.ranks - schedule.workers - schedule.switches,
        switches=schedule.switches,
    )
    # All segments share the lanes of the outline.
    builder.compute(np.zeros(0, dtype=np.int32), 0.0, lane=schedule.lanes - 1)
    return builder, slots.regions


class Entrance(NamedTuple):
    """What a segment waits for."""

    rows: int
    """The number of its operations."""
    waiting: Ints
    """The operation that waits, for each operation before the segment that one waits for."""
    before: Ints
    """What these wait for."""
    roots: Ints
    """The operations that wait for nothing in the segment."""
    lanes: Places
    """The lane of each operation, as rank · (lanes + 1) + lane."""

    @property
    def is_independent(self) -> bool:
        """Whether no operation waits for another one of the segment."""
        return len(self.roots) == self.rows

    def ready(self, finish: Floats) -> Floats:
        """When what each operation waits for before the segment is finished, -inf if it waits for
        nothing there. `finish` has a time for each operation of the outline."""
        ready = np.full(self.rows, -np.inf)
        np.maximum.at(ready, self.waiting, finish[self.before])
        return ready


def entrance(schedule: Schedule, segment: Segment) -> Entrance:
    """What the operations of `segment` wait for."""
    rows = slice(segment.first, segment.last)
    before = schedule.indices[schedule.indptr[segment.first] : schedule.indptr[segment.last]]
    count = np.diff(schedule.indptr[segment.first : segment.last + 1])
    row = np.repeat(np.arange(len(count)), count)
    outer = before < segment.first
    waits = np.bincount(row[~outer], minlength=len(count))
    roots = np.flatnonzero(waits == 0).astype(np.int32)
    lanes = schedule.rank[rows].astype(np.int64) * (schedule.lanes + 1) + schedule.lane[rows]
    assert segment.blocks or len(roots) < len(count) or len(np.unique(lanes)) == len(lanes)
    return Entrance(len(count), row[outer].astype(np.int32), before[outer], roots, lanes)
