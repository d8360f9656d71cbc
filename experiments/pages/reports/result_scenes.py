"""The drawings of a report: the timeline, the machine, memory over time."""

from __future__ import annotations

from experiments.pages.drawings import machine_scene, memory_scene, timeline_scene
from experiments.pages.page import Block, Lines
from experiments.pages.reports.result import Result
from experiments.pictures.timelines.spans import Spans


def scenes(result: Result) -> list[Block]:
    """The drawings of a result, as far as it has what they show."""
    blocks: list[Block] = []
    if result.spans:
        blocks += timeline(result.spans, "Who does what when")
    if result.use:
        blocks.append(machine_scene(result.use, "The machine and its links"))
    if result.memory:
        blocks.append(memory_scene(result.memory, "Memory over time"))
    return blocks


def timeline(spans: Spans, title: str) -> list[Block]:
    """The interactive timeline. A run that does nothing has none."""
    if not len(spans.columns.row):
        return [Lines(title, ["Nothing happens in this run: there is no timeline."])]
    return [timeline_scene(spans, title)]
