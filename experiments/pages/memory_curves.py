"""The memory of a run over time, as a page draws it and a result file stores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.pictures.timelines.stored import Numbers, Rules, read
from simulator.analysis.memory import MemoryTrace
from topologies.errors import InputError
from topologies.topology import Floats

PARTS = 400
"""Parts of the run: of each, the most that is held at a time counts."""
SHOWN = 64
"""Ranks with a curve of their own, at most."""


@dataclass(frozen=True, eq=False)
class MemoryCurves:
    """Whole bytes in equal parts of the run: the most in each part."""

    makespan: float
    """Seconds of the run."""
    rows: tuple[str, ...]
    """The ranks with a curve of their own."""
    held: Floats
    """What each of them holds, shape (ranks, parts)."""
    least: Floats
    """What the emptiest rank holds."""
    mean: Floats
    """What ranks hold on average."""
    most: Floats
    """What the fullest rank holds."""
    redundant: Floats
    """Duplicate data over all ranks."""
    remarks: tuple[str, ...] = ()
    """Sentences: what is not shown."""


def curves_of(memory: MemoryTrace, names: Sequence[str], makespan: float) -> MemoryCurves:
    """The curves of ranks with these names. Of many ranks, some have a curve of their own."""
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
    return MemoryCurves(
        makespan,
        tuple(names[rank] for rank in chosen.tolist()),
        np.array(kept).reshape(len(chosen), PARTS),
        np.where(np.isfinite(low), low, 0.0),
        np.round(total / max(count, 1)),
        high,
        np.round(most_in_parts(memory.times, memory.redundant, makespan)),
        (remark,) * (len(chosen) < count),
    )


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


RULES: Rules = {
    **dict.fromkeys(("rows", "remarks")),
    "makespan": Numbers(),
    "least": Numbers(None),
    **dict.fromkeys(("mean", "most", "redundant"), Numbers(("least",))),
    "held": Numbers(("rows", "least")),
}
"""What a file must hold."""


def from_document(document: object, name: str) -> MemoryCurves:
    """The curves of a document that :func:`stored.to_document` made. Raises InputError."""
    if not len(read(document, {"least": Numbers(None)}, name)["least"]):
        raise InputError(f"{name}: 'least' is empty: at least one is needed")
    return MemoryCurves(**read(document, RULES, name))
