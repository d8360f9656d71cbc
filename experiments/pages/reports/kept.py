"""Answers as files: stored results, and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import output
from experiments.names import rank_name
from experiments.output import RunFiles, Value
from experiments.pages.machine_use import use_of
from experiments.pages.memory_curves import MemoryCurves, curves_of
from experiments.pages.reports.report_file import write
from experiments.pages.reports.result import Result, origin
from experiments.pages.reports.result_file import to_text
from experiments.pages.run_spans import spans_of_run
from experiments.pages.spans import thinned
from experiments.pages.training_spans import spans_of_training
from experiments.pictures.timelines.step_spans import step_spans, strategy_spans
from simulator.analysis import memory
from simulator.analysis.critical_path import trace_back

if TYPE_CHECKING:
    from experiments.training.job import TrainingRun
    from simulator.analysis.memory import Memory
    from simulator.parallel.step import Step
    from simulator.schedules.timeline import Timeline


def keep(result: Result, out: Path | None, report: Path | None) -> None:
    """Store a result and write its report, as far as they have files."""
    if report:
        write(report, result)
    if out:
        output.write(out, to_text(result))


def _memory(held: Memory, timeline: Timeline) -> MemoryCurves:
    schedule = timeline.schedule
    names = [rank_name(schedule, rank) for rank in range(schedule.ranks)]
    return curves_of(held, names, timeline.makespan)


def keep_run(
    kind: str,
    report: Any,
    timeline: Timeline,
    files: RunFiles,
    parameters: Mapping[str, Value],
    left_out: Sequence[str],
) -> None:
    """Keep the result of collectives."""
    result = Result(
        kind,
        report,
        origin(parameters),
        left_out=left_out,
        spans=thinned(spans_of_run(timeline)),
        use=use_of(timeline),
        memory=_memory(memory.trace(timeline.schedule, timeline), timeline),
    )
    keep(result, files.out, files.report)


def keep_training(
    report: Any,
    training: TrainingRun,
    files: RunFiles,
    parameters: Mapping[str, Value],
    left_out: Sequence[str],
) -> None:
    """Keep the result of a training run."""
    plan, timeline = training.plan, training.timeline
    result = Result(
        "train",
        report,
        origin(parameters),
        left_out=left_out,
        spans=thinned(spans_of_training(strategy_spans(plan, timeline), training.path)),
        use=None if plan.blocks else use_of(timeline),
        memory=_memory(training.memory, timeline) if training.memory else None,
    )
    keep(result, files.out, files.report)


def keep_step(
    report: Any,
    step: Step,
    files: RunFiles,
    parameters: Mapping[str, Value],
    left_out: Sequence[str],
) -> None:
    """Keep the result of a step of a plan."""
    spans = thinned(spans_of_training(step_spans(step), trace_back(step.timeline)))
    result = Result("plan", report, origin(parameters), left_out=left_out, spans=spans)
    keep(result, files.out, files.report)
