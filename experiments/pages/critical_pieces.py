"""A critical path as pieces on the rows of a page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.pages.spans import MOST_PIECES, Pieces
from simulator.analysis.critical_path import SEGMENT_PARTS, Path
from topologies.topology import Ints

AT_RECEIVER = tuple(SEGMENT_PARTS.index(part) for part in ("reduction", "copy"))
"""Parts whose place is a rank: the one that merges."""


def pieces_of(path: Path, ranks: Ints, lanes: Callable[[Path], Ints]) -> Pieces:
    """The path from the start on. `ranks` are those of the rows, in order; `lanes` says on which
    lane each segment is.

    Neighbours on one lane with one part are one piece, and so are the shortest of very many.
    """
    path = path.take(np.flatnonzero(path.seconds > 0)[::-1])
    end = np.cumsum(path.seconds)
    rank = np.where(np.isin(path.part, AT_RECEIVER), path.where, path.rank)
    row = np.searchsorted(ranks, rank).clip(max=len(ranks) - 1)
    row = np.where(ranks[row] == rank, row, -1).astype(np.int32)
    part = path.charged.astype(np.int32)
    start = end - path.seconds
    pieces = Pieces(row, lanes(path).astype(np.int32), start, end, part)
    alike = np.ones(max(len(row) - 1, 0), dtype=np.bool_)
    for column in (pieces.row, pieces.lane, pieces.part):
        alike &= column[1:] == column[:-1]
    pieces, limit = _joined(pieces, alike), float(end.max(initial=0.0)) / MOST_PIECES
    while len(pieces.row) > MOST_PIECES:
        short = pieces.end - pieces.start < limit
        pieces, limit = _joined(pieces, short[1:] & short[:-1]), 4 * limit
    return pieces


def _joined(pieces: Pieces, with_next: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Pieces:
    if not len(pieces.row):
        return pieces
    first = np.flatnonzero(np.append(True, ~with_next))
    last = np.append(first[1:], len(pieces.row)) - 1
    return Pieces._make(column[first] for column in pieces)._replace(end=pieces.end[last])
