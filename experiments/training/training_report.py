"""One run in full: as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from experiments.output import Value, align
from experiments.training.job import Run
from experiments.training.training_table import memory_cell, rate
from experiments.waits import wait_cells, wait_records
from simulator.analysis.bubbles import CAUSES
from simulator.analysis.critical_path import PARTS, parts
from simulator.analysis.memory import Memory
from topologies.units import format_bytes, format_seconds

WhatIf = Mapping[str, tuple[float, float]]
POINTS = 1000
"""Points in time of which the memory is told in JSON."""
WORDS = 3
"""Lines on what was chosen that are shown."""


def report(found: Run, record: Mapping[str, Value], what_if: WhatIf) -> object:
    """All of it, for JSON."""
    measures = found.measures
    return {
        "summary": record,
        "steps_s": measures.steps.tolist(),
        **_attempts(found),
        "critical_path_s": parts(found.path),
        "critical_path_by_phase_s": found.by_phase(),
        "contention": wait_records(found.waits, found.timeline.schedule),
        "what_if_s": {name: {"first_order": a, "simulated": b} for name, (a, b) in what_if.items()},
        "ranks": [
            {
                "rank": rank,
                "computing_s": float(measures.computing[rank]),
                "exposed_s": float(measures.exposed[rank]),
                "hidden_s": float(measures.hidden[rank]),
                "bubble_s": dict(
                    zip(CAUSE_KEYS, measures.bubbles.seconds[rank].tolist(), strict=True)
                ),
            }
            for rank in range(found.ranks)
        ],
        "memory": None
        if found.memory is None
        else _over_time(found.memory, found.timeline.schedule.ranks),
        "staleness": measures.staleness.tolist(),
        "chosen": list(found.plan.words),
        "model_source": found.plan.model.source,
    }


def _attempts(found: Run) -> Mapping[str, object]:
    """The number of each step and whether it is lost; of updates in no fixed order no step is."""
    if found.plan.updates is None:
        return {
            "step_numbers": found.plan.numbers.tolist(),
            "steps_lost": (found.plan.useful == 0).tolist(),
        }
    steps = len(found.measures.steps)
    return {"step_numbers": list(range(steps)), "steps_lost": [False] * steps}


def _over_time(memory: Memory, ranks: int) -> object:
    """All ranks together, and each; of many steps about a thousand."""
    every = slice(None, None, max(1, len(memory.times) // POINTS))
    return {
        "times_s": memory.times[every].tolist(),
        "resident_B": memory.resident[every].tolist(),
        "redundant_B": memory.redundant[every].tolist(),
        "ranks": [
            {
                "rank": rank,
                "peak_B": float(memory.peaks[rank]),
                "times_s": times[:: max(1, len(times) // POINTS)].tolist(),
                "resident_B": nbytes[:: max(1, len(times) // POINTS)].tolist(),
            }
            for rank in range(ranks)
            for times, nbytes in [memory.of(rank)]
        ],
    }


CAUSE_KEYS = ("transfer", "contention", "slower_peer", "drain")


def text(found: Run, what_if: WhatIf) -> str:
    """What people read."""
    row, waiting = (
        found.row,
        wait_cells(found.waits, found.timeline.schedule, found.measures.window.steps),
    )
    blocks = [
        f"{found.title}: {format_seconds(row.step_s)} a step",
        align(_summary(found)),
        "bubbles: why devices wait, of a step\n" + align(_bubbles(found)),
        "where the time goes (the critical path)\n" + align(_path(found)),
        *(
            ["contention: waiting behind messages of other ranks, of a step\n" + align(waiting)]
            if waiting
            else []
        ),
        "what would help\n" + align(_helping(found, what_if)),
    ]
    chosen = found.plan.words
    more = [f"... {len(chosen)} lines, all with --format json"] if len(chosen) > WORDS else []
    words = [*chosen[:WORDS], *more, f"model: {found.plan.model.source}"]
    blocks.insert(1, "\n".join(f"  {line}" for line in words))
    return "\n\n".join(blocks)


def _summary(found: Run) -> list[list[str]]:
    row = found.row
    talked = row.exposed_s + row.hidden_s
    lines = [
        ["  step", format_seconds(row.step_s), _spread(found)],
        [
            "  samples/s",
            rate(row.samples_per_s),
            f"{row.efficiency:.1%} of {row.ranks} times one worker alone",
        ],
        [
            "  computing",
            format_seconds(row.computing_s),
            f"{row.computing_s / (row.step_s or 1.0):.1%} of the step",
        ],
        *(
            [["  restarting", format_seconds(row.restarting_s), "of the mean step"]]
            if row.restarting_s
            else []
        ),
        [
            "  communicating",
            format_seconds(talked),
            f"{format_seconds(row.hidden_s)} hidden, {format_seconds(row.exposed_s)} exposed",
        ],
        ["  sent", format_bytes(row.volume_B, binary=False), "all ranks, a step"],
        ["  peak memory", memory_cell(row.peak_B), "the fullest rank"],
        [
            "  redundant",
            memory_cell(row.redundant_B),
            "the peak amount of duplicate data over all ranks",
        ],
    ]
    if len(found.measures.staleness):
        lines.append(["  staleness", f"{row.staleness:.2f}", _stale(found)])
    lines.append(["  verdict", "ok" if not found.wrong else f"FAIL: {found.wrong}", found.proof])
    return lines


def _spread(found: Run) -> str:
    steps = found.measures.steps
    if len(steps) < 2:
        return ""
    of = (
        ""
        if found.plan.updates is None
        else f" times {found.ranks} update{'' if found.ranks == 1 else 's'}"
    )
    return (
        f"mean of {len(steps)}{of}; {format_seconds(steps.min())} to {format_seconds(steps.max())}"
    )


def _stale(found: Run) -> str:
    staleness = found.measures.staleness
    low, middle, high = (int(np.quantile(staleness, q, method="nearest")) for q in (0.1, 0.5, 0.9))
    return f"updates, mean; 10% {low}, median {middle}, 90% {high}, most {staleness.max()}"


def _bubbles(found: Run) -> list[list[str]]:
    steps, total = found.measures.window.steps, found.measures.window.end or 1.0
    seconds = found.measures.bubbles.seconds
    worst = int(seconds.sum(axis=1).argmax())
    lines = [["", "mean", "", f"worst: rank {worst}", ""]]
    for cause, key in enumerate(CAUSES):
        mean, most = float(seconds[:, cause].mean()), float(seconds[worst, cause])
        lines.append(
            [
                f"  {key}",
                format_seconds(mean / steps),
                f"{mean / total:.1%}",
                format_seconds(most / steps),
                f"{most / total:.1%}",
            ]
        )
    mean, most = float(seconds.sum(axis=1).mean()), float(seconds[worst].sum())
    lines.append(
        [
            "  in all",
            format_seconds(mean / steps),
            f"{mean / total:.1%}",
            format_seconds(most / steps),
            f"{most / total:.1%}",
        ]
    )
    return lines


def _path(found: Run) -> list[list[str]]:
    total, steps = found.length or 1.0, found.measures.window.steps
    by_part = {
        part: seconds
        for part, seconds in parts(found.path).items()
        if seconds > 0 and part != "compute"
    }
    by_phase = {
        f"compute: {phase}": seconds for phase, seconds in found.by_phase().items() if seconds > 0
    }
    together = {**by_phase, **{part: by_part[part] for part in PARTS if part in by_part}}
    return [
        [f"  {name}", format_seconds(s / steps), f"{s / total:.1%}"] for name, s in together.items()
    ]


def _helping(found: Run, what_if: WhatIf) -> list[list[str]]:
    now = found.length / found.measures.window.steps
    lines = [["", "a step", "saves", "to first order"]]
    for name, (first_order, simulated) in what_if.items():
        saved = f"{1 - simulated / (now or 1.0):.1%}"
        lines.append([f"  {name}", format_seconds(simulated), saved, format_seconds(first_order)])
    return lines
