"""Two timelines as one: the rows of the first above those of the second."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.pictures.timelines.spans import WORDS, Columns, Pieces, Spans, thinned
from topologies.topology import Ints


def joined_spans(before: Spans, after: Spans) -> Spans:
    """Both timelines on one time axis, with "before" and "after" in the names of rows."""

    def behind(table: str, numbers: Ints) -> Ints:
        """Places in a list of the second timeline as places behind all of the first; -1 stays."""
        return np.where(numbers < 0, -1, numbers + len(getattr(before, table))).astype(np.int32)

    tables: dict[str, Any] = {
        table: (*getattr(before, table), *getattr(after, table))
        for table in (*WORDS.values(), "parts")
    }
    columns, path = after.columns, after.path
    moved: dict[str, Any] = {
        name: behind(table, getattr(columns, name)) for name, table in WORDS.items()
    }
    columns = columns._replace(row=behind("rows", columns.row), **moved)
    path = Pieces(
        behind("rows", path.row),
        behind("lanes", path.lane),
        path.start,
        path.end,
        behind("parts", path.part),
    )
    mains = {spans.lanes[spans.main] for spans in (before, after) if spans.main >= 0}
    first = int(before.nodes.max(initial=-1)) + 1
    counted_on = [f"The nodes of the second timeline begin with node {first}."] * (first > 0)
    joined = Spans(
        rows=[*(f"before: {row}" for row in before.rows), *(f"after: {row}" for row in after.rows)],
        nodes=np.append(before.nodes, np.where(after.nodes < 0, -1, after.nodes + first)),
        **tables,
        main=tables["lanes"].index(*mains) if len(mains) == 1 else -1,
        steps=np.zeros((0, 1)),
        makespan=max(before.makespan, after.makespan),
        remarks=tuple(dict.fromkeys((*before.remarks, *after.remarks, *counted_on))),
        columns=Columns.joined(before.columns, columns),
        path=Pieces._make(np.concatenate(pair) for pair in zip(*[before.path, path], strict=True)),
    )
    return thinned(joined.compact())
