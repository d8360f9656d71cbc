"""A training run in full: as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from experiments.models.model_catalogue import MODELS
from experiments.models.model_shapes import Shape
from experiments.output import Value, align
from experiments.profiles.interval_levels import span
from experiments.terms import footnote
from experiments.training.job import TrainingRun, WhatIf
from experiments.training.training_table import memory_cell, rate
from experiments.wait_records import wait_cells, wait_records
from simulator.analysis.bubbles import CAUSES
from simulator.analysis.critical_path import PARTS, parts
from simulator.analysis.memory import Memory
from topologies.units import format_bytes, format_seconds

POINTS = 1000
"""In JSON, the memory of a rank has about this many points at most."""
WORDS = 3
"""At most this many lines on choices for the machine are printed."""


def report(run: TrainingRun, record: Mapping[str, Value], what_if: WhatIf) -> object:
    """The whole run as values for JSON."""
    measures = run.measures
    idle = {"input": run.input_s * measures.window.steps} if run.input_s else {}
    return {
        "summary": record,
        "steps_s": measures.steps.tolist(),
        **_attempts(run),
        "critical_path_s": parts(run.path),
        "critical_path_by_phase_s": run.by_phase(),
        "contention": wait_records(run.waits, run.timeline.schedule),
        "what_if_s": {name: {"first_order": a, "simulated": b} for name, (a, b) in what_if.items()},
        "ranks": [
            {
                "rank": rank,
                "computing_s": float(measures.computing[place]),
                "exposed_s": float(measures.exposed[place]),
                "hidden_s": float(measures.hidden[place]),
                "bubble_s": dict(
                    zip(CAUSE_KEYS, measures.bubbles.seconds[place].tolist(), strict=True)
                )
                | idle,
            }
            for rank, place in enumerate(run.places)
        ],
        "memory": None
        if run.memory is None
        else _over_time(run.memory, run.timeline.schedule.ranks),
        "staleness": measures.staleness.tolist(),
        "simulated": run.simulated._asdict(),
        "chosen": list(run.plan.words),
        "model_source": run.plan.model.source,
    }


def _attempts(run: TrainingRun) -> Mapping[str, object]:
    """The number of each step and whether it is lost. Without a fixed order of updates, none is."""
    if run.plan.updates is None:
        return {
            "step_numbers": run.plan.numbers.tolist(),
            "steps_lost": (run.plan.useful == 0).tolist(),
        }
    steps = len(run.measures.steps)
    return {"step_numbers": list(range(steps)), "steps_lost": [False] * steps}


def _over_time(memory: Memory, ranks: int) -> object:
    """The memory of all ranks together and of each, at about a thousand points at most."""
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


def text(run: TrainingRun, what_if: WhatIf) -> str:
    """The run as text for people."""
    row = run.row
    waiting = wait_cells(run.waits, run.timeline.schedule, run.measures.window.steps)
    blocks = [
        f"{run.title}: {format_seconds(row.step_s)} a step",
        align(_summary(run)),
        "bubbles: why devices wait, of a step\n" + align(_bubbles(run)),
        "where the time goes (the critical path)\n" + align(_path(run)),
        *(
            ["contention: waiting behind messages of other ranks, of a step\n" + align(waiting)]
            if waiting
            else []
        ),
        "what would help\n" + align(_helping(run, what_if)),
    ]
    if run.job.profile is None:
        blocks.append(footnote(["not included"]))
    chosen = run.plan.words
    more = [f"... {len(chosen)} lines, all with --format json"] if len(chosen) > WORDS else []
    words = [*chosen[:WORDS], *more, f"model: {run.plan.model.source}"]
    if run.job.profile is None and not getattr(run.job.strategy, "launch", 0.0):
        words.append("launch of a collective: 0s; --library adds the launch of a library")
    blocks.insert(1, "\n".join(f"  {line}" for line in words))
    if row.fits is False:
        blocks[0] = f"{run.title}: does not fit in memory\n{_unfit(run)}"
    return "\n\n".join(blocks)


def _unfit(run: TrainingRun) -> str:
    """By how much a run does not fit into the memory of a device, and what of it is unsure."""
    held, capacity, activations = (
        format_bytes(nbytes, binary=False)
        for nbytes in (run.held, run.capacity or 0.0, run.plan.model.activations)
    )
    missing = format_bytes(run.held - (run.capacity or 0.0), binary=False)
    entry = MODELS.get(run.plan.model.name)
    divide = (
        "\n  to make it fit: --plan auto divides the model among GPUs"
        if entry and isinstance(entry.model, Shape)
        else ""
    )
    return (
        f"  the fullest worker holds {held}, {missing} more than the {capacity} of "
        f"{run.plan.model.device}\n"
        f"  least sure: {activations} of activations; CUDA and libraries are not counted{divide}"
    )


def _summary(run: TrainingRun) -> list[list[str]]:
    row = run.row
    communicating = row.exposed_s + row.hidden_s
    limit = f"of {format_bytes(run.capacity, binary=False)}, " if run.capacity else ""
    traced = "" if run.memory else ", without messages on their way"
    lines = [
        ["  peak memory", memory_cell(row.peak_B), f"{limit}the fullest rank{traced}"],
        ["  step", format_seconds(row.step_s), _spread(run)],
        *_expected(run),
        *_epochs(run),
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
            format_seconds(communicating),
            f"{format_seconds(row.hidden_s)} hidden, {format_seconds(row.exposed_s)} exposed",
        ],
        ["  sent", format_bytes(row.volume_B, binary=False), "all ranks, a step"],
        [
            "  redundant",
            memory_cell(row.redundant_B),
            "the peak amount of duplicate data over all ranks",
        ],
    ]
    if len(run.measures.staleness):
        lines.append(["  staleness", f"{row.staleness:.2f}", _stale(run)])
    lines.append(["  simulated", *run.simulated.words(run.ranks)])
    lines.append(["  verdict", "ok" if not run.wrong else f"FAIL: {run.wrong}", run.proof])
    return lines


def _expected(run: TrainingRun) -> list[list[str]]:
    """The interval of a step and why it is wide, if the library says how sure it is."""
    row = run.row
    if row.expected_s is None:
        return []
    expected, ends = format_seconds(row.expected_s), span(row.low_s, row.high_s)
    about = f"{row.level:.0%} of steps: {ends}, by the error of communication"
    sure = run.costs and run.costs.interval
    reasons = [["", "", f"unsure: {reason}"] for reason in (sure.unsure if sure else ())]
    return [["  expected", expected, about], *reasons]


def _epochs(run: TrainingRun) -> list[list[str]]:
    """The wait for input and the time of epochs, as far as the job asks for them."""
    epochs, row, lines = run.job.epochs, run.row, list[list[str]]()
    if epochs.input_rate < inf:
        share = f"{run.input_s / (row.step_s or 1.0):.1%} of the step"
        words = f"{share}: the pipeline reads {rate(epochs.input_rate)} samples/s"
        lines.append(["  waiting for input", format_seconds(run.input_s), words])
    if epochs.dataset is not None:
        training = epochs.training(run.samples, row.step_s)
        words = f"{training.steps} steps, and {format_seconds(epochs.pause)} beside them"
        lines.append(["  epoch", format_seconds(training.epoch), words])
        number = f"{epochs.number} epoch{'' if epochs.number == 1 else 's'}"
        lines.append(["  training", format_seconds(training.seconds), number])
    return lines


def _spread(run: TrainingRun) -> str:
    steps = np.maximum(run.measures.steps, run.least)
    if len(steps) < 2:
        return ""
    of = (
        ""
        if run.plan.updates is None
        else f" times {run.ranks} update{'' if run.ranks == 1 else 's'}"
    )
    return (
        f"mean of {len(steps)}{of}; {format_seconds(steps.min())} to {format_seconds(steps.max())}"
    )


def _stale(run: TrainingRun) -> str:
    staleness = run.measures.staleness
    low, middle, high = (int(np.quantile(staleness, q, method="nearest")) for q in (0.1, 0.5, 0.9))
    return f"updates, mean; 10% {low}, median {middle}, 90% {high}, most {staleness.max()}"


def _bubbles(run: TrainingRun) -> list[list[str]]:
    """Mean and worst idle time by cause, for a step, with their shares of the run."""
    steps, total = run.measures.window.steps, run.measures.window.end or 1.0
    seconds = run.measures.bubbles.seconds
    worst = int(seconds.sum(axis=1).argmax())
    mean, idle = seconds.mean(axis=0), run.input_s * steps
    total += idle

    def line(name: str, mean: float, most: float) -> list[str]:
        cells = [[format_seconds(s / steps), f"{s / total:.1%}"] for s in (mean, most)]
        return [f"  {name}", *cells[0], *cells[1]]

    rows = zip(CAUSES, mean.tolist(), seconds[worst].tolist(), strict=True)
    return [
        ["", "mean", "", f"worst: rank {run.plan.standing[worst]}", ""],
        *(line(*row) for row in rows),
        *([line("input", idle, idle)] if idle else []),
        line("in all", float(mean.sum()) + idle, float(seconds[worst].sum()) + idle),
    ]


def _path(run: TrainingRun) -> list[list[str]]:
    steps = run.measures.window.steps
    idle = run.input_s * steps
    total = run.length + idle or 1.0
    by_part = {
        part: seconds
        for part, seconds in parts(run.path).items()
        if seconds > 0 and part != "compute"
    }
    by_phase = {
        f"compute: {phase}": seconds for phase, seconds in run.by_phase().items() if seconds > 0
    }
    waiting = {"waiting for input": idle} if idle else {}
    links = {part: by_part[part] for part in PARTS if part in by_part}
    together = {**by_phase, **links, **waiting}
    return [
        [f"  {name}", format_seconds(s / steps), f"{s / total:.1%}"] for name, s in together.items()
    ]


def _helping(run: TrainingRun, what_if: WhatIf) -> list[list[str]]:
    now = run.length / run.measures.window.steps + run.input_s
    lines = [["", "a step", "saves", "to first order"]]
    for name, (first_order, simulated) in what_if.items():
        again = ["-", "-"]
        if simulated is not None:
            again = [format_seconds(simulated), f"{1 - simulated / (now or 1.0):.1%}"]
        lines.append([f"  {name}", *again, format_seconds(first_order)])
    if run.input_s:
        faster = max(run.measures.step, run.least / 2)
        cells = [format_seconds(faster), f"{1 - faster / now:.1%}", format_seconds(faster)]
        lines.append(["  twice the input rate", *cells])
    return lines
