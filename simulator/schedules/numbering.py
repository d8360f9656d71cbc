"""Rows that are numbered within ranges or groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.topology import Ints

Longs = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.integer[Any]]


def ranges(begins: Numbers, counts: Numbers) -> tuple[Longs, Longs]:
    """So many numbers from each begin on, behind each other; and in front of them, which begin.

    >>> [column.tolist() for column in ranges(np.array([5, 0]), np.array([2, 3]))]
    [[0, 0, 1, 1, 1], [5, 6, 0, 1, 2]]
    """
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) + (begins - np.cumsum(counts) + counts)[row]


def starts(counts: Numbers) -> Ints:
    """Where each of ranges of so many members begins, and where the last one ends: an indptr.

    >>> starts(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    indptr = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def spread(counts: Numbers) -> tuple[Longs, Longs]:
    """The number of the range, and the place in it, of every member of ranges of so many members.

    >>> [column.tolist() for column in spread(np.array([2, 0, 1]))]
    [[0, 0, 2], [0, 1, 0]]
    """
    if len(counts) and counts.min() == counts.max() == 1:
        return np.arange(len(counts)), np.zeros(len(counts), dtype=np.int64)
    return ranges(np.zeros_like(counts), counts)


def occurrences(*columns: Numbers) -> Longs:
    """The number of each row among those with the same columns, from 0 on.

    >>> occurrences(np.array([7, 3, 7])).tolist()
    [0, 0, 1]
    """
    order = np.lexsort(columns[::-1])
    rows = np.stack(columns)[:, order]
    begins = np.flatnonzero(np.append(True, np.any(rows[:, 1:] != rows[:, :-1], axis=0)))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = spread(np.diff(begins, append=len(order)))[1]
    return number
