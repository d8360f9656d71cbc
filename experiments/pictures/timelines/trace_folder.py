"""Timelines that are folders: a file of each rank, and which files these are by the ending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.trace_choice import ALL, TraceChoice

if TYPE_CHECKING:
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


def write_traces(
    timeline: Path,
    graph: Callable[[], StepGraph],
    kineto: Callable[[], Mapping[str, bytes]],
) -> None:
    """Write a folder of Chakra traces of a `graph`, or of `kineto` traces. Raises InputError."""
    if timeline.suffix == CHAKRA:
        from experiments.traces.chakra_export import chakra_files

        output.write_folder(timeline, chakra_files(graph()))
    else:
        output.write_folder(timeline, kineto())
