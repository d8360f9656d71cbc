"""Which values the cells of memory hold as operations finish, and when the values are read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Floats, Index, Ints, Operations

Longs = npt.NDArray[np.int64]

COMPUTE = 0
_MASK = (1 << 62) - 1
"""Numbers of values have 62 bits, so that a sum of two needs no more than 63."""
_VALUE = (1 << 31) - 1
"""Bits of a table's entry that say which value it is. The others are those of its number."""


class Moments(NamedTuple):
    """When operations start and finish, and what counts as one moment."""

    order: Ints
    """Operations by their finish."""
    start: Floats
    finish: Floats
    tolerance: float
    """Times that are no further apart belong to one step."""


class Layout(NamedTuple):
    """The cells (rank, slot), numbered rank by rank."""

    size: Floats
    """Bytes of each slot of a rank."""
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
    """The present version of each cell."""
    value: Ints
    """The value of each version, or its complement where nothing needs the version."""
    written: Ints
    """The number of all versions so far, shape (1,)."""
    last_read: Ints
    """Of each value the place, in the order of finishes, of its last read in memory, or -1."""
    first_use: Floats
    """Of each cell of scratch in memory the time of its first use, or inf."""
    last_use: Ints
    """Of each cell of scratch in memory the place of its last use, or -1."""

    @classmethod
    def blank(cls, layout: Layout, versions: int, values: int) -> Contents:
        """Every cell holds a value of its own, and those of switches hold one together; nothing is
        read."""
        spare = layout.memory - layout.workers * layout.buffer
        value = np.empty(versions, np.int32)
        value[: layout.cells] = ~np.arange(layout.cells)
        value[layout.memory : layout.cells] = ~layout.memory
        return cls(
            np.arange(layout.cells, dtype=np.int32),
            value,
            np.array([layout.cells], np.int32),
            np.full(values, -1, np.int32),
            np.full(spare, np.inf),
            np.full(spare, -1, np.int32),
        )

    def restarted(self) -> Contents:
        """The same with the versions of the beginning."""
        self.version[:] = np.arange(len(self.version))
        self.written[0] = len(self.version)
        return self


class Values(NamedTuple):
    """Distinct values: those of the cells at first, then sums and results of computations."""

    number: Longs
    """A number for each value: random for the first ones, modulo 2^62 for sums."""
    table: Longs
    """Sums and results by their numbers: open addressing, -1 where it is free."""
    known: Ints
    """How many values there are, shape (1,)."""


def fill(
    moments: Moments, operations: Operations, layout: Layout, contents: Contents, values: Values
) -> None:
    """Find the value of every version, and the last read of every value.

    What a computation writes is a new value, the same for the same value read, and no sum of
    others. Where a cell is used first and last is noted, too.
    """
    order, start, number = moments.order, moments.start, values.number
    ranks, peers, kind = operations.rank, operations.peer, operations.kind
    sources, targets = operations.source, operations.target
    counts, reduces = operations.count, operations.reduces
    slots, buffer, workers, memory = len(layout.size), layout.buffer, layout.workers, layout.memory
    version, value, last_read = contents.version, contents.value, contents.last_read
    written = layout.cells
    for place in range(len(order)):
        i = order[place]
        rank, peer, source, target = ranks[i], peers[i], sources[i], targets[i]
        for j in range(counts[i]):
            content: Index = -1
            if source >= 0:
                cell = rank * slots + source + j
                content = value[version[cell]]
                if content < 0:
                    content = ~content
                    value[version[cell]] = content
                buffered = rank < workers and source + j < buffer
                if (buffered or version[cell] >= layout.cells) and cell < memory:
                    last_read[content] = place
                if not buffered:
                    _use(cell, rank, place, start[i], layout, contents)
            if target >= 0:
                cell = peer * slots + target + j
                before = value[version[cell]]
                if before < 0:
                    before = ~before
                if reduces[i]:
                    value[version[cell]] = before
                if kind[i] == COMPUTE:
                    read = number[content] if content >= 0 else written + 1
                    content = _identity(mix(read), values)
                elif content < 0 or (reduces[i] and number[content] == 0):
                    content = before
                elif reduces[i] and number[before] != 0:
                    total = (number[content] + number[before]) & _MASK
                    content = _identity(total, values)
                version[cell], value[written] = written, ~content
                written += 1
                if peer >= workers or target + j >= buffer:
                    _use(cell, peer, place, start[i], layout, contents)
    contents.written[0] = written
    for cell in range(layout.cells):
        value[version[cell]] = max(value[version[cell]], ~value[version[cell]])
    for cell in range(layout.cells):
        if cell >= workers * slots or cell % slots >= buffer:
            value[cell] = -1


def _use(
    cell: Index, rank: Index, place: Index, start: float, layout: Layout, contents: Contents
) -> None:
    """Note a use of a cell of scratch."""
    if cell < layout.memory:
        spare = cell - layout.buffer * min(rank + 1, layout.workers)
        contents.first_use[spare] = min(contents.first_use[spare], start)
        contents.last_use[spare] = place


def mix(number: Index) -> Index:
    """Another number, as random as this one."""
    mixed = ((number + 0x1E3779B97F4A7C15) * 0x1E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0x3F58476D1CE4E5B9) & _MASK
    return mixed ^ (mixed >> 27)


def _identity(number: Index, values: Values) -> Index:
    """The value with this number: one in the table, or a new one."""
    table, known = values.table, values.known[0]
    place = number & (len(table) - 1)
    while table[place] >= 0:
        value = table[place] & _VALUE
        if (table[place] ^ number) <= _VALUE and values.number[value] == number:
            return value
        place = (place + 1) & (len(table) - 1)
    table[place] = (number & ~_VALUE) | known
    values.number[known] = number
    values.known[0] = known + 1
    return known
