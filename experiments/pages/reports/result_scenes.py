"""The drawings of a report: the timeline, the machine, memory over time."""

from __future__ import annotations

from experiments.pages.page import Block
from experiments.pages.reports.result import Result
from experiments.pages.spans import Spans


def scenes(result: Result) -> list[Block]:
    """The drawings of a result, as far as it has what they show."""
    return timeline(result.spans, "Who does what when") if result.spans else []


def timeline(spans: Spans, title: str) -> list[Block]:
    """The interactive timeline."""
    return []
