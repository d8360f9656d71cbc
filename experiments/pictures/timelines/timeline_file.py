"""The files of a timeline, by its ending: one, or a folder with one of each rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.answer_files import ALL, CHAKRA, Files, TraceChoice, is_folder

if TYPE_CHECKING:
    from experiments.pictures.timelines.spans import Spans
    from experiments.pictures.timelines.step_spans import StepSpans
    from simulator.analysis.memory import MemoryTrace
    from simulator.schedules.timeline import Timeline
    from simulator.steps.step_graph import StepGraph

FILES = (*output.PICTURES, output.RESULT)
"""The endings of timelines that are files."""
TRACES = (".json", ".json.gz", ".et")
"""The endings of traces in a folder."""


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
    memory: MemoryTrace | None = None,
) -> None:
    """Write what a training run or a step of a plan did: a folder of Chakra traces of its `graph`,
    a folder of Kineto traces of a `device`, a Chrome trace, or a picture. Raises InputError."""
    if timeline.suffix == CHAKRA:
        from experiments.traces.chakra_export import chakra_files

        output.write_folder(timeline, chakra_files(graph()))
    elif is_folder(timeline):
        from experiments.pictures.timelines.kineto_export import kineto_files

        output.write_folder(timeline, kineto_files(step(), device, parameters, choice))
    elif output.is_result(timeline):
        from experiments.pictures.timelines.chrome_trace import chrome_trace

        made, remedy = step(), "take fewer steps or micro-batches"
        about = made.traced_spans(), made.timeline, parameters, remedy
        output.write(timeline, chrome_trace(*about, memory=memory, choice=choice))
    else:
        _draw(timeline, step().spans(), title)


def write_collective(
    timeline: Timeline, files: Files, title: str, parameters: Mapping[str, object]
) -> None:
    """Write the timeline of collectives: a Chrome trace if its file ends in .json, else a picture.
    Raises InputError."""
    assert files.timeline
    from experiments.pictures.timelines import collective_spans

    if files.is_trace:
        from experiments.pictures.timelines.chrome_trace import chrome_trace
        from simulator.analysis import memory

        about = collective_spans.traced_spans(timeline), timeline, parameters, "take fewer ranks"
        traced = memory.trace(timeline.schedule, timeline)
        output.write(files.timeline, chrome_trace(*about, memory=traced, choice=files.trace))
    else:
        _draw(files.timeline, collective_spans.collective_spans(timeline, everyone=True), title)


def _draw(file: Path, spans: Spans, title: str) -> None:
    from experiments.pictures.figures import write_figure
    from experiments.pictures.timelines.painter import timeline_drawing

    write_figure(file, timeline_drawing(spans, title=title))
