"""What results have besides their reports: spans, use and memory, by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.names import rank_name
from experiments.pages.machine_use import curves_of, use_of
from experiments.pictures.timelines.collective_spans import collective_spans
from experiments.pictures.timelines.step_spans import step_spans, strategy_spans
from experiments.pictures.timelines.timeline_file import write_collective, write_timeline
from simulator.analysis import memory
from simulator.analysis.critical_path import critical_path
from simulator.parallel.step_splits import ranks_of

if TYPE_CHECKING:
    from experiments.answer_files import Files
    from experiments.pages.reports.result import Result


def details(kind: str, subject: Any) -> Mapping[str, Any]:
    """What a kind of result has besides its report: of collectives from their timeline, of a
    training run from that, of a plan from its step, if that has no conditions."""
    if kind == "plan":
        if subject.has_conditions:
            return {}
        step = subject.step
        return {"spans": step_spans(step).spans(critical_path(step.timeline))}
    if kind == "train":
        timeline, held, is_priced = subject.timeline, subject.memory, subject.plan.is_priced
        spans = strategy_spans(subject.plan, timeline).spans(subject.path)
    else:
        timeline, held, is_priced = subject, memory.trace(subject.schedule, subject), False
        spans = collective_spans(timeline, critical_path(timeline))
    schedule = timeline.schedule
    names = [rank_name(schedule, rank) for rank in range(schedule.ranks)]
    return {
        "spans": spans,
        "use": None if is_priced else use_of(timeline),
        "memory": held and curves_of(held, names, timeline.makespan),
    }


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
