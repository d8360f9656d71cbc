"""The drawings of a report: its timeline, its machine, its memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.pages.page import Scene, pack
from experiments.pictures.timelines.palette import FILLS, colours
from experiments.pictures.timelines.spans import IDLE, WORD_LISTS, Spans

STRIPES = {"///": 0, "\\" * 3: 1, "---": 2, "|||": 3, "xxx": 4, "...": 5, "": 6}
"""The stripes of canvas.js that look like matplotlib's hatches."""
TICKS = 2**32 - 1
"""The whole time axis in ticks."""
WORDS = ("devices", "device_kinds", "kinds", "rows", "remarks")
"""The keys of machines and of memory that have words: others have a number or a column."""


def timeline_scene(spans: Spans, title: str, axis: float = 0.0) -> Scene:
    """An interactive timeline.

    The time axis is `axis` seconds long, or as long as the run if that is longer.
    """
    makespan = spans.makespan or 1.0
    axis = max(axis, makespan)
    columns = spans.columns
    # 0 for idle spans, and from 1 on for others, so that no two of a row and lane overlap.
    drawn, band = ~spans.idle, np.zeros(len(columns.row), dtype=np.int64)
    band[drawn] = np.minimum(1 + spans.bands(columns.take(drawn)), 250)
    order = np.lexsort((columns.start, band, columns.lane, columns.row))
    columns, band = columns.take(order), band[order]
    scale = TICKS / axis
    packed = {
        "tick": np.clip(np.round(columns.start * scale), 0, TICKS).astype(np.int64),
        "duration": (columns.end - columns.start).astype(np.float32),
        "band": band,
        "nbytes": columns.nbytes.astype(np.float32),
        "waited": columns.waited.astype(np.float32),
        **{
            name: getattr(columns, name)
            for name in ("row", "lane", "kind", "name", "peer", "link", "cause", "awaited")
        },
        "members": columns.members,
        "critical": columns.critical,
    }
    data: dict[str, object] = {name: list(getattr(spans, name)) for name in WORD_LISTS}
    data |= {
        "nodes": spans.nodes.tolist(),
        "main": spans.main,
        "steps": spans.common_steps,
        "makespan": makespan,
        "axis": axis,
        "colours": colours(kind for kind in spans.kinds if kind != IDLE),
        "cause_colours": {cause: FILLS[cause].ink for cause in spans.causes},
        "cause_stripes": {cause: STRIPES[FILLS[cause].hatch] for cause in spans.causes},
        "columns": pack(packed),
        "path": pack({name: getattr(spans.path, name) for name in ("row", "lane", "start", "end")}),
    }
    return Scene(title, "timeline", data, helpers=("canvas", "timeline_model", "timeline_view"))


def machine_scene(use: Mapping[str, Any]) -> Scene:
    """A machine with its links coloured by use, and a slider of time."""
    return Scene("The machine and its links", "machine", _data(use), helpers=("canvas",))


def memory_scene(curves: Mapping[str, Any]) -> Scene:
    """Memory over time: the band of all ranks, a chosen rank, and duplicate data."""
    data = _data(curves) | {"makespan": curves["makespan"] or 1.0}
    return Scene("Memory over time", "memory", data, helpers=("canvas",))


def _data(document: Mapping[str, Any]) -> dict[str, object]:
    """The words and numbers of a document, and its columns, which are arrays or lists of a file."""
    columns = {
        name: np.ravel(value)
        for name, value in document.items()
        if name not in WORDS and not np.isscalar(value)
    }
    others = {name: value for name, value in document.items() if name not in columns}
    packed = {
        name: column.astype(np.float32 if column.dtype.kind == "f" else column.dtype)
        for name, column in columns.items()
    }
    return {**others, "columns": pack(packed)}
