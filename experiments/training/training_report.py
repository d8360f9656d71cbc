"""A training run in full: as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from experiments.models.model_catalogue import MODELS
from experiments.models.model_shapes import TransformerShape
from experiments.output import align, counted
from experiments.profiles.interval_levels import EXPECTED
from experiments.templates import Lines, fill, lines_of, table_of
from experiments.terms import footnote
from experiments.text_lines import bytes_cell, share_cells
from experiments.training.job import CAUSE_KEYS, TrainingRun
from experiments.training.training_grid import WhatIf
from experiments.wait_records import wait_cells, wait_records
from simulator.analysis.bubbles import CAUSES
from simulator.analysis.critical_path import parts
from simulator.analysis.memory import MemoryTrace
from topologies.topology import Floats, Ints
from topologies.units import format_seconds

CHANGED = {
    "  change": "  {name}",
    "a step": "{simulated:s}",
    "saves": "{saved:.1%}",
    "to first order": "{first_order:s}",
}
"""The columns of a table of changes."""
FIGURES = {
    "peak memory": ("{peak_B:B}", "{limit}the fullest rank{traced}"),
    "step": ("{step_s}", "{spread}"),
    "expected": EXPECTED,
    "unsure": ("", "{unsure}"),
    "waiting for input": ("{input_s}", "{input_share:.1%} of the step{reads}"),
    "epoch": ("{epoch_s}", "{epoch_steps} steps{pause}"),
    "training": ("{training_s}", "{number}"),
    "samples/s": ("{samples_per_s}", "{efficiency:.1%} of {ranks} times one worker alone"),
    "computing": ("{computing_s}", "{computing_share:.1%} of the step"),
    "restarting": ("{restarting_s}", "of the mean step"),
    "communicating": ("{communicating_s}", "{hidden_s} hidden, {exposed_s} exposed"),
    "sent": ("{volume_B:B}", "all ranks, a step"),
    "redundant": ("{redundant}", "the peak amount of duplicate data over all ranks"),
    "staleness": ("{staleness:.2f}", "{stale}"),
    "simulated": ("{who}", "{parts}"),
    "verdict": ("{verdict}", "{proof}"),
}
"""The figures of a run."""


def report(run: TrainingRun, what_if: WhatIf) -> object:
    """The whole run as values for JSON."""
    measures, plan = run.measures, run.plan
    # Without a fixed order of updates, no step is lost.
    numbers, lost = range(len(measures.steps)), [False] * len(measures.steps)
    if plan.updates is None:
        numbers, lost = plan.numbers.tolist(), (plan.useful == 0).tolist()
    idle = {"input": run.input_s * measures.window.steps} if run.input_s else {}
    seconds = {f"{name}_s": getattr(measures, name) for name in ("computing", "exposed", "hidden")}
    bubbles = measures.bubbles.seconds.tolist()
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


def text(run: TrainingRun, what_if: WhatIf) -> str:
    """The run as text for people."""
    words, bare = run.plan.words, run.job.profile is None
    chosen = [*words[:3]]
    if len(words) > 3:
        chosen.append(f"... {len(words)} lines, all with --format json")
    chosen.append(f"model: {run.plan.model.source}")
    if bare and not getattr(run.job.strategy, "launch", 0.0):
        chosen.append("launch of a collective: 0s; --library adds the launch of a library")
    waiting = wait_cells(run.waits, run.timeline.schedule, run.measures.window.steps)
    tables = {
        "bubbles: why devices wait, of a step": _bubbles(run),
        "where the time goes (the critical path)": _path(run),
        "contention: waiting behind messages of other ranks, of a step": waiting,
        "what would help": _helping(run, what_if),
    }
    blocks = [_title(run), "\n".join(f"  {line}" for line in chosen), align(_summary(run))]
    blocks += [f"{name}\n{align(lines)}" for name, lines in tables.items() if lines]
    return "\n\n".join([*blocks, footnote(["not included"])] if bare else blocks)


def _title(run: TrainingRun) -> str:
    """The first line; of a run that does not fit also by how much, and what of it is unsure."""
    capacity, model = run.capacity, run.plan.model
    if capacity is None or run.held <= capacity:
        return f"{run.title}: {format_seconds(run.step)} a step"
    entry = MODELS.get(model.name)
    divides = entry is not None and isinstance(entry.model, TransformerShape)
    lacks: dict[str, Any] = {"held": run.held, "missing": run.held - capacity, "capacity": capacity}
    lacks |= {"device": model.device, "activations": model.activations}
    return f"{run.title}: does not fit in memory\n" + fill(
        "  the fullest worker holds {held:B}, {missing:B} more than the {capacity:B} of {device}\n"
        "  least sure: {activations:B} of activations; CUDA and libraries are not counted"
        + "\n  to make it fit: simctl plan auto divides the model among GPUs"
        * divides,
        lacks,
    )


def _summary(run: TrainingRun) -> Lines:
    epochs = run.job.epochs
    traced = ", at most" * run.plan.is_outline
    if run.memory is None:
        traced = ", without messages on their way"
    words = {
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
    return figures(run.row, run.measures.staleness, run.simulated, words)


def figures(
    row: Mapping[str, Any],
    staleness: ArrayLike,
    simulated: Mapping[str, int],
    words: Mapping[str, str],
) -> Lines:
    """The figures of a run from its row, the staleness of its updates, and how much of it is
    simulated. `words` are remarks that only the run itself has."""
    step, (who, parts) = row["step_s"] or 1.0, _simulated(row["ranks"], **simulated)
    return lines_of(
        FIGURES,
        {
            **row,
            **dict.fromkeys(("limit", "traced", "spread", "reads", "pause"), ""),
            "input_share": row.get("input_s", 0.0) / step,
            "computing_share": row["computing_s"] / step,
            "restarting_s": row["restarting_s"] or None,
            "communicating_s": row["exposed_s"] + row["hidden_s"],
            "redundant": bytes_cell(row["redundant_B"]),
            "stale": _stale(np.asarray(staleness)) if np.size(staleness) else None,
            "number": counted(row["epochs"], "epoch") if "epochs" in row else None,
            "unsure": row.get("unsure") or None,
            "who": who,
            "parts": parts,
            **words,
        },
    )


def _simulated(
    number: int, ranks: int, collectives: int, replayed: int, rounds: int
) -> tuple[str, str]:
    who = "all ranks" if number == ranks else f"{ranks} of {number} ranks"
    if not collectives:
        return who, "all transfers"
    again = f", {rounds} rounds" if rounds else ""
    parts = f"{collectives - replayed} simulated, {replayed} replayed{again}"
    return who, f"{collectives} collectives: {parts}"


def _spread(run: TrainingRun) -> str:
    steps = np.maximum(run.measures.steps, run.least)
    if len(steps) < 2:
        return ""
    updates = "" if run.plan.updates is None else f" times {counted(run.ranks, 'update')}"
    ends = f"{format_seconds(steps.min())} to {format_seconds(steps.max())}"
    return f"mean of {len(steps)}{updates}; {ends}"


def _stale(staleness: Ints) -> str:
    low, middle, high = np.quantile(staleness, (0.1, 0.5, 0.9), method="nearest").astype(int)
    return f"updates, mean; 10% {low}, median {middle}, 90% {high}, most {staleness.max()}"


def _bubbles(run: TrainingRun) -> Lines:
    """Mean and worst idle time by cause, for a step, with their shares of the run."""
    window = run.measures.window
    seconds = run.measures.bubbles.seconds / window.steps
    worst = int(seconds.sum(axis=1).argmax())
    both = np.stack((seconds.mean(axis=0), seconds[worst]), axis=1).tolist()
    rows = dict(zip(CAUSES, both, strict=True))
    if run.input_s:
        rows["input"] = [run.input_s] * 2
    rows["in all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    whole = (window.end or 1.0) / window.steps + run.input_s
    lines = [["", "mean", "", f"worst: rank {run.plan.standing[worst]}", ""]]
    for name, (mean, most) in rows.items():
        lines.append([*share_cells(name, mean, whole), *share_cells("", most, whole)[1:]])
    return lines


def _path(run: TrainingRun) -> Lines:
    steps, spent = run.measures.window.steps, parts(run.path)
    del spent["compute"]
    seconds = {f"compute: {phase}": value for phase, value in run.by_phase().items()} | spent
    seconds["waiting for input"] = run.input_s * steps
    length = run.length / steps + run.input_s
    return [
        share_cells(name, value / steps, length) for name, value in seconds.items() if value > 0
    ]


def _helping(run: TrainingRun, what_if: WhatIf) -> Lines:
    now, changes = run.length / run.measures.window.steps + run.input_s or 1.0, dict(what_if)
    if run.input_s:
        step = max(run.measures.step, run.least / 2)
        changes["twice the input rate"] = {"first_order": step, "simulated": step}
    return table_of(CHANGED, change_rows(changes, now))


def change_rows(what_if: WhatIf, step: float) -> list[Mapping[str, Any]]:
    """The rows of a table of changes: of what is not simulated, what they save to first order."""
    rows = list[Mapping[str, Any]]()
    for name, each in what_if.items():
        seconds = each["first_order"] if each["simulated"] is None else each["simulated"]
        saved = None if seconds is None else 1 - seconds / (step or 1.0)
        rows.append({"name": name, **each, "saved": saved})
    return rows
