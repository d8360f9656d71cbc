"""Who waits for whom: the dependencies of operations as CSR arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Accesses, Flags, Ints

Longs = npt.NDArray[np.int64]


def derive(
    accesses: Accesses, call: Ints, local: Flags, reduces: Flags, ranks: int, slots: int
) -> tuple[Longs, Ints, Longs]:
    """Predecessors from what operations read and write, as a CSR (indptr, indices), in which
    duplicates may remain; and a conflict.

    The accesses to a cell (rank, slot) form groups: an overwrite is a group of
    one, and so is a run of reductions, or of reads, of any length. Every member of a group waits
    for every member of the group before it, and for nothing else: older ones are ancestors already.

    Operations of one call see the state before it. A conflict is two of them of which one writes
    what the other reads, or which overwrite the same: their numbers, the slot, and whether both
    overwrite; or -1. A `local` operation may write what it reads.
    """
    owner, rank, peer, source, target, count = accesses
    cells = ranks * slots
    begins = np.zeros(cells + 1, np.int64)
    rows, operations = len(owner), len(reduces)
    for row in range(rows):
        for j in range(count[row]):
            if source[row] >= 0:
                begins[rank[row] * slots + source[row] + j + 1] += 1
            if target[row] >= 0:
                begins[peer[row] * slots + target[row] + j + 1] += 1
    for cell in range(cells):
        begins[cell + 1] += begins[cell]
    filled = begins[:-1].copy()
    entries = np.empty(begins[cells], np.int32)
    for row in range(rows):
        for j in range(count[row]):
            if source[row] >= 0:
                cell = rank[row] * slots + source[row] + j
                entries[filled[cell]] = owner[row] * 2
                filled[cell] += 1
            if target[row] >= 0:
                cell = peer[row] * slots + target[row] + j
                entries[filled[cell]] = owner[row] * 2 + 1
                filled[cell] += 1
    conflict = np.full(4, -1, np.int64)
    waits = np.zeros(operations + 1, np.int64)
    indices = np.empty(0, np.int32)
    for emit in range(2):
        for cell in range(cells):
            first, previous, last_kind = begins[cell], begins[cell], -1
            last = -1
            for k in range(begins[cell], begins[cell + 1]):
                i = entries[k] // 2
                access = 0 if entries[k] % 2 == 0 else 1 + reduces[i]
                opens = access != last_kind or access == 1
                if opens and last >= 0 and call[last] == call[i] and not (last == i and local[i]):
                    conflict[0], conflict[1], conflict[2] = last, i, cell % slots
                    conflict[3] = access == 1 and last_kind == 1
                if opens:
                    previous, first, last_kind = first, k, access
                last = i
                for before in range(previous, first):
                    j = entries[before] // 2
                    if j == i:
                        continue
                    if emit == 0:
                        waits[i + 1] += 1
                    else:
                        indices[waits[i]] = j
                        waits[i] += 1
        if emit == 0:
            for i in range(operations):
                waits[i + 1] += waits[i]
            indices = np.empty(waits[operations], np.int32)
    return np.concatenate((np.zeros(1, np.int64), waits[:-1])), indices, conflict


def merge(
    indptr: Longs, indices: Ints, more_indptr: Longs, more_indices: Ints
) -> tuple[Ints, Ints]:
    """Two CSRs of predecessors in one, each row sorted and without duplicates. int64 in, int32
    out."""
    operations = len(indptr) - 1
    merged = np.empty(len(indices) + len(more_indices), np.int32)
    out = np.zeros(operations + 1, np.int32)
    end = 0
    for i in range(operations):
        begin, behind = end, end
        for k in range(indptr[i], indptr[i + 1]):
            merged[behind] = indices[k]
            behind += 1
        for k in range(more_indptr[i], more_indptr[i + 1]):
            merged[behind] = more_indices[k]
            behind += 1
        gap = 1
        while gap < (behind - begin) // 3:
            gap = 3 * gap + 1
        # Shell's sort: insertion where a row is short, and not quadratic where it is long
        while gap > 0:
            for k in range(begin + gap, behind):
                value, place = merged[k], k
                while place - gap >= begin and merged[place - gap] > value:
                    merged[place] = merged[place - gap]
                    place -= gap
                merged[place] = value
            gap //= 3
        for k in range(begin, behind):
            if end == begin or merged[k] != merged[end - 1]:
                merged[end] = merged[k]
                end += 1
        out[i + 1] = end
    return out, merged[:end].copy()


def invert(indptr: Ints, indices: Ints) -> tuple[Ints, Ints]:
    """Successors from predecessors, both as CSR, each row in ascending order."""
    operations = len(indptr) - 1
    out = np.zeros(operations + 1, np.int32)
    for k in range(len(indices)):
        out[indices[k] + 1] += 1
    for i in range(operations):
        out[i + 1] += out[i]
    filled = out[:-1].copy()
    successors = np.empty(len(indices), np.int32)
    for i in range(operations):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            successors[filled[j]] = i
            filled[j] += 1
    return out, successors


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
