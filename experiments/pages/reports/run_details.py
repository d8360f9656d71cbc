"""What results have besides their reports: spans, use and memory, by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.names import rank_name
from experiments.pages.machine_use import use_of
from experiments.pages.memory_curves import curves_of
from experiments.pictures.timelines.collective_spans import collective_spans
from experiments.pictures.timelines.step_spans import step_spans, strategy_spans
from experiments.pictures.timelines.stored import Document
from simulator.analysis import memory
from simulator.analysis.critical_path import critical_path

if TYPE_CHECKING:
    from experiments.training.job import TrainingRun
    from simulator.analysis.memory import MemoryTrace
    from simulator.parallel.step import Step
    from simulator.schedules.timeline import Timeline


def details(kind: str, subject: Any) -> Mapping[str, Any]:
    """What a kind of result has besides its report: of collectives from their timeline, of a
    training run from that, of a plan from its step."""
    if kind == "train":
        return training_details(subject)
    return step_details(subject) if kind == "plan" else run_details(subject)


def _memory(held: MemoryTrace, timeline: Timeline) -> Document:
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


def step_details(step: Step) -> Mapping[str, Any]:
    """What the result of a step of a plan has besides its report."""
    return {"spans": step_spans(step).spans(critical_path(step.timeline))}
