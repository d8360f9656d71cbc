"""Two timelines as one: the rows of the first above those of the second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.pages.spans import Columns, Pieces, Spans, thinned

WORDS = {"lane": "lanes", "kind": "kinds", "name": "names", "peer": "peers", "link": "links"}
WORDS |= {"cause": "causes", "awaited": "names"}
"""The list of words of each column."""


def joined_spans(before: Spans, after: Spans) -> Spans:
    """Both timelines on one time axis, with "before" and "after" in the names of rows."""
    parts = [before, after]
    fields = dict.fromkeys([*WORDS.values(), "parts"])
    merged: dict[str, Any] = {
        field: tuple(dict.fromkeys(word for part in parts for word in getattr(part, field)))
        for field in fields
    }
    rows = tuple(
        f"{side}: {row}"
        for side, part in zip(("before", "after"), parts, strict=True)
        for row in part.rows
    )
    first = int(before.nodes.max(initial=-1)) + 1
    nodes = np.concatenate((before.nodes, np.where(after.nodes < 0, -1, after.nodes + first)))
    columns = [_columns(part, merged, offset) for part, offset in _offsets(before, after)]
    pieces = [_pieces(part, merged, offset) for part, offset in _offsets(before, after)]
    names = [part.lanes[part.main] for part in parts if part.main >= 0]
    main = merged["lanes"].index(names[0]) if len(set(names)) == 1 else -1
    counted_on = f"The nodes of the second timeline begin with node {first}."
    remarks = tuple(dict.fromkeys((*before.remarks, *after.remarks, *[counted_on] * (first > 0))))
    makespan = max(before.makespan, after.makespan)
    joined = replace(
        before,
        rows=rows,
        nodes=nodes.astype(np.int32),
        main=main,
        steps=np.zeros(0),
        makespan=makespan,
        remarks=remarks,
        columns=Columns.joined(*columns),
        path=Pieces._make(np.concatenate(column) for column in zip(*pieces, strict=True)),
        **merged,
    )
    return thinned(joined)


def _offsets(before: Spans, after: Spans) -> list[tuple[Spans, int]]:
    return [(before, 0), (after, len(before.rows))]


def _columns(spans: Spans, merged: dict[str, tuple[str, ...]], offset: int) -> Columns:
    changed = {
        column: _moved(getattr(spans.columns, column), getattr(spans, field), merged[field])
        for column, field in WORDS.items()
    }
    return spans.columns._replace(row=spans.columns.row + np.int32(offset), **changed)


def _pieces(spans: Spans, merged: dict[str, tuple[str, ...]], offset: int) -> Pieces:
    row = spans.path.row
    return spans.path._replace(
        row=np.where(row < 0, -1, row + offset).astype(np.int32),
        lane=_moved(spans.path.lane, spans.lanes, merged["lanes"]),
        part=_moved(spans.path.part, spans.parts, merged["parts"]),
    )


def _moved(
    places: npt.NDArray[Any], words: Sequence[str], merged: Sequence[str]
) -> npt.NDArray[Any]:
    """Places in a list of words as places in the merged list; -1 stays."""
    where = {word: place for place, word in enumerate(merged)}
    table = np.array([*(where[word] for word in words), -1], dtype=np.int32)
    return np.asarray(table[places])
