"""Which values the cells of memory hold as operations finish, and which values are read."""

from __future__ import annotations

from typing import Any

from simulator.kernels.records import Flags, Floats, Index, Ints, Longs

COPIES, SUMS, COMPUTES = range(3)
_MASK = (1 << 62) - 1
"""Numbers of values have 62 bits, so that a sum of two needs no more than 63."""


def fill(
    reads: Ints,
    writes: Ints,
    kind: Flags,
    version: Ints,
    value: Ints,
    number: Longs,
    seen: Ints,
    follower: Ints,
) -> int:
    """Find the value of every version of a cell; returns how many values there are.

    A row reads a cell, and then writes one; -1 is none. Its `kind` says what it writes: the value
    that it reads, the sum with the value that it replaces, or a result (`COPIES`, `SUMS` and
    `COMPUTES`). Every cell begins with the version of its
    own number, and every write makes one more: `version` has the present one of each cell. Each row
    gets the version that it has `seen`, and each version its `follower`.

    A value has a `number`, which looks random, and 0 in switches. A sum has the sum of the numbers,
    modulo 2^62. What a computation writes is a new value, with the same number for the same value
    read. Equal sums and results count as several values, with the same number.
    """
    written, values = len(version), len(version)
    for row in range(len(reads)):
        content: Index = -1
        if reads[row] >= 0:
            seen[row] = version[reads[row]]
            content = value[seen[row]]
        if writes[row] < 0:
            continue
        before = value[version[writes[row]]]
        result: Index = -1
        if kind[row] == COMPUTES:
            result = mix(written + 1 if content < 0 else number[content])
        elif content < 0 or (kind[row] == SUMS and number[content] == 0):
            content = before
        elif kind[row] == SUMS and number[before] != 0:
            result = (number[content] + number[before]) & _MASK
        if result >= 0:
            content, number[values] = values, result
            values += 1
        follower[version[writes[row]]] = written
        version[writes[row]], value[written] = written, content
        written += 1
    return values


def mix(number: Any) -> Any:
    """Another number, which looks random; or one for each number of an array."""
    mixed = ((number + 0x1E3779B97F4A7C15) * 0x1E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0x3F58476D1CE4E5B9) & _MASK
    return mixed ^ (mixed >> 27)


def unite(value: Ints, began: Ints, ended: Ints, first: Ints, opens: Flags) -> None:
    """Unite the times of copies of a value that touch: the earliest copy gets the end of all, and
    only that `opens`. Copies are in the order in which they began, and `first` has -1 for each
    value."""
    for k in range(len(value)):
        earliest = first[value[k]]
        if earliest < 0 or began[k] > ended[earliest]:
            first[value[k]], opens[k] = k, 1
        elif ended[k] > ended[earliest]:
            ended[earliest] = ended[k]


def raise_peaks(step: Longs, place: Ints, nbytes: Floats, held: Floats, peaks: Floats) -> None:
    """Find the most that is held at each place at the ends of steps, from what appears (or,
    negative, vanishes) in the order of steps."""
    first = 0
    for k in range(len(step)):
        held[place[k]] += nbytes[k]
        if k + 1 < len(step) and step[k + 1] == step[k]:
            continue
        for j in range(first, k + 1):
            peaks[place[j]] = max(peaks[place[j]], held[place[j]])
        first = k + 1
