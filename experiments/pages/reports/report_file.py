"""Reports as files: a page, or Markdown for a ticket."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments import output
from experiments.answer_blocks import Facts, Remarks
from experiments.pages.page import Block, Figure, Page, Scene, pack, to_html, to_markdown
from experiments.pages.reports.result import Result
from experiments.pictures.figures import to_image
from experiments.pictures.timelines.palette import FILLS, colours
from experiments.pictures.timelines.spans import IDLE, WORD_LISTS, Spans
from experiments.templates import Lines

MOST_RAW = 1_500_000
"""Characters of data that a page holds for its reader to download; more is left out."""


def write_page(path: Path, page: Page) -> None:
    """Write a page, as Markdown if the file ends in .md. Raises InputError."""
    output.write(path, to_markdown(page) if path.suffix.lower() == ".md" else to_html(page))


MOST_PICTURES = 12
"""Pictures of a result."""


def page_of(result: Result, *, pictures: bool = True, name: str = "") -> Page:
    """The page of a result, with its pictures unless a ticket asks for words alone.

    `name` tells it from other results of a page: files of raw data begin with it.
    """
    story = result.story
    left_out = [*story.left_out, *result.left_out]
    drawn = sorted(result.pictures, key=lambda each: not each.is_urgent) if pictures else []
    figures = [Figure(each.title, to_image(result.draw(each))) for each in drawn[:MOST_PICTURES]]
    many = len(figures) > 2
    first, *others = story.blocks
    blocks: list[Block] = [
        *([] if many else figures),
        first,
        *_scenes(result),
        *others,
        *(figures if many else []),
        *([Remarks("What this answer leaves out", left_out)] if left_out else []),
        Facts("How to get this answer again", _facts(result)),
    ]
    report, missing = _small(json.loads(output.to_json(result.report)))
    raw = {f"{name}origin.json": result.origin}
    if report:
        raw = {f"{name}result.json": report, **raw}
    if missing:
        what = f"Too large for this page: {missing}. --format json has it."
        blocks.insert(-1, Remarks("Raw data", [what]))
    return Page(story.title, [line for line in story.summary if line], blocks, raw)


def _small(report: Any) -> tuple[Any, str]:
    """As much of the raw data as a page has room for, and the names of what is left out.

    >>> _small({"time_s": 1.5, "memory": "0" * MOST_RAW})
    ({'time_s': 1.5}, 'memory')
    """
    missing = []
    while len(output.to_json(report)) > MOST_RAW:
        if not isinstance(report, dict):
            return None, "the result"
        largest = max(report, key=lambda key: len(output.to_json(report[key])))
        missing.append(largest)
        report = {key: value for key, value in report.items() if key != largest}
    return report, ", ".join(missing)


def _scenes(result: Result) -> Iterator[Block]:
    """The drawings of a result, as far as it has what they show."""
    if result.spans:
        yield timeline(result.spans, "Who does what when")
    if result.use:
        yield machine_scene(result.use)
    if result.memory:
        yield memory_scene(result.memory)


def timeline(spans: Spans, title: str, axis: float = 0.0) -> Block:
    """The interactive timeline, its axis of so many seconds or of the run. A run that does nothing
    has none."""
    if not len(spans.columns.row):
        return Remarks(title, ["Nothing happens in this run: there is no timeline."])
    return timeline_scene(spans, title, axis)


def _facts(result: Result) -> Lines:
    origin = result.origin
    command = shlex.join(map(str, origin.get("command", ())))
    shown = {"command": command or "not known"} | origin.get("versions", {})
    shown |= {
        name.replace("_", " "): str(value)
        for name, value in origin.get("parameters", {}).items()
        if value not in (None, False, "")
    }
    digests = origin.get("files", {})
    shown |= {f"SHA-256 of {name}": digest for name, digest in digests.items()}
    return [[name, str(value)] for name, value in shown.items()]


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
