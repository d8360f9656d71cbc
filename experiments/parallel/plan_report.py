"""What a step of a plan takes: a row for tables and files, and a report as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.output import Record, align, counted
from experiments.parallel.plan_errors import error_cells, kind_of, mean_error, span_of
from experiments.parallel.plan_step import Training
from experiments.parallel.plan_text import Plan
from experiments.profiles.interval_levels import expected_cells
from experiments.text_lines import share_cells
from simulator.analysis.critical_path import trace_back
from simulator.parallel.passes import COMPUTE, HOST, STREAMS
from simulator.parallel.step import Step
from simulator.parallel.step_measures import StepMeasures
from simulator.steps.kinds import GATHER, KINDS, REDUCE
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


def row_of(training: Training, plan: Plan, step: Step, measures: StepMeasures) -> dict[str, Any]:
    """The columns of a step, without its memory. Seconds are means over the devices of the
    pipeline, samples are sequences, and rates are of all GPUs together."""
    seconds, gpus = measures.step, plan.degrees.ranks
    tokens_per_s, times = plan.sequences * training.seq / (seconds or 1.0), training.times
    error, measured = mean_error(kind_of(times, plan.zero, span_of(step.work.times.topology, gpus)))
    return {
        "model": training.name,
        "device": times.device,
        "plan": str(plan),
        "gpus": gpus,
        "batch": plan.sequences,
        "micro_batches": plan.micro_batches,
        "step_s": seconds,
        "samples_per_s": plan.sequences / (seconds or 1.0),
        "tokens_per_s": tokens_per_s,
        # Those of the model on each GPU: what is computed again does not count.
        "tflops": tokens_per_s * training.flops_per_token / gpus / 1e12,
        "mfu": training.mfu(tokens_per_s, gpus),
        "computing_s": float(measures.computing.mean()),
        "optimizer_s": float(measures.optimizer.mean()),
        "exposed_s": float(measures.exposed.sum(axis=1).mean()),
        "hidden_s": float(measures.hidden.sum(axis=1).mean()),
        "launching_s": float(measures.launching.mean()),
        "idle_s": float(measures.idle.mean()),
        "idle_between_s": float(measures.idle_between.mean()),
        "model_error": error,
        "measured": measured,
    }


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


def places_of(step: Step, measures: StepMeasures) -> list[dict[str, Any]]:
    """What each device of the pipeline does, a record each."""
    place = step.work.pipeline.place
    seconds = {
        "computing_s": measures.computing,
        "optimizer_s": measures.optimizer,
        "launching_s": measures.launching,
        **{
            f"{kind}_{name}_s": getattr(measures, kind)[:, stream]
            for stream, name in enumerate(STREAMS)
            if name in MEANINGS
            for kind in ("exposed", "hidden")
        },
        "idle_s": measures.idle,
        "idle_between_s": measures.idle_between,
    }
    return [
        {
            "device": device,
            "stages": " ".join(map(str, np.flatnonzero((place == device).any(axis=0)).tolist())),
            **{name: float(column[device]) for name, column in seconds.items()},
        }
        for device in range(len(measures.idle))
    ]


def report(row: Record, step: Step, measures: StepMeasures) -> dict[str, object]:
    """All figures, for JSON."""
    return {
        "summary": row,
        "critical_path_s": path_of(step),
        "devices": places_of(step, measures),
    }


def title(row: Mapping[str, Any]) -> str:
    """The first line of a report."""
    name = f"{row['model']} on {counted(row['gpus'], 'GPU')} ({row['device']}), {row['plan']}"
    ends = "does not fit in memory" if row["missing_bytes"] else format_seconds(row["step_s"])
    return f"{name}: {ends}"


def text(row: Mapping[str, Any], step: Step, measures: StepMeasures) -> str:
    """The report as text, without its title."""
    total = row["step_s"]
    tokens, peak = f"{row['tokens_per_s']:.0f} tokens/s", f"{row['mfu']:.1%} of its peak (MFU)"
    lines = [
        ["  step", format_seconds(total), f"{row['batch']} sequences, {tokens}"],
        ["  model FLOP/s", f"{row['tflops']:.1f} TFLOP/s", f"a GPU, {peak}"],
        ["  micro-batches", str(row["micro_batches"]), "of each pipeline"],
        ["  model's error", *error_cells(row["model_error"], row["measured"])],
    ]
    if row.get("level") is not None:
        lines.insert(1, expected_cells(row))
    if row.get("transfers_s") is not None:
        share = round(row["transfers_s"] / (total or 1.0) - 1, 4)
        # The step gives each collective and transfer the time of the last group of its kind.
        sooner = "as ranks go on before the last group ends"
        why = sooner if share < 0 else "with streams that share links"
        transfers = format_seconds(row["transfers_s"])
        lines.append(["  all transfers", transfers, f"{share:+z.2%} {why}"])
    path = [share_cells(name, seconds, total) for name, seconds in path_of(step).items()]
    blocks = [
        align(lines),
        "where a mean device spends the step\n" + align(_shares(row, measures)),
        "where the time goes (the critical path)\n" + align(path),
    ]
    if len(measures.idle) > 1:
        blocks.append("devices of the pipeline\n" + align(_devices(places_of(step, measures))))
    return "\n\n".join(blocks)


def _shares(row: Mapping[str, Any], measures: StepMeasures) -> list[list[str]]:
    total = row["step_s"]
    lines = [share_cells(name, row[f"{name}_s"], total, "") for name in ("computing", "optimizer")]
    exposed, hidden = (each.mean(axis=0).tolist() for each in (measures.exposed, measures.hidden))
    for stream, name in enumerate(STREAMS):
        if name in MEANINGS and exposed[stream] + hidden[stream] > 0:
            about = f"{MEANINGS[name]}; hidden {format_seconds(hidden[stream])}"
            lines.append(share_cells(f"exposed {name}", exposed[stream], total, about))
    if row["launching_s"] > 0:
        lines.append(share_cells("launching", row["launching_s"], total, "waiting for the CPU"))
    between = f"between its first and last action {format_seconds(row['idle_between_s'])}"
    return [*lines, share_cells("idle", row["idle_s"], total, f"the bubble; {between}")]


def _devices(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The first and the last devices, if there are many."""
    rows = [["  device", "stages", "computing", "exposed", "idle", "between"]]
    half = SHOWN // 2
    for record in records if len(records) <= SHOWN else [*records[:half], *records[-half:]]:
        exposed = sum(record[f"exposed_{name}_s"] for name in MEANINGS)
        seconds = record["computing_s"], exposed, record["idle_s"], record["idle_between_s"]
        rows.append([f"  {record['device']}", record["stages"], *map(format_seconds, seconds)])
    if len(records) > SHOWN:
        rows.append([f"  {len(records) - SHOWN} more in between", "", "", "", "", ""])
    return rows
