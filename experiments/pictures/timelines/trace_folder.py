"""The files of the timeline of a training run, by its ending: one, or a folder with one of each
rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.trace_choice import ALL, TraceChoice

if TYPE_CHECKING:
    from experiments.pictures.timelines.step_spans import StepSpans
    from simulator.analysis.memory import Memory
    from simulator.steps.step_graph import StepGraph

FILES = (*output.PICTURES, ".json")
"""The endings of timelines that are files."""
CHAKRA = ".chakra"
"""The ending of a folder of Chakra traces. Without an ending it holds Kineto traces."""
TRACES = (".json", ".json.gz", ".et")
"""The endings of traces in a folder."""


def is_folder(timeline: Path) -> bool:
    """Whether a timeline is a folder of traces."""
    return timeline.suffix in ("", CHAKRA)


def kineto_name(rank: int) -> str:
    """The name of a rank's Kineto trace."""
    return f"rank{rank}.json.gz"


def check_timeline(timeline: Path | None, ranks: int, choice: TraceChoice = ALL) -> None:
    """Raise InputError now, before any work, if a timeline of so many ranks cannot be written."""
    choice.check(timeline)
    if timeline is None or not is_folder(timeline):
        output.check_writable(timeline, FILES)
    elif timeline.suffix == CHAKRA:
        from experiments.traces.chakra_export import file_names

        output.check_folder(timeline, file_names(ranks), TRACES)
    else:
        output.check_folder(timeline, {kineto_name(rank) for rank in choice.of(ranks)}, TRACES)


def write_timeline(
    timeline: Path,
    step: Callable[[], StepSpans],
    graph: Callable[[], StepGraph],
    title: str,
    device: str,
    parameters: Mapping[str, object],
    choice: TraceChoice,
    memory: Memory | None = None,
) -> None:
    """Write what a training run or a step of a plan did: a folder of Chakra traces of its `graph`,
    a folder of Kineto traces of a `device`, a Chrome trace, or a picture. Raises InputError."""
    if timeline.suffix == CHAKRA:
        from experiments.traces.chakra_export import chakra_files

        output.write_folder(timeline, chakra_files(graph()))
    elif is_folder(timeline):
        from experiments.pictures.timelines.kineto_export import kineto_files

        output.write_folder(timeline, kineto_files(step(), device, parameters, choice))
    elif timeline.suffix.lower() == ".json":
        from experiments.pictures.timelines.training_trace import training_trace

        output.write(timeline, training_trace(step(), parameters, memory, choice))
    else:
        from experiments.pictures.figure_file import write_figure
        from experiments.pictures.timelines.training_picture import training_drawing

        write_figure(timeline, training_drawing(step(), title))
