"""Which copies are alive when, and how much they repeat each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Flags, Floats, Ints, Operations, Values

COMPUTE = 0
_NONE = -1


def lifetimes(
    order: Ints,
    operations: Operations,
    start: Floats,
    finish: Floats,
    data: Values,
    owned: Flags,
    slots: int,
) -> tuple[Ints, Values, Floats, Floats, Ints, Floats, Floats]:
    """When which value was held where, and when a cell (rank, slot) was in use.

    What a computation writes is a new value, the same for the same value read, and no sum of
    others: a mix of its bits, which is not 0 where that value is. `order` is that of the finishes;
    `data` and `owned` have a row a cell. Returns, of every version of a cell, the cell, its value,
    begin and end (when it is overwritten; at once if that happens unread) and the place in `order`
    of its last read, or -1; then the first and last use of every cell.
    """
    kind, rank, peer = operations.kind, operations.rank, operations.peer
    source, target = operations.source, operations.target
    count, reduces = operations.count, operations.reduces
    cells = len(data)
    total = cells
    for i in range(len(order)):
        total += count[i]
    cell_of, value_of = np.empty(total, np.int32), np.empty(total, np.uint64)
    begin, end, read = np.zeros(total), np.full(total, np.inf), np.full(total, _NONE, np.int32)
    version_of = np.full(cells, _NONE, np.int32)
    first_use, last_use = np.full(cells, np.inf), np.full(cells, -np.inf)
    versions = 0
    for cell in range(cells):
        if owned[cell]:
            cell_of[versions], value_of[versions], version_of[cell] = cell, data[cell], versions
            versions += 1
    for k in range(len(order)):
        i = order[k]
        for j in range(count[i]):
            origin, goal = rank[i] * slots + source[i] + j, peer[i] * slots + target[i] + j
            if source[i] >= 0:
                first_use[origin], last_use[origin] = (
                    min(first_use[origin], start[i]),
                    max(last_use[origin], finish[i]),
                )
                if version_of[origin] >= 0:
                    read[version_of[origin]] = k
            if target[i] >= 0:
                first_use[goal], last_use[goal] = (
                    min(first_use[goal], start[i]),
                    max(last_use[goal], finish[i]),
                )
                if kind[i] == COMPUTE:
                    read_from = data[origin] if source[i] >= 0 else np.uint64(versions + 1)
                    mixed = (read_from + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(
                        0x9E3779B97F4A7C15
                    )
                    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                    data[goal] = mixed ^ (mixed >> np.uint64(27))
                elif source[i] >= 0:
                    data[goal] = data[goal] + data[origin] if reduces[i] else data[origin]
                if version_of[goal] >= 0:
                    needed = reduces[i] or read[version_of[goal]] >= 0
                    end[version_of[goal]] = finish[i] if needed else begin[version_of[goal]]
                cell_of[versions], value_of[versions], begin[versions] = goal, data[goal], finish[i]
                version_of[goal] = versions
                versions += 1
    return (
        cell_of[:versions],
        value_of[:versions],
        begin[:versions],
        end[:versions],
        read[:versions],
        first_use,
        last_use,
    )


def cover(
    value: Values, begin: Floats, end: Floats, read: Ints, merged: Floats
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Union of the intervals of equal values, sorted by (value, begin): the row that begins each
    piece, and its end.

    `read` is the number of the last read of a version, in order, `merged[read]` when that read had
    merged the value elsewhere, or inf where it only copied it: a value of which the last read of
    all merged it ends there.
    """
    rows, until = np.empty(len(value), np.int64), np.empty(len(value))
    pieces, group = 0, 0
    while group < len(value):
        after, last = group, _NONE
        while after < len(value) and value[after] == value[group]:
            last = max(last, read[after])
            after += 1
        death = merged[last] if last >= 0 else np.inf
        first = pieces
        for k in range(group, after):
            stop = min(end[k], death)
            if stop <= begin[k]:
                continue
            if pieces > first and begin[k] <= until[pieces - 1]:
                until[pieces - 1] = max(until[pieces - 1], stop)
            else:
                rows[pieces], until[pieces] = k, stop
                pieces += 1
        group = after
    return rows[:pieces], until[:pieces]
