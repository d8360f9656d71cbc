"""What results have besides their reports: spans, use and memory, by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.names import rank_name
from experiments.pages.machine_use import use_of
from experiments.pages.memory_curves import curves_of
from experiments.pictures.timelines.collective_spans import collective_spans
from experiments.pictures.timelines.step_spans import step_spans, strategy_spans
from simulator.analysis import memory
from simulator.analysis.critical_path import critical_path


def details(kind: str, subject: Any) -> Mapping[str, Any]:
    """What a kind of result has besides its report: of collectives from their timeline, of a
    training run from that, of a plan from its step."""
    if kind == "plan":
        return {"spans": step_spans(subject).spans(critical_path(subject.timeline))}
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
