"""What results have besides their reports: spans, use and memory, by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.names import rank_name
from experiments.pages.machine_use import use_of
from experiments.pages.memory_curves import MemoryCurves, curves_of
from experiments.pictures.timelines.collective_spans import collective_spans
from experiments.pictures.timelines.step_spans import step_spans, strategy_spans
from experiments.pictures.timelines.timeline_file import write_collective, write_timeline
from simulator.analysis import memory
from simulator.analysis.critical_path import critical_path
from simulator.parallel.step_splits import ranks_of

if TYPE_CHECKING:
    from experiments.answer_files import Files
    from experiments.pages.reports.result import Result
    from experiments.parallel.plan_run import PlanRun
    from experiments.training.job import TrainingRun
    from simulator.analysis.memory import MemoryTrace
    from simulator.schedules.timeline import Timeline


def details(kind: str, subject: Any) -> Mapping[str, Any]:
    """What a kind of result has besides its report: of collectives from their timeline, of a
    training run from that, of a plan from its step."""
    if kind == "train":
        return training_details(subject)
    return step_details(subject) if kind == "plan" else run_details(subject)


def _memory(held: MemoryTrace, timeline: Timeline) -> MemoryCurves:
    schedule = timeline.schedule
    names = [rank_name(schedule, rank) for rank in range(schedule.ranks)]
    return curves_of(held, names, timeline.makespan)


def run_details(timeline: Timeline) -> Mapping[str, Any]:
    """What the result of collectives has besides its report."""
    return {
        "spans": collective_spans(timeline, critical_path(timeline)),
        "use": use_of(timeline),
        "memory": _memory(memory.trace(timeline.schedule, timeline), timeline),
    }


def training_details(training: TrainingRun) -> Mapping[str, Any]:
    """What the result of a training run has besides its report."""
    plan, timeline, held = training.plan, training.timeline, training.memory
    return {
        "spans": strategy_spans(plan, timeline).spans(training.path),
        "use": None if plan.is_priced else use_of(timeline),
        "memory": held and _memory(held, timeline),
    }


def step_details(run: PlanRun) -> Mapping[str, Any]:
    """What the result of a step of a plan has besides its report: spans of a step without
    conditions."""
    if run.has_conditions:
        return {}
    return {"spans": step_spans(run.step).spans(critical_path(run.step.timeline))}


def draw(result: Result, files: Files, subject: Any) -> None:
    """Write the timeline of what a kind of result is of. Raises InputError."""
    timeline, about = files.timeline, (dict(result.parameters), files.trace)
    assert timeline
    if result.kind == "train":
        plan, times = subject.plan, subject.timeline
        drawn = (lambda: strategy_spans(plan, times)), (lambda: plan.simulated(times))
        device = plan.model.device
        write_timeline(timeline, *drawn, subject.title, device, *about, subject.memory)
    elif result.kind == "plan":
        step, training = subject.whole, subject.training
        drawn = (lambda: step_spans(step, subject.attempts)), (lambda: ranks_of(step))
        title = f"{training.name}, {subject.plan}"
        write_timeline(timeline, *drawn, title, training.times.device, *about)
    else:
        write_collective(subject, files, result.story.title, result.parameters)
