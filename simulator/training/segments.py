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
from simulator.training.step_lowering import Block, Region, add_collective, layout
from topologies.topology import Floats, Ints, Topology


@dataclass(frozen=True, eq=False)
class Segment:
    """The operations `first` to `last` - 1 of an outline, with the collectives among them."""

    first: int
    last: int
    blocks: tuple[Block, ...]


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


def groups(schedule: Schedule, first: int, last: int) -> list[tuple[int, int]]:
    """Cut operations of an outline into ranges in which none waits for another."""
    begin, end = schedule.indptr[first:last], schedule.indptr[first + 1 : last + 1]
    latest, some = np.full(last - first, -1, dtype=np.int32), np.flatnonzero(end > begin)
    if len(some):
        waits = schedule.indices[: end[-1]]
        latest[some] = np.maximum.reduceat(waits, begin[some])
    cuts = [first]
    for row, before in enumerate(latest.tolist(), first):
        if before >= cuts[-1] and row > cuts[-1]:
            cuts.append(row)
    return list(zip(cuts, [*cuts[1:], last], strict=True)) if last > first else []


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


def write(schedule: Schedule, segment: Segment, topology: Topology) -> Written:
    """Write the segment out."""
    regions = _regions(segment)
    builder, slots = _builder(schedule, list(regions.values()))
    place = np.zeros(segment.last - segment.first, dtype=np.int32)
    row, between = segment.first, []
    for block in segment.blocks:
        _compute(schedule, builder, segment, place, row, int(block.first[0]))
        region = slots[list(regions).index(_place(block.region))]
        rows = block.first
        lane = int(schedule.lane[rows[0]])
        added = add_collective(
            builder,
            region,
            schedule.rank[rows],
            _waits(schedule, segment, place, int(rows[0]), int(rows[-1]) + 1),
            lane,
            (schedule.seconds[rows], schedule.seconds[block.last]),
        )
        between.append(added.between)
        place[rows - segment.first] = added.first
        place[block.last - segment.first] = added.last
        row = int(block.last[-1]) + 1
    _compute(schedule, builder, segment, place, row, segment.last)
    routed = route(builder.build(), topology)
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


def _compute(
    schedule: Schedule,
    builder: ScheduleBuilder,
    segment: Segment,
    place: Ints,
    first: int,
    last: int,
) -> None:
    for begin, end in groups(schedule, first, last):
        rows = slice(begin, end)
        place[begin - segment.first : end - segment.first] = builder.compute(
            schedule.rank[rows],
            schedule.seconds[rows],
            lane=schedule.lane[rows],
            after=_waits(schedule, segment, place, begin, end),
        )


def _waits(schedule: Schedule, segment: Segment, place: Ints, begin: int, end: int) -> Ints:
    """What each operation of a range waits for within the segment, -1 for none."""
    first, last = schedule.indptr[begin], schedule.indptr[end]
    count = np.diff(schedule.indptr[begin : end + 1])
    result = np.full((end - begin, max(1, int(count.max(initial=0)))), -1, dtype=np.int32)
    row = np.repeat(np.arange(end - begin), count)
    column = np.arange(last - first) - (schedule.indptr[begin:end] - first)[row]
    before = schedule.indices[first:last]
    inner = before >= segment.first
    result[row[inner], column[inner]] = place[before[inner] - segment.first]
    return result


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
