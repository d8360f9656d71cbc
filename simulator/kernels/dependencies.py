"""The operations of a schedule: who waits for whom, as CSR arrays; what they compute on data; and
where those of one call meet."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from simulator.kernels.records import (
    TRANSFER,
    Accesses,
    Csr,
    Flags,
    Index,
    Ints,
    Longs,
    Operations,
    Table,
)

READ, OVERWRITE = 1, 2
"""What an access is; a reduction is one more."""


class Groups(NamedTuple):
    """Who has done what to each cell (rank, slot)."""

    cells: Annotated[Ints, 2]
    """What the accesses of the latest group are, or 0; the latest group, and the one before. A
    group is 0 for none, one more than the number of an operation, or ~k for member k and more."""
    slots: int
    """Slots of a rank."""
    member: Ints
    """Operations in groups of several."""
    rest: Ints
    """The other members of the group: a group."""

    @classmethod
    def none(cls, ranks: int, slots: int, accesses: Accesses) -> Groups:
        """Nobody has done anything."""
        most = 2 * int(accesses.count.sum())
        cells = np.zeros((ranks * slots, 3), np.int32)
        return cls(cells, slots, np.empty(most, np.int32), np.empty(most, np.int32))


class Waits(NamedTuple):
    """What operations wait for."""

    indptr: Ints
    """Operation i waits for `indices[indptr[i]:indptr[i + 1]]`."""
    indices: Ints
    """Room for the numbers of these operations, in ascending order."""
    conflict: Longs
    """Two operations of a call of which one writes what the other reads, or which overwrite the
    same; the cell, and whether both overwrite. Without a conflict -1."""

    @classmethod
    def none(cls, operations: int, room: int) -> Waits:
        """Nothing."""
        indptr = np.zeros(operations + 1, np.int32)
        return cls(indptr, np.empty(room, np.int32), np.full(4, -1, np.int64))


def derive(
    accesses: Accesses,
    call: Ints,
    local: Flags,
    reduces: Flags,
    groups: Groups,
    more: Csr,
    waits: Waits,
) -> int:
    """Fill in predecessors from what operations read and write, and `more`; returns the room that
    they need. If that is more than there is, they are not all there.

    The accesses to a cell (rank, slot) form groups: an overwrite is a group of
    one, and so is a run of reductions, or of reads, of any length. Every member of a group waits
    for every member of the group before it, and for nothing else: older ones are ancestors already.

    Operations of one call see the state before it. A `local` operation may write what it reads.
    """
    cells, slots, member, rest = groups
    indptr, indices, conflict = waits
    rows, operations, room = len(accesses.owner), len(reduces), len(indices)
    row, used = 0, 0
    end: Index = 0
    for i in range(operations):
        while row < rows and accesses.owner[row] == i:
            for at in range(2 * accesses.count[row]):
                cell, access = visited(accesses, row, at, slots, reduces[i])
                if access < 0:
                    continue
                kind, latest = cells[cell, 0], cells[cell, 1]
                if access == kind and access != OVERWRITE:
                    member[used], rest[used] = i, latest
                    cells[cell, 1] = ~used
                    used += 1
                else:
                    last = member[~latest] if latest < 0 else latest - 1
                    races = last >= 0 and call[last] == call[i] and not (last == i and local[i])
                    if races and cell >= conflict[2]:
                        conflict[0], conflict[1], conflict[2] = last, i, cell
                        conflict[3] = access == OVERWRITE and kind == OVERWRITE
                    cells[cell, 0], cells[cell, 1], cells[cell, 2] = access, i + 1, latest
                end = collect(groups, cells[cell, 2], i, indices, end)
            row += 1
        if len(more.indptr) > 0:
            for k in range(more.indptr[i], more.indptr[i + 1]):
                if end < room:
                    indices[end] = more.indices[k]
                end += 1
        if end <= room:
            end = sort(indices, indptr[i], end)
            indptr[i + 1] = end
    return int(end)


def visited(
    accesses: Accesses, row: Index, at: Index, slots: Index, reduces: Index
) -> tuple[Index, Index]:
    """The cell of an access of a row, and what it is, or -1 for none."""
    if at % 2 == 0:
        cell = accesses.rank[row] * slots + accesses.source[row] + at // 2
        return cell, READ if accesses.source[row] >= 0 else -1
    cell = accesses.peer[row] * slots + accesses.target[row] + at // 2
    return cell, OVERWRITE + reduces if accesses.target[row] >= 0 else -1


def collect(groups: Groups, group: Index, i: Index, indices: Ints, end: Index) -> Index:
    """Append the members of a group but `i`; returns the end."""
    while group != 0:
        j = groups.member[~group] if group < 0 else group - 1
        group = groups.rest[~group] if group < 0 else 0
        if j != i:
            if end < len(indices):
                indices[end] = j
            end += 1
    return end


def sort(indices: Ints, begin: Index, end: Index) -> Index:
    """Sort a part of an array, and remove what is there twice; returns where it ends then."""
    gap = 1
    while gap < (end - begin) // 3:
        gap = 3 * gap + 1
    # Shell's sort: insertion where a row is short, and not quadratic where it is long
    while gap > 0:
        for k in range(begin + gap, end):
            value, place = indices[k], k
            while place - gap >= begin and indices[place - gap] > value:
                indices[place] = indices[place - gap]
                place -= gap
            indices[place] = value
        gap //= 3
    kept = begin
    for k in range(begin, end):
        if kept == begin or indices[k] != indices[kept - 1]:
            indices[kept] = indices[k]
            kept += 1
    return kept


def invert(indptr: Ints, indices: Ints, behind: Ints, successors: Ints) -> None:
    """Successors from predecessors, both as CSR, each row in ascending order. `behind` is the
    indptr of successors with an entry more, of zeros at first."""
    for k in range(len(indices)):
        behind[indices[k] + 2] += 1
    for i in range(len(indptr)):
        behind[i + 1] += behind[i]
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            successors[behind[j + 1]] = i
            behind[j + 1] += 1


def chain(weight: Flags, indptr: Ints, indices: Ints) -> Ints:
    """The greatest sum of `weight` (int8) on a chain of predecessors that ends at each operation,
    itself included."""
    depth = np.zeros(len(weight), np.int32)
    for i in range(len(weight)):
        deepest = 0
        for k in range(indptr[i], indptr[i + 1]):
            deepest = max(deepest, depth[indices[k]])
        depth[i] = deepest + weight[i]
    return depth


def execute(order: Ints, operations: Operations, data: Table) -> None:
    """Run the transfers on `data[rank, slot]`, in `order`."""
    kind, rank, peer = operations.kind, operations.rank, operations.peer
    source, target = operations.source, operations.target
    count, reduces = operations.count, operations.reduces
    for k in range(len(order)):
        i = order[k]
        if kind[i] == TRANSFER and source[i] >= 0 and target[i] >= 0:
            for j in range(count[i]):
                value = data[rank[i], source[i] + j]
                if reduces[i]:
                    data[peer[i], target[i] + j] += value
                else:
                    data[peer[i], target[i] + j] = value


def meetings(call: Ints, route: Ints, places: Csr, shift: Ints, kinds: int) -> int:
    """An operation that meets another one of its call from another shift, or -1.

    Operation i is at the `places` of its route, each of which is one of so many `kinds`, with a
    `shift` each. Two of one call that are at a place of the same kind with unequal shifts stand for
    some that meet there, and whose order is not the same at all places of the kind.
    """
    last, seen = np.full(kinds, -1, np.int32), np.zeros(kinds, np.int32)
    for i in range(len(call)):
        for k in range(places.indptr[route[i]], places.indptr[route[i] + 1]):
            kind = places.indices[k]
            if last[kind] == call[i] and seen[kind] != shift[k]:
                return i
            last[kind], seen[kind] = call[i], shift[k]
    return -1
