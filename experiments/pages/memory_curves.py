"""The memory of a run over time, as a page draws it and a result file stores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simulator.analysis.memory import MemoryTrace
from topologies.topology import Floats

PARTS = 400
"""Parts of the run: of each, the most that is held at a time counts."""
SHOWN = 64
"""Ranks with a curve of their own, at most."""


def curves_of(memory: MemoryTrace, names: Sequence[str], makespan: float) -> Mapping[str, Any]:
    """The curves of ranks with these names: whole bytes, the most in each of equal parts of the
    run.

    `least`, `mean` and `most` are of the emptiest rank, ranks on average and the fullest one;
    `redundant` are duplicates of all ranks. `held` has a row for each of `rows`. Of many ranks,
    only some have a curve of their own.
    """
    count = len(names)
    chosen = np.unique(np.linspace(0, count - 1, min(count, SHOWN)).round().astype(np.int64))
    low, high, total = np.full(PARTS, np.inf), np.zeros(PARTS), np.zeros(PARTS)
    kept = []
    for rank in range(count):
        peaks = np.round(most_in_parts(*memory.of(rank), makespan))
        low, high, total = np.minimum(low, peaks), np.maximum(high, peaks), total + peaks
        if rank in chosen:
            kept.append(peaks)
    remark = f"{len(chosen)} of {count} ranks have a curve of their own; the band is of all."
    return {
        "makespan": makespan,
        "rows": tuple(names[rank] for rank in chosen.tolist()),
        "held": np.array(kept).reshape(len(chosen), PARTS),
        "least": np.where(np.isfinite(low), low, 0.0),
        "mean": np.round(total / max(count, 1)),
        "most": high,
        "redundant": np.round(most_in_parts(memory.times, memory.redundant, makespan)),
        "remarks": (remark,) * (len(chosen) < count),
    }


def most_in_parts(times: Floats, levels: Floats, makespan: float, parts: int = PARTS) -> Floats:
    """The largest level in each part of the time. From `times[k]` on the level is `levels[k]`.

    >>> most_in_parts(np.array([0.0, 1.5, 1.6]), np.array([1.0, 9.0, 2.0]), 4.0, 4).tolist()
    [1.0, 9.0, 2.0, 2.0]
    """
    edges = np.arange(parts) * ((makespan or 1.0) / parts)
    before = np.searchsorted(times, edges, side="right") - 1
    result = np.where(before >= 0, levels[before], 0.0) if len(levels) else np.zeros(parts)
    place = np.searchsorted(edges, times, side="right") - 1
    inside = (place >= 0) & (times < (makespan or np.inf))
    np.maximum.at(result, place[inside], levels[inside])
    return np.maximum(np.asarray(result, dtype=np.float64), 0.0)
