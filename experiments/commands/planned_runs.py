"""Steps of plans of parallel training, and searches for plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from experiments.commands.answer import Answer, check_files
from experiments.options.execution_options import ExecutionOptions
from experiments.parallel.plan_job import PlanJob, Setting
from experiments.parallel.plan_report import search_text, text
from experiments.parallel.plan_run import PlanRun
from experiments.parallel.plan_search import SearchResult, find_plans
from experiments.parallel.plan_space import Space
from experiments.parallel.plan_text import Plan
from experiments.parallel.step_calibration import span_of
from experiments.pictures.timelines.timeline_file import check_timeline, write_timeline
from experiments.profiles.interval_levels import level_of
from experiments.trace_choice import TraceChoice
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import Step
from topologies.errors import InputError
from topologies.topology import Topology

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(
    request: PlanJob | SearchRequest,
    files: output.RunFiles,
    how: str,
    plot: Path | None = None,
    execution: ExecutionOptions = ExecutionOptions(),
) -> int:
    """Print a step of a plan in full, or the fastest plans and why each loses; 1 if the step does
    not fit in memory."""
    check_files(files.out, plot, files.report, files.timeline)
    if not execution.are_usual:
        raise InputError("--jobs, --resume: a plan is one step, leave them out")
    if isinstance(request, SearchRequest):
        if files.timeline is not None:
            raise InputError(f"--timeline {files.timeline}: with auto take --plot, or name a plan")
        return _search(request, files, how, plot)
    if plot is not None:
        raise InputError(f"--plot {plot}: of several plans or strategies: else take --timeline")
    check_timeline(files.timeline, request.plan.degrees.ranks, files.trace)
    result = request.answer()
    _note_nodes(result.step.work.times)
    if files.timeline:
        _draw(result, files.timeline, request, files.trace)
    about = request.parameters, request.machine, request.profile
    answer = Answer("plan", result.figures(), [result.record], *about)
    # The spans are of a step without conditions.
    details = partial(_details, result.step) if not result.has_conditions else dict
    answer.write(files.out, report=files.report, details=details)
    answer.show(how, lambda: text(result))
    return int(result.missing > 0)


def _details(step: Step) -> Mapping[str, Any]:
    from experiments.pages.reports.kept import step_details

    return step_details(step)


def _note_nodes(times: GroupTimes) -> None:
    """Say so if tensor parallel groups reach beyond a node."""
    groups = times.topology.placement[times.degrees.groups("tp")]
    if (count := max(len(np.unique(group)) for group in times.topology.node[groups])) > 1:
        crosses = f"tp={times.degrees.tp} crosses nodes: a group is on {count} nodes"
        output.note(f"{crosses}, so the transfers of every layer take the network between nodes")


def _draw(result: PlanRun, timeline: Path, request: PlanJob, choice: TraceChoice) -> None:
    """Write a picture, a Chrome trace, or a folder with a trace of each rank."""
    from experiments.pictures.timelines.step_spans import step_spans
    from simulator.parallel.step_splits import ranks_of

    step, attempts = result.whole, result.attempts
    write_timeline(
        timeline,
        lambda: step_spans(step, attempts),
        lambda: ranks_of(step),
        f"{result.training.name}, {result.plan}",
        result.training.times.device,
        dict(request.parameters),
        choice,
    )


@dataclass(frozen=True, kw_only=True)
class SearchRequest(Setting):
    """What to search."""

    gpus: int
    """The GPUs of the job."""
    values: Mapping[str, object]
    """What all plans have."""

    def searched(self) -> SearchResult:
        """The fastest plans."""
        # Only the fastest plans have intervals.
        times = replace(self.groups(Plan(dp=self.gpus)), end=None)
        size, span = node_size(times.topology, self.gpus), span_of(times.topology, self.gpus)
        space = Space(self.training, self.gpus, size, self.values, span)
        return find_plans(space, times, output.Progress, level=level_of(self.profile))

    def records(self) -> list[output.Record]:
        """The rows of the table."""
        return [*self.searched().rows]


def node_size(topology: Topology, gpus: int) -> int:
    """GPUs of the first node; all of a machine without nodes."""
    node = topology.node[topology.placement[:gpus]]
    return int(np.count_nonzero(node == node[0])) if node[0] >= 0 else gpus


def _search(request: SearchRequest, files: output.RunFiles, how: str, plot: Path | None) -> int:
    searched = request.searched()
    memory = "Memory of the fastest plans", partial(_memory, searched)
    about = request.parameters, request.machine, request.profile, [memory]
    answer = Answer("plans", searched.figures(), searched.rows, *about)
    answer.write(files.out, plot, files.report)
    answer.show(how, lambda: search_text(searched))
    return 0


def _memory(searched: SearchResult) -> Figure:
    from experiments.pictures.result_curves import memory_drawing

    return memory_drawing(searched)
