"""Which values the cells of memory hold as operations finish, and when the values are read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.kernels.records import COMPUTE, Floats, Index, Ints, Longs, Operations

_MASK = (1 << 62) - 1
"""Numbers of values have 62 bits, so that a sum of two needs no more than 63."""


class Moments(NamedTuple):
    """When operations start and finish, and what counts as one moment."""

    order: Ints
    """Operations by their finish."""
    start: Floats
    finish: Floats
    tolerance: float
    """Times that are no further apart belong to one step."""


class CellLayout(NamedTuple):
    """The cells (rank, slot), numbered rank by rank."""

    size: Floats
    """Bytes of each slot: of one rank if all are alike, else of each rank after the one before."""
    slots: int
    """Slots of a rank."""
    stride: int
    """The distance in `size` from a rank to the next: 0 if all ranks are alike."""
    buffer: int
    """Slots of a worker's buffer. Its cells are held always; all others are scratch, held from the
    first use to the last."""
    workers: int
    cells: int
    memory: int
    """Cells before those of switches. What switches hold does not count."""


class Contents(NamedTuple):
    """What the cells hold. Every cell begins with the version of its own number; every write makes
    one more."""

    version: Ints
    """The present version of each cell; in `fill` its complement until the version is read."""
    value: Ints
    """The value of each version, or -1 if the version is overwritten unread."""
    written: Ints
    """The number of all versions so far, shape (1,)."""
    last_read: Ints
    """Of each value the place, in the order of finishes, of its last read in memory, or -1."""
    first_use: Floats
    """Of each cell of scratch in memory the time of its first use, or inf."""
    last_use: Ints
    """Of each cell of scratch in memory the place of its last use, or -1."""
    number: Longs
    """A number for each sum and result, the same for equal ones. A sum has the sum of the numbers,
    modulo 2^62."""
    values: Ints
    """How many values there are, shape (1,): those of the cells at first, then sums and results of
    computations."""

    @classmethod
    def blank(cls, layout: CellLayout, versions: int, values: int) -> Contents:
        """Every cell holds a value of its own, and those of switches hold one together; nothing is
        read. There is room for so many versions and values."""
        spare = layout.memory - layout.workers * layout.buffer
        value = np.empty(versions, np.int32)
        value[: layout.cells] = np.arange(layout.cells, dtype=np.int32)
        value[layout.memory : layout.cells] = layout.memory
        return cls(
            np.arange(-1, -1 - layout.cells, -1, dtype=np.int32),
            value,
            np.array([layout.cells], np.int32),
            np.full(values, -1, np.int32),
            np.full(spare, np.inf),
            np.full(spare, -1, np.int32),
            np.empty(values - layout.cells, np.int64),
            np.array([layout.cells], np.int32),
        )


def fill(moments: Moments, operations: Operations, layout: CellLayout, contents: Contents) -> None:
    """Find the value of every version, and the last read of every value.

    What a computation writes is a new value, the same for the same value read, and no sum of
    others. Equal sums and results count as several values, with the same number. Where a cell is
    used first and last is noted, too.
    """
    order, start = moments.order, moments.start
    ranks, peers, kind = operations.rank, operations.peer, operations.kind
    sources, targets = operations.source, operations.target
    counts, reduces = operations.count, operations.reduces
    slots, buffer, workers, memory = layout.slots, layout.buffer, layout.workers, layout.memory
    version, value, last_read = contents.version, contents.value, contents.last_read
    written = layout.cells
    for place in range(len(order)):
        i = order[place]
        rank, peer, source, target = ranks[i], peers[i], sources[i], targets[i]
        for j in range(counts[i]):
            content: Index = -1
            if source >= 0:
                cell = rank * slots + source + j
                present = version[cell]
                if present < 0:
                    present = ~present
                    version[cell] = present
                content = value[present]
                buffered = rank < workers and source + j < buffer
                if (buffered or present >= layout.cells) and cell < memory:
                    last_read[content] = place
                if not buffered:
                    _use(cell, rank, place, start[i], layout, contents)
            if target >= 0:
                cell = peer * slots + target + j
                present = version[cell]
                before = value[max(present, ~present)]
                if present < 0 and not reduces[i]:
                    value[~present] = -1
                if kind[i] == COMPUTE:
                    read = written + 1 if content < 0 else _number(content, layout, contents)
                    content = _new(mix(read), layout, contents)
                elif content < 0:
                    content = before
                elif reduces[i]:
                    content = _sum(content, before, layout, contents)
                version[cell], value[written] = ~written, content
                written += 1
                if peer >= workers or target + j >= buffer:
                    _use(cell, peer, place, start[i], layout, contents)
    contents.written[0] = written


def _use(
    cell: Index, rank: Index, place: Index, start: float, layout: CellLayout, contents: Contents
) -> None:
    """Note a use of a cell of scratch."""
    if cell < layout.memory:
        spare = cell - layout.buffer * min(rank + 1, layout.workers)
        contents.first_use[spare] = min(contents.first_use[spare], start)
        contents.last_use[spare] = place


def _number(value: Index, layout: CellLayout, contents: Contents) -> Index:
    """The number of a value: random for each cell, and 0 for all of switches."""
    if value >= layout.cells:
        return int(contents.number[value - layout.cells])
    return 0 if value >= layout.memory else mix(value + 1)


def mix(number: Index) -> Index:
    """Another number, which looks random."""
    mixed = ((number + 0x1E3779B97F4A7C15) * 0x1E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0x3F58476D1CE4E5B9) & _MASK
    return mixed ^ (mixed >> 27)


def _sum(value: Index, other: Index, layout: CellLayout, contents: Contents) -> Index:
    """The sum of two values; that of one and 0 is the same one."""
    number, addend = _number(value, layout, contents), _number(other, layout, contents)
    if number == 0:
        return other
    return value if addend == 0 else _new((number + addend) & _MASK, layout, contents)


def _new(number: Index, layout: CellLayout, contents: Contents) -> Index:
    """One value more, with this number."""
    value = contents.values[0]
    contents.number[value - layout.cells] = number
    contents.values[0] = value + 1
    return value
