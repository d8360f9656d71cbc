"""A training run in full: as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from experiments.models.model_catalogue import MODELS
from experiments.models.model_shapes import Shape
from experiments.output import Value, align, counted
from experiments.profiles.interval_levels import expected_cells
from experiments.terms import footnote
from experiments.text_lines import share_cells
from experiments.training.changes import WhatIf
from experiments.training.job import CAUSE_KEYS, TrainingRun
from experiments.training.training_table import memory_cell, rate
from experiments.wait_records import wait_cells, wait_records
from simulator.analysis.bubbles import CAUSES
from simulator.analysis.critical_path import PARTS, parts
from simulator.analysis.memory import Memory
from topologies.topology import Ints
from topologies.units import format_bytes, format_seconds

POINTS = 1000
"""In JSON, the memory of a rank has about this many points at most."""
WORDS = 3
"""At most this many lines on choices for the machine are printed."""
REDUNDANT = "the peak amount of duplicate data over all ranks"


def report(run: TrainingRun, record: Mapping[str, Value], what_if: WhatIf) -> object:
    """The whole run as values for JSON."""
    measures, bubbles = run.measures, run.measures.bubbles.seconds.tolist()
    idle = {"input": run.input_s * measures.window.steps} if run.input_s else {}
    return {
        "summary": record,
        "steps_s": measures.steps.tolist(),
        **_attempts(run),
        "critical_path_s": parts(run.path),
        "critical_path_by_phase_s": run.by_phase(),
        "contention": wait_records(run.waits, run.timeline.schedule),
        "what_if_s": what_if,
        "ranks": [
            {
                "rank": rank,
                "computing_s": float(measures.computing[place]),
                "exposed_s": float(measures.exposed[place]),
                "hidden_s": float(measures.hidden[place]),
                "bubble_s": dict(zip(CAUSE_KEYS, bubbles[place], strict=True)) | idle,
            }
            for rank, place in enumerate(run.places)
        ],
        "memory": None
        if run.memory is None
        else _over_time(run.memory, run.timeline.schedule.ranks),
        "staleness": measures.staleness.tolist(),
        "simulated": run.simulated,
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


def text(run: TrainingRun, what_if: WhatIf) -> str:
    """The run as text for people."""
    row, bare = run.row, run.job.profile is None
    title = f"{run.title}: {format_seconds(row['step_s'])} a step"
    if row["fits"] is False:
        title = f"{run.title}: does not fit in memory\n{_unfit(run)}"
    words = [*run.plan.words[:WORDS]]
    if len(run.plan.words) > WORDS:
        words.append(f"... {len(run.plan.words)} lines, all with --format json")
    words.append(f"model: {run.plan.model.source}")
    if bare and not getattr(run.job.strategy, "launch", 0.0):
        words.append("launch of a collective: 0s; --library adds the launch of a library")
    waiting = wait_cells(run.waits, run.timeline.schedule, run.measures.window.steps)
    tables = {
        "bubbles: why devices wait, of a step": _bubbles(run),
        "where the time goes (the critical path)": _path(run),
        "contention: waiting behind messages of other ranks, of a step": waiting,
        "what would help": _helping(run, what_if),
    }
    blocks = [title, "\n".join(f"  {line}" for line in words), align(_summary(run))]
    blocks += [f"{name}\n{align(lines)}" for name, lines in tables.items() if lines]
    return "\n\n".join([*blocks, footnote(["not included"])] if bare else blocks)


def _unfit(run: TrainingRun) -> str:
    """By how much a run does not fit into the memory of a device, and what of it is unsure."""
    capacity, model = run.capacity or 0.0, run.plan.model
    entry = MODELS.get(model.name)
    divide = entry and isinstance(entry.model, Shape)
    return (
        f"  the fullest worker holds {_gb(run.held)}, {_gb(run.held - capacity)} more than the "
        f"{_gb(capacity)} of {model.device}\n"
        f"  least sure: {_gb(model.activations)} of activations; CUDA and libraries are not counted"
        + "\n  to make it fit: --plan auto divides the model among GPUs"
        * bool(divide)
    )


def _gb(nbytes: float) -> str:
    return format_bytes(nbytes, binary=False)


def _summary(run: TrainingRun) -> list[list[str]]:
    row = run.row
    step, hidden, exposed = row["step_s"], row["hidden_s"], row["exposed_s"]
    limit = f"of {_gb(run.capacity)}, " if run.capacity else ""
    traced = "" if run.memory else ", without messages on their way"
    alone = f"{row['efficiency']:.1%} of {row['ranks']} times one worker alone"
    computing = share_cells("computing", row["computing_s"], step)
    overlap = f"{format_seconds(hidden)} hidden, {format_seconds(exposed)} exposed"
    lines = [
        ["  peak memory", memory_cell(row["peak_B"]), f"{limit}the fullest rank{traced}"],
        ["  step", format_seconds(step), _spread(run)],
        *_expected(run),
        *_epochs(run),
        ["  samples/s", rate(row["samples_per_s"]), alone],
        [*computing[:2], f"{computing[2]} of the step"],
        ["  restarting", format_seconds(row["restarting_s"]), "of the mean step"],
        ["  communicating", format_seconds(exposed + hidden), overlap],
        ["  sent", _gb(row["volume_B"]), "all ranks, a step"],
        ["  redundant", memory_cell(row["redundant_B"]), REDUNDANT],
        ["  staleness", f"{row['staleness']:.2f}", _stale(run.measures.staleness)],
        ["  simulated", *_simulated(run)],
        ["  verdict", "ok" if not run.wrong else f"FAIL: {run.wrong}", run.proof],
    ]
    missing = {"  restarting": not row["restarting_s"], "  staleness": not lines[-3][2]}
    return [line for line in lines if not missing.get(line[0])]


def _simulated(run: TrainingRun) -> tuple[str, str]:
    """What of a run has been simulated."""
    ranks, collectives, replayed, rounds = run.simulated.values()
    who = "all ranks" if run.ranks == ranks else f"{ranks} of {run.ranks} ranks"
    if not collectives:
        return who, "all transfers"
    again = f", {rounds} rounds" if rounds else ""
    parts = f"{collectives - replayed} simulated, {replayed} replayed{again}"
    return who, f"{collectives} collectives: {parts}"


def _expected(run: TrainingRun) -> list[list[str]]:
    """The interval of a step and why it is wide, if the library says how sure it is."""
    if run.interval is None:
        return []
    unsure = [["", "", f"unsure: {reason}"] for reason in run.interval.unsure]
    return [expected_cells(run.row), *unsure]


def _epochs(run: TrainingRun) -> list[list[str]]:
    """The wait for input and the time of epochs, as far as the job asks for them."""
    epochs, step, lines = run.job.epochs, run.step, list[list[str]]()
    if epochs.input_rate < inf:
        name, seconds, share = share_cells("waiting for input", run.input_s, step)
        reads = f"the pipeline reads {rate(epochs.input_rate)} samples/s"
        lines.append([name, seconds, f"{share} of the step: {reads}"])
    if epochs.dataset is not None:
        training = epochs.training(run.samples, step)
        words = f"{training.steps} steps, and {format_seconds(epochs.pause)} beside them"
        lines.append(["  epoch", format_seconds(training.epoch), words])
        number = counted(epochs.number, "epoch")
        lines.append(["  training", format_seconds(training.seconds), number])
    return lines


def _spread(run: TrainingRun) -> str:
    steps = np.maximum(run.measures.steps, run.least)
    if len(steps) < 2:
        return ""
    updates = "" if run.plan.updates is None else f" times {counted(run.ranks, 'update')}"
    ends = f"{format_seconds(steps.min())} to {format_seconds(steps.max())}"
    return f"mean of {len(steps)}{updates}; {ends}"


def _stale(staleness: Ints) -> str:
    if not len(staleness):
        return ""
    low, middle, high = (int(np.quantile(staleness, q, method="nearest")) for q in (0.1, 0.5, 0.9))
    return f"updates, mean; 10% {low}, median {middle}, 90% {high}, most {staleness.max()}"


def _bubbles(run: TrainingRun) -> list[list[str]]:
    """Mean and worst idle time by cause, for a step, with their shares of the run."""
    steps, total = run.measures.window.steps, run.measures.window.end or 1.0
    seconds = run.measures.bubbles.seconds / steps
    worst = int(seconds.sum(axis=1).argmax())
    rows = {
        cause: (mean, most)
        for cause, mean, most in zip(
            CAUSES, seconds.mean(axis=0).tolist(), seconds[worst].tolist(), strict=True
        )
    }
    if run.input_s:
        rows["input"] = run.input_s, run.input_s
    rows["in all"] = sum(mean for mean, _ in rows.values()), sum(most for _, most in rows.values())
    whole = total / steps + run.input_s
    return [
        ["", "mean", "", f"worst: rank {run.plan.standing[worst]}", ""],
        *(
            [*share_cells(name, mean, whole), *share_cells("", most, whole)[1:]]
            for name, (mean, most) in rows.items()
        ),
    ]


def _path(run: TrainingRun) -> list[list[str]]:
    steps = run.measures.window.steps
    length = run.length / steps + run.input_s or 1.0
    links = {part: seconds for part, seconds in parts(run.path).items() if part != "compute"}
    together = {f"compute: {phase}": seconds for phase, seconds in run.by_phase().items()}
    together |= {part: links[part] for part in PARTS if part in links}
    together["waiting for input"] = run.input_s * steps
    return [
        share_cells(name, seconds / steps, length)
        for name, seconds in together.items()
        if seconds > 0
    ]


def _helping(run: TrainingRun, what_if: WhatIf) -> list[list[str]]:
    now = run.length / run.measures.window.steps + run.input_s
    changes = {name: (each["first_order"], each["simulated"]) for name, each in what_if.items()}
    if run.input_s:
        changes["twice the input rate"] = (max(run.measures.step, run.least / 2),) * 2
    lines = [["", "a step", "saves", "to first order"]]
    for name, (first_order, simulated) in changes.items():
        again = ["-", "-"]
        if simulated is not None:
            again = [format_seconds(simulated), f"{1 - simulated / (now or 1.0):.1%}"]
        lines.append([f"  {name}", *again, format_seconds(first_order or 0.0)])
    return lines
