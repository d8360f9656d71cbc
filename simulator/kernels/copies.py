"""How many bytes ranks hold over time, and how many copies of a value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.kernels.cells import CellLayout, Contents, Moments
from simulator.kernels.records import Floats, Index, Ints, Operations


class ValueCopies(NamedTuple):
    """The copies of each value in memory at a time."""

    number: Ints
    """How many there are, or -1 once the value is dead."""
    slot: Ints
    """One more than the place in the sizes of the slot of the first copy: the size of the value. It
    is negative until the value counts."""
    changed: Ints
    """A stack of values whose number left or reached 0 in this moment; some are there twice."""
    height: Ints
    """How many there are in the stack, shape (1,)."""

    @classmethod
    def none(cls, values: int, versions: int) -> ValueCopies:
        """No copy of any value. Each version comes and goes once, and each value dies once."""
        number, slot = (np.zeros(values, np.int32) for _ in range(2))
        room = values + 2 * versions
        return cls(number, slot, np.empty(room, np.int32), np.zeros(1, np.int32))


class Events(NamedTuple):
    """What appears in memory, or vanishes, beside the finishes of operations."""

    arrivals: Ints
    """Reducing transfers into memory, by their start."""
    times: Floats
    """When other bytes appear or vanish, in ascending order."""
    nbytes: Floats
    rank: Ints
    """Where they do, or -1 for bytes of distinct live values."""


class MemoryLevels(NamedTuple):
    """Bytes now, and at the ends of steps."""

    place: Ints
    """Where each rank is counted: ranks of one place are counted together."""
    held: Floats
    """What each place holds."""
    peaks: Floats
    """The most that each place held at the end of a step before its last change."""
    step: Ints
    """The step of the last change of each place."""
    totals: Floats
    """What changed in this step: the bytes that all ranks hold, and those of distinct live values.
    The third entry is the number of changes in all steps."""
    times: Floats
    """When each step begins."""
    resident: Floats
    live: Floats

    @classmethod
    def blank(cls, place: Ints, steps: int) -> MemoryLevels:
        """Nothing is held; room for so many steps."""
        places = int(place.max()) + 1
        return cls(
            place,
            np.zeros(places),
            np.zeros(places),
            np.full(places, -1, np.int32),
            np.zeros(3),
            np.empty(steps),
            np.empty(steps),
            np.empty(steps),
        )


def follow(
    moments: Moments,
    operations: Operations,
    layout: CellLayout,
    contents: Contents,
    copies: ValueCopies,
    events: Events,
    levels: MemoryLevels,
) -> int:
    """Bytes held, and bytes of distinct live values, over time; returns the number of steps.

    `contents` are those that `fill` leaves.
    """
    order, start, finish = moments.order, moments.start, moments.finish
    arrivals, times, totals = events.arrivals, events.times, levels.totals
    place: Index = 0 * len(order)  # A literal 0 would have `_finish` compiled twice.
    steps, arrived, other, time, last, changes = 0, 0, 0, 0.0, 0.0, 0.0
    resident, live = 0.0, 0.0
    _begin(layout, contents, copies, levels)
    while time < np.inf:
        opens = steps == 0 or time - last > moments.tolerance
        step = steps if opens else steps - 1
        if opens:
            resident, live = resident + totals[0], live + totals[1]
            totals[0], totals[1] = 0.0, 0.0
        while arrived < len(arrivals) and start[arrivals[arrived]] == time:
            i = arrivals[arrived]
            _weigh(operations.peer[i], operations.nbytes[i], step, levels)
            arrived += 1
        while other < len(times) and times[other] == time:
            _weigh(events.rank[other], events.nbytes[other], step, levels)
            other += 1
        if place < len(order) and finish[order[place]] == time:
            place = _finish(place, step, moments, operations, layout, contents, copies, levels)
        _settle(layout.size, copies, levels)
        if totals[2] > changes:
            changes, last, steps = totals[2], time, step + 1
            if opens:
                levels.times[step] = time
            levels.resident[step] = resident + totals[0]
            levels.live[step] = live + totals[1]
        time = np.inf
        if arrived < len(arrivals):
            time = start[arrivals[arrived]]
        if other < len(times):
            time = min(time, times[other])
        if place < len(order):
            time = min(time, finish[order[place]])
    for spot in range(len(levels.held)):
        levels.peaks[spot] = max(levels.peaks[spot], levels.held[spot])
    return steps


def _begin(
    layout: CellLayout, contents: Contents, copies: ValueCopies, levels: MemoryLevels
) -> None:
    """Let every cell hold its first version, and every worker its buffer."""
    contents.written[0] = 0
    for rank in range(len(levels.place)):
        spot = levels.place[rank]
        levels.step[spot] = 0
        for slot in range(layout.slots):
            version = contents.written[0]
            contents.version[version] = version
            contents.written[0] = version + 1
            if rank >= layout.workers or slot >= layout.buffer:
                contents.value[version] = -1
                continue
            place = rank * layout.stride + slot
            levels.held[spot] += layout.size[place]
            levels.totals[0] += layout.size[place]
            levels.totals[2] += 1
            value = contents.value[version]
            if value >= 0:
                copies.number[value], copies.slot[value] = 1, place + 1
                levels.totals[1] += layout.size[place]


def _finish(
    place: Index,
    step: Index,
    moments: Moments,
    operations: Operations,
    layout: CellLayout,
    contents: Contents,
    copies: ValueCopies,
    levels: MemoryLevels,
) -> Index:
    """Finish the operations from `place` on that finish together; returns the place behind."""
    order, finish = moments.order, moments.finish
    ranks, peers, reduces = operations.rank, operations.peer, operations.reduces
    sources, targets, counts = operations.source, operations.target, operations.count
    slots, buffer, workers, memory = layout.slots, layout.buffer, layout.workers, layout.memory
    version, value, last_read = contents.version, contents.value, contents.last_read
    written, time = contents.written[0], finish[order[place]]
    while place < len(order) and finish[order[place]] == time:
        i = order[place]
        rank, peer, source, target = ranks[i], peers[i], sources[i], targets[i]
        if reduces[i] and rank != peer and peer * slots < memory:
            _weigh(peer, -operations.nbytes[i], step, levels)
        for j in range(counts[i]):
            if reduces[i] and source >= 0:
                merged = value[version[rank * slots + source + j]]
                if last_read[merged] == place:
                    _lose(merged, copies.number[merged] + 1, copies)
            if target >= 0:
                cell = peer * slots + target + j
                before, after = value[version[cell]], value[written]
                version[cell] = written
                written += 1
                if cell < memory and before >= 0:
                    _lose(before, 1, copies)
                if cell < memory and after >= 0:
                    _gain(after, peer * layout.stride + target + j, copies)
        for j in range(counts[i]):
            if source >= 0 and (source + j >= buffer or rank >= workers):
                _release(rank, source + j, place, step, layout, contents, copies, levels)
            if target >= 0 and (target + j >= buffer or peer >= workers):
                _release(peer, target + j, place, step, layout, contents, copies, levels)
        place += 1
    contents.written[0] = written
    return place


def _release(
    rank: Index,
    slot: Index,
    place: Index,
    step: Index,
    layout: CellLayout,
    contents: Contents,
    copies: ValueCopies,
    levels: MemoryLevels,
) -> None:
    """Give up a cell of scratch after its last use."""
    cell = rank * layout.slots + slot
    if cell >= layout.memory:
        return
    spare = cell - layout.buffer * min(rank + 1, layout.workers)
    if contents.last_use[spare] == place:
        contents.last_use[spare] = -1
        nbytes = float(layout.size[rank * layout.stride + slot])
        _weigh(rank, -nbytes, step, levels)
        version = int(contents.version[cell])
        if contents.value[version] >= 0:
            _lose(contents.value[version], 1, copies)


def _weigh(rank: Index, nbytes: float, step: Index, levels: MemoryLevels) -> None:
    """Let a rank hold `nbytes` more, or with rank -1 let that be the bytes of live values."""
    levels.totals[2] += 1
    if rank < 0:
        levels.totals[1] += nbytes
        return
    spot = levels.place[rank]
    if levels.step[spot] != step:
        levels.step[spot] = step
        levels.peaks[spot] = max(levels.peaks[spot], levels.held[spot])
    levels.held[spot] += nbytes
    levels.totals[0] += nbytes


def _gain(value: Index, slot: Index, copies: ValueCopies) -> None:
    """Count one copy more of a value that is not dead."""
    if copies.number[value] < 0:
        return
    copies.number[value] += 1
    if copies.number[value] == 1:
        if copies.slot[value] <= 0:
            copies.slot[value] = -1 - slot
        _change(value, copies)


def _lose(value: Index, count: Index, copies: ValueCopies) -> None:
    """Count fewer copies of a value that is not dead; a value with less than none is dead."""
    if copies.number[value] < 0:
        return
    copies.number[value] -= count
    if copies.number[value] <= 0:
        _change(value, copies)


def _change(value: Index, copies: ValueCopies) -> None:
    copies.changed[copies.height[0]] = value
    copies.height[0] += 1


def _settle(size: Floats, copies: ValueCopies, levels: MemoryLevels) -> None:
    """Count the bytes of the values that live after a moment, and did not before it or the other
    way round."""
    number, slot, totals = copies.number, copies.slot, levels.totals
    for k in range(copies.height[0]):
        value = copies.changed[k]
        if slot[value] < 0 and number[value] > 0:
            slot[value] = -slot[value]
            totals[1] += size[slot[value] - 1]
            totals[2] += 1
        elif slot[value] > 0 and number[value] <= 0:
            totals[1] -= size[slot[value] - 1]
            totals[2] += 1
            slot[value] = 0
    copies.height[0] = 0
