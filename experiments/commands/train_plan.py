"""`simctl train --plan`: a step of a plan, and the search for the fastest plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from experiments.commands.answer import Answer, check_files
from experiments.parallel.expert_routing import routing_of
from experiments.parallel.fitting import Fit, advice, columns, fit, lacking, memory_of, zero_of
from experiments.parallel.fitting import figures as figures_of
from experiments.parallel.layer_report import figures as routed
from experiments.parallel.layer_report import prove
from experiments.parallel.layer_report import text as layers_of
from experiments.parallel.plan_errors import span_of
from experiments.parallel.plan_report import report, row_of, text, title
from experiments.parallel.plan_search import SearchResult, find_plans, with_intervals
from experiments.parallel.plan_space import Space
from experiments.parallel.plan_step import Setting, interval_of, work_of
from experiments.parallel.plan_text import Plan
from experiments.parallel.search_report import report as search_report
from experiments.parallel.search_report import rows
from experiments.parallel.search_report import text as search_text
from experiments.pictures.timelines.trace_folder import check_timeline, write_timeline
from experiments.profiles.interval_levels import interval_columns, level_of
from experiments.trace_choice import TraceChoice
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import EP
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import StepMeasures, measure
from topologies.topology import Topology

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Request(Setting):
    """What to train."""

    plan: Plan
    transfers: bool
    """Whether every transfer of all ranks is simulated, too."""

    def step(self) -> Step:
        """The operations of a step."""
        return write(work_of(self.training, self.plan, self.groups(self.plan)))

    def answer(self) -> tuple[Step, StepMeasures, dict[str, Any], Fit]:
        """A step, its row, and its memory."""
        step, level = self.step(), level_of(self.profile)
        measures, fitting = measure(step), fit(self.training, self.plan, step.work)
        force = self.rules.force
        row = row_of(self.training, self.plan, step, measures) | {
            "memory_bytes": fitting.memory.peak,
            "missing_bytes": fitting.missing,
            "transfers_s": _with_transfers(step, force=force) if self.transfers else None,
            **interval_columns(interval_of(step.work, level) if level else None),
        }
        return step, measures, row, fitting

    def records(self) -> list[output.Record]:
        """The row of the table."""
        _, _, row, fitting = self.answer()
        return [row | columns(fitting)]


def run(
    request: Request | SearchRequest, files: output.RunFiles, how: str, plot: Path | None = None
) -> int:
    """Print a step of a plan in full, or the fastest plans and why each loses; 1 if the step does
    not fit in memory."""
    check_files(files.out, plot, files.report, files.timeline)
    if isinstance(request, SearchRequest):
        return _search(request, files, how, plot)
    check_timeline(files.timeline, request.plan.degrees.ranks, files.trace)
    step, measures, row, fitting = request.answer()
    _note_nodes(step.work.times)
    line = advice(request.training, request.plan, fitting, step.work.times.topology)
    shape, topology = request.training.shape, step.work.times.topology
    routing = routing_of(shape, request.plan, request.training.seq, topology)
    proven = prove(request.plan, routing, shape.experts)
    router = routed(routing, step.work, float(measures.exposed[:, EP].mean()))
    if files.timeline:
        _draw(step, files.timeline, f"{row['model']}, {row['plan']}", request, files.trace)
    figures = report(row, step, measures) | {"memory": figures_of(fitting, line, step)}
    figures |= {"router": router, "proven": proven}
    about = request.parameters, request.machine, request.profile
    answer = Answer("plan", figures, [row | columns(fitting)], *about)
    answer.write(files.out, report=files.report, keep=partial(_keep, step, answer))

    def blocks() -> Iterator[str]:
        yield f"{title(row)}\n{lacking(fitting, line)}" if line else title(row)
        yield memory_of(fitting)
        yield text(row, step, measures)
        yield layers_of(request.plan, router, proven)
        yield zero_of(fitting)

    answer.show(how, lambda: "\n\n".join(filter(None, blocks())))
    return int(fitting.missing > 0)


def _keep(step: Step, answer: Answer, files: output.RunFiles, left_out: Sequence[str]) -> None:
    from experiments.pages.reports.kept import keep_step

    keep_step(answer.report, step, files, answer.parameters, left_out)


def _note_nodes(times: GroupTimes) -> None:
    """Say so if tensor parallel groups reach beyond a node."""
    groups = times.topology.placement[times.degrees.groups("tp")]
    if (count := max(len(np.unique(group)) for group in times.topology.node[groups])) > 1:
        crosses = f"tp={times.degrees.tp} crosses nodes: a group is on {count} nodes"
        output.note(f"{crosses}, so the transfers of every layer take the network between nodes")


def _with_transfers(step: Step, *, force: bool) -> float:
    """Seconds of the step with every transfer of all ranks, after a proof of its results."""
    from simulator.parallel.step_transfers import simulate, write_transfers
    from simulator.steps.written import prove

    written = write_transfers(step, force=force)
    prove(written)
    return simulate(step, written).makespan


def _draw(step: Step, timeline: Path, title: str, request: Request, choice: TraceChoice) -> None:
    """Write a picture, a Chrome trace, or a folder with a trace of each rank."""
    from experiments.pictures.timelines.step_spans import step_spans
    from simulator.parallel.step_transfers import ranks_of

    parameters = dict(request.parameters)
    write_timeline(
        timeline,
        lambda: step_spans(step),
        lambda: ranks_of(step),
        title,
        str(parameters.get("device", "")),
        parameters,
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
        topology = self.machine.build(self.gpus)
        run, degrees = self.rules.run, Degrees(dp=self.gpus)
        times = GroupTimes(topology, degrees, profile=self.profile, run=run)
        size, span = node_size(topology, self.gpus), span_of(topology, self.gpus)
        space = Space(self.training, self.gpus, size, self.values, span)
        found, level = find_plans(space, times, output.Progress), level_of(self.profile)
        return with_intervals(found, times, level) if level else found

    def records(self) -> list[output.Record]:
        """The rows of the table."""
        return [*rows(self.searched())]


def node_size(topology: Topology, gpus: int) -> int:
    """GPUs of the first node; all of a machine without nodes."""
    node = topology.node[topology.placement[:gpus]]
    return int(np.count_nonzero(node == node[0])) if node[0] >= 0 else gpus


def _search(request: SearchRequest, files: output.RunFiles, how: str, plot: Path | None) -> int:
    searched = request.searched()
    answer = Answer(
        "plans",
        search_report(searched),
        rows(searched),
        request.parameters,
        request.machine,
        request.profile,
        [("Memory of the fastest plans", partial(_memory, searched))],
    )
    answer.write(files.out, plot, files.report)
    answer.show(how, lambda: search_text(searched))
    return 0


def _memory(searched: SearchResult) -> Figure:
    from experiments.pictures.plan_pictures import memory_drawing

    return memory_drawing(searched)
