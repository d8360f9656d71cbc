"""What a step of a plan takes: a row for tables and files, and a report as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np

from experiments.output import Record, Value, align, counted
from experiments.parallel.plan_errors import error_cells, kind_of, mean_error, span_of
from experiments.parallel.plan_step import Training
from experiments.parallel.plan_text import Plan
from experiments.profiles.interval_levels import span
from simulator.analysis.critical_path import trace_back
from simulator.parallel.passes import COMPUTE, HOST, STREAMS
from simulator.parallel.step import Step
from simulator.parallel.step_measures import StepMeasures
from simulator.steps.step_graph import GATHER, KINDS, REDUCE
from simulator.uncertainty.interval import Interval
from topologies.units import format_seconds

SHOWN = 16
"""Devices of a pipeline that a report lists, at most."""
MEANINGS = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "ep": "experts' all-to-all",
    "data": "gradients and parameters",
    "experts": "gradients of experts",
    "send": "transfers between stages",
    "tied": "gradients that two devices share",
    "gather": "parameters of units",
    "reduce": "gradients of units",
    "replica": "gradients across replicas",
    "copy": "into the buffers of gathers",
}
"""What each stream carries."""
COPIED = {GATHER: "copy parameters", REDUCE: "copy gradients"}
"""What a device computes for collectives: copies out of their buffers and into them."""


@dataclass(frozen=True)
class PlanRow:
    """A step of a plan in a table. Seconds are means over the devices of the pipeline."""

    model: str
    device: str
    plan: str
    gpus: int
    batch: int
    """Sequences of a step."""
    micro_batches: int
    """Micro-batches of each pipeline."""
    step_s: float
    samples_per_s: float
    """Sequences per second of all GPUs together."""
    tokens_per_s: float
    tflops: float
    """TFLOP/s of the model on each GPU. What is computed again does not count."""
    mfu: float
    """`tflops` as a share of the peak."""
    computing_s: float
    optimizer_s: float
    exposed_s: float
    """Communication while the device does not compute."""
    hidden_s: float
    """Other communication."""
    launching_s: float
    """Waiting for the CPU."""
    idle_s: float
    """The bubble of the step."""
    idle_between_s: float
    """The bubble between the first and the last action of a device."""
    model_error: float | None = None
    """The mean error on measured steps of such plans; None if there is none."""
    measured: str = ""
    """What these steps are, in words."""
    memory_bytes: float | None = None
    """What a GPU of the fullest device holds at most."""
    missing_bytes: float | None = None
    """What the memory of the GPU lacks; 0 if the plan fits."""
    transfers_s: float | None = None
    """The step with every transfer of all ranks simulated; None without --detail transfers."""
    expected_s: float | None = None
    """The step with each call at its expected time; None if the profile has no intervals."""
    low_s: float | None = None
    """The step with each call at the lower end of its interval."""
    high_s: float | None = None
    """The step with each call at the upper end."""
    level: float | None = None
    """The share of runs that an interval holds."""


def row_of(training: Training, plan: Plan, step: Step, measures: StepMeasures) -> PlanRow:
    """The row of a step, without its memory."""
    seconds, gpus = measures.step, plan.degrees.ranks
    tokens_per_s, times = plan.sequences * training.seq / (seconds or 1.0), training.times
    error, measured = mean_error(kind_of(times, plan.zero, span_of(step.work.times.topology, gpus)))
    return PlanRow(
        training.name,
        times.device,
        str(plan),
        gpus,
        plan.sequences,
        plan.micro_batches,
        seconds,
        plan.sequences / (seconds or 1.0),
        tokens_per_s,
        tokens_per_s * training.flops_per_token / gpus / 1e12,
        training.mfu(tokens_per_s, gpus),
        computing_s=float(measures.computing.mean()),
        optimizer_s=float(measures.optimizer.mean()),
        exposed_s=float(measures.exposed.sum(axis=1).mean()),
        hidden_s=float(measures.hidden.sum(axis=1).mean()),
        launching_s=float(measures.launching.mean()),
        idle_s=float(measures.idle.mean()),
        idle_between_s=float(measures.idle_between.mean()),
        model_error=error,
        measured=measured,
    )


def with_interval(row: PlanRow, interval: Interval) -> PlanRow:
    """The row with the interval of the step."""
    expected, low, high, level, _ = interval
    return replace(row, expected_s=expected, low_s=low, high_s=high, level=level)


def path_of(step: Step) -> dict[str, float]:
    """Seconds of the critical path, by what runs there; the longest first."""
    path, graph, lane = trace_back(step.timeline), step.graph, step.schedule.lane
    seconds = np.zeros((len(STREAMS), len(KINDS)))
    np.add.at(seconds, (lane[path.operation], graph.kind[path.operation]), path.seconds)
    parts = {
        _named(stream, kind): float(seconds[stream, kind]) for stream, kind in np.argwhere(seconds)
    }
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def _named(stream: int, kind: int) -> str:
    if stream == COMPUTE:
        return COPIED.get(kind, KINDS[kind])
    if stream == HOST:
        return "launch"
    return f"{STREAMS[stream]}: {KINDS[kind]}"


def places_of(step: Step, measures: StepMeasures) -> list[Record]:
    """What each device of the pipeline does, a record each."""
    place = step.work.pipeline.place
    records: list[Record] = []
    for device in range(len(measures.idle)):
        stages = np.flatnonzero((place == device).any(axis=0)).tolist()
        columns: dict[str, Value] = {
            "device": device,
            "stages": " ".join(map(str, stages)),
            "computing_s": float(measures.computing[device]),
            "optimizer_s": float(measures.optimizer[device]),
            "launching_s": float(measures.launching[device]),
        }
        for stream, name in enumerate(STREAMS):
            if name in MEANINGS:
                columns[f"exposed_{name}_s"] = float(measures.exposed[device, stream])
                columns[f"hidden_{name}_s"] = float(measures.hidden[device, stream])
        columns["idle_s"] = float(measures.idle[device])
        columns["idle_between_s"] = float(measures.idle_between[device])
        records.append(columns)
    return records


def report(row: PlanRow, step: Step, measures: StepMeasures) -> dict[str, object]:
    """All figures, for JSON."""
    return {
        "summary": asdict(row),
        "critical_path_s": path_of(step),
        "devices": places_of(step, measures),
    }


def title(row: PlanRow) -> str:
    """The first line of a report."""
    name = f"{row.model} on {counted(row.gpus, 'GPU')} ({row.device}), {row.plan}"
    ends = "does not fit in memory" if row.missing_bytes else format_seconds(row.step_s)
    return f"{name}: {ends}"


def text(row: PlanRow, step: Step, measures: StepMeasures) -> str:
    """The report as text, without its title."""
    lines = [
        [
            "  step",
            format_seconds(row.step_s),
            f"{row.batch} sequences, {row.tokens_per_s:.0f} tokens/s",
        ],
        [
            "  model FLOP/s",
            f"{row.tflops:.1f} TFLOP/s",
            f"a GPU, {row.mfu:.1%} of its peak (MFU)",
        ],
        ["  micro-batches", str(row.micro_batches), "of each pipeline"],
        ["  model's error", *error_cells(row.model_error, row.measured)],
    ]
    if row.level is not None:
        ends = span(row.low_s, row.high_s)
        about = f"{row.level:.0%} of steps: {ends}, by the error of communication"
        lines.insert(1, ["  expected", format_seconds(row.expected_s or 0.0), about])
    if row.transfers_s is not None:
        share = round(row.transfers_s / (row.step_s or 1.0) - 1, 4)
        # The step gives each collective and transfer the time of the last group of its kind.
        sooner = "as ranks go on before the last group ends"
        why = sooner if share < 0 else "with streams that share links"
        lines.append(["  all transfers", format_seconds(row.transfers_s), f"{share:+z.2%} {why}"])
    blocks = [
        align(lines),
        "where a mean device spends the step\n" + align(_shares(row, measures)),
        "where the time goes (the critical path)\n" + align(_path(step, row.step_s)),
    ]
    if len(measures.idle) > 1:
        blocks.append("devices of the pipeline\n" + align(_devices(step, measures)))
    return "\n\n".join(blocks)


def _line(name: str, seconds: float, total: float, about: str = "") -> list[str]:
    return [f"  {name}", format_seconds(seconds), f"{seconds / (total or 1.0):.1%}", about]


def _shares(row: PlanRow, measures: StepMeasures) -> list[list[str]]:
    total = row.step_s
    lines = [
        _line("computing", row.computing_s, total),
        _line("optimizer", row.optimizer_s, total),
    ]
    exposed, hidden = measures.exposed.mean(axis=0), measures.hidden.mean(axis=0)
    for stream, name in enumerate(STREAMS):
        if name in MEANINGS and exposed[stream] + hidden[stream] > 0:
            about = f"{MEANINGS[name]}; hidden {format_seconds(float(hidden[stream]))}"
            lines.append(_line(f"exposed {name}", float(exposed[stream]), total, about))
    if row.launching_s > 0:
        lines.append(_line("launching", row.launching_s, total, "waiting for the CPU"))
    between = f"between its first and last action {format_seconds(row.idle_between_s)}"
    return [*lines, _line("idle", row.idle_s, total, f"the bubble; {between}")]


def _path(step: Step, total: float) -> list[list[str]]:
    return [_line(name, seconds, total) for name, seconds in path_of(step).items()]


def _devices(step: Step, measures: StepMeasures) -> list[list[str]]:
    records = places_of(step, measures)
    rows = [["  device", "stages", "computing", "exposed", "idle", "between"]]
    for record in _ends(records):
        exposed = sum(cast(float, record[f"exposed_{name}_s"]) for name in MEANINGS)
        seconds = [record["computing_s"], exposed, record["idle_s"], record["idle_between_s"]]
        cells = [format_seconds(float(cast(float, each))) for each in seconds]
        rows.append([f"  {record['device']}", str(record["stages"]), *cells])
    if len(records) > SHOWN:
        rows.append([f"  {len(records) - SHOWN} more in between", "", "", "", "", ""])
    return rows


def _ends(records: Sequence[Record]) -> list[Record]:
    """The first and the last records, if there are many."""
    if len(records) <= SHOWN:
        return list(records)
    return [*records[: SHOWN // 2], *records[-SHOWN // 2 :]]
