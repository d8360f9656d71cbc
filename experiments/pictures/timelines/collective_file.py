"""The file of a collective's timeline, by its ending."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.output import Value
from experiments.trace_choice import ALL, TraceChoice
from simulator.schedules.timeline import Timeline


def collective_file(
    timeline: Timeline,
    path: Path,
    title: str,
    parameters: Mapping[str, Value],
    choice: TraceChoice = ALL,
) -> bytes | str:
    """A trace for a path that ends in .json, else a picture."""
    if path.suffix.lower() == ".json":
        from experiments.pictures.timelines.collective_trace import collective_trace

        return collective_trace(timeline, dict(parameters), choice)
    from experiments.pictures.figure_file import to_bytes
    from experiments.pictures.timelines.collective_picture import collective_drawing

    return to_bytes(collective_drawing(timeline, title), path.suffix[1:].lower())
