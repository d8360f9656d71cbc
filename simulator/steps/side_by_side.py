"""Copies of a schedule that run at once, among the ranks of several groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simulator.schedules.schedule import Schedule
from topologies.topology import Ints

REPEATED = ("kind", "source", "target", "count", "reduces", "nbytes", "seconds", "lane", "phase")
"""Columns that copies of a schedule have in common."""


def side_by_side(child: Schedule, count: int) -> Schedule:
    """So many copies of a schedule at once. Copies of an operation follow one another, so that
    equal times are served evenly."""
    if count == 1:
        return child
    copy = np.arange(count, dtype=np.int32)

    def numbers(rank: Ints) -> Ints:
        further = rank - child.workers
        switches = child.ranks - child.workers
        worker = rank[:, None] + copy * child.workers
        switch = further[:, None] + copy * switches + child.workers * count
        return np.where(further[:, None] < 0, worker, switch).ravel().astype(np.int32)

    waits = np.repeat(np.diff(child.indptr), count)
    indptr = np.zeros(len(waits) + 1, dtype=np.int32)
    np.cumsum(waits, out=indptr[1:])
    row = np.repeat(np.arange(len(waits)), waits)
    entry = child.indptr[row // count] + np.arange(indptr[-1]) - indptr[row]
    same: dict[str, Any] = {name: np.repeat(getattr(child, name), count) for name in REPEATED}
    shares = child.shares
    if shares.ndim > 1:
        shares = np.repeat(shares, count, axis=0)
        order = np.argsort(numbers(np.arange(child.ranks, dtype=np.int32)))
        shares = shares[order]
    return replace(
        child,
        ranks=child.ranks * count,
        workers=child.workers * count,
        switches=child.switches * count,
        shares=shares,
        rank=numbers(child.rank),
        peer=numbers(child.peer),
        indptr=indptr,
        indices=(child.indices[entry] * count + row % count).astype(np.int32),
        **same,
    )
