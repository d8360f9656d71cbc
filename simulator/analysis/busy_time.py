"""Intervals of time."""

from __future__ import annotations

import numpy as np

from topologies.topology import Floats


def union(start: Floats, end: Floats) -> Floats:
    """Intervals merged into disjoint ones in order, shape (2, n)."""
    if not len(start):
        return np.zeros((2, 0))
    order = np.argsort(start, kind="stable")
    start, until = start[order], np.maximum.accumulate(end[order])
    begins = np.concatenate(([True], start[1:] > until[:-1]))
    return np.stack((start[begins], until[np.append(begins[1:], True)]))


def length(intervals: Floats) -> float:
    """The seconds of disjoint intervals, shape (2, n)."""
    return float((intervals[1] - intervals[0]).sum())
