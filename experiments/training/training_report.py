"""A training run in full, for JSON and for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.models.model_catalogue import MODELS
from experiments.models.model_shapes import TransformerShape
from experiments.names import wait_records
from experiments.output import counted
from experiments.templates import fill
from experiments.text_lines import bytes_cell
from experiments.training.job import CAUSE_KEYS, TrainingRun
from experiments.training.training_grid import WhatIf
from simulator.analysis.critical_path import parts
from simulator.analysis.memory import MemoryTrace
from topologies.topology import Floats
from topologies.units import format_seconds


def report(run: TrainingRun, what_if: WhatIf) -> object:
    """The whole run as values for JSON."""
    measures, plan = run.measures, run.plan
    # Without a fixed order of updates, no step is lost.
    numbers, lost = range(len(measures.steps)), [False] * len(measures.steps)
    if plan.updates is None:
        numbers, lost = plan.numbers.tolist(), (plan.useful == 0).tolist()
    idle = {"input": run.input_s * measures.window.steps} if run.input_s else {}
    seconds = {f"{name}_s": getattr(measures, name) for name in ("computing", "exposed", "hidden")}
    bubbles = measures.bubbles.tolist()
    return {
        "summary": run.row,
        "steps_s": measures.steps.tolist(),
        "step_numbers": list(numbers),
        "steps_lost": lost,
        "critical_path_s": parts(run.path),
        "critical_path_by_phase_s": run.by_phase(),
        "contention": wait_records(run.waits, run.timeline.schedule),
        "what_if_s": what_if,
        "ranks": [
            {
                "rank": rank,
                **{name: float(column[place]) for name, column in seconds.items()},
                "bubble_s": dict(zip(CAUSE_KEYS, bubbles[place], strict=True)) | idle,
            }
            for rank, place in enumerate(run.places)
        ],
        "memory": run.memory and _over_time(run.memory, run.timeline.schedule.ranks),
        "staleness": measures.staleness.tolist(),
        "simulated": run.simulated,
        "chosen": list(plan.words),
        "model_source": plan.model.source,
    }


def _over_time(memory: MemoryTrace, ranks: int) -> object:
    """The memory of all ranks together and of each, at about a thousand points at most."""

    def thin(column: Floats) -> list[float]:
        points: list[float] = column[:: max(1, len(column) // 1000)].tolist()
        return points

    return {
        "times_s": thin(memory.times),
        "resident_B": thin(memory.resident),
        "redundant_B": thin(memory.redundant),
        "ranks": [
            {
                "rank": rank,
                "peak_B": float(memory.peaks[rank]),
                **dict(zip(("times_s", "resident_B"), map(thin, memory.of(rank)), strict=True)),
            }
            for rank in range(ranks)
        ],
    }


def words_of(run: TrainingRun) -> dict[str, Any]:
    """Facts of a run that only the terminal shows, by the names that its story uses."""
    epochs, changes = run.job.epochs, dict[str, Any]()
    traced = ", at most" * run.plan.is_priced
    if run.memory is None:
        traced = ", without messages on their way"
    if run.input_s:
        step = max(run.measures.step, run.least / 2)
        changes["twice the input rate"] = {"first_order": step, "simulated": step}
    return {
        "changes": changes,
        "lacks": _lacks(run),
        "limit": f"of {bytes_cell(run.capacity)}, " if run.capacity else "",
        "traced": traced,
        "spread": _spread(run),
        "reads": fill(
            ": the pipeline reads {rate_per_s} samples/s", {"rate_per_s": epochs.input_rate}
        ),
        "pause": f", and {format_seconds(epochs.pause)} beside them",
        "verdict": f"FAIL: {run.wrong}" if run.wrong else "ok",
        "proof": run.proof,
    }


def _lacks(run: TrainingRun) -> str:
    """By how much a run does not fit, and what of that is unsure."""
    capacity, model = run.capacity, run.plan.model
    if capacity is None or run.held <= capacity:
        return ""
    entry = MODELS.get(model.name)
    divides = entry is not None and isinstance(entry.model, TransformerShape)
    lacks: dict[str, Any] = {"held": run.held, "missing": run.held - capacity, "capacity": capacity}
    lacks |= {"device": model.device, "activations": model.activations}
    return "\n" + fill(
        "  the fullest worker holds {held:B}, {missing:B} more than the {capacity:B} of {device}\n"
        "  least sure: {activations:B} of activations; CUDA and libraries are not counted"
        + "\n  to make it fit: simctl plan auto divides the model among GPUs"
        * divides,
        lacks,
    )


def _spread(run: TrainingRun) -> str:
    steps = np.maximum(run.measures.steps, run.least)
    if len(steps) < 2:
        return ""
    updates = "" if run.plan.updates is None else f" times {counted(run.ranks, 'update')}"
    ends = f"{format_seconds(steps.min())} to {format_seconds(steps.max())}"
    return f"mean of {len(steps)}{updates}; {ends}"
