"""The file of a collective's timeline, by its ending."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import output
from simulator.schedules.timeline import Timeline


def write_collective(
    timeline: Timeline,
    files: output.RunFiles,
    title: str,
    parameters: Mapping[str, output.Value],
) -> None:
    """Write the timeline, if it has a file: a trace if that ends in .json, else a picture."""
    if files.timeline is None:
        return
    if files.is_trace:
        from experiments.pictures.timelines.collective_trace import collective_trace

        output.write(files.timeline, collective_trace(timeline, dict(parameters), files.trace))
        return
    from experiments.pictures.figure_file import write_figure
    from experiments.pictures.timelines.collective_picture import collective_drawing

    write_figure(files.timeline, collective_drawing(timeline, title))
