"""The measured run that is nearest to a plan: its step is shown beside the prediction.

`measured_runs.csv` has published steps with their whole plans, the median of alike ones, as
:func:`experiments.studies.measured_plans.whole_plans` reads them, with their source.
"""

from __future__ import annotations

from math import inf, log2
from pathlib import Path

from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import Training
from experiments.parallel.plan_text import Plan, parse_plan
from experiments.shipped_tables import rows_of
from topologies.units import format_seconds

DEGREES = "tp", "pp", "cp", "ep", "micro"
FAR = 3.0
"""How many doublings of GPUs, degrees, sequence and batch of a GPU, together, a run may be away."""


def nearest_run(training: Training, plan: Plan) -> str:
    """The nearest run of the same model, device and precision, in words; empty if none is near.
    Among equally near ones the first of the file counts."""
    device, dtype = training.times.device, training.times.dtype
    nearest, least = "", inf
    for row in rows_of(Path(__file__).with_name("measured_runs.csv")):
        name, _, _ = row["model"].partition(":")
        if (name, row["device"], row["precision"]) != (training.name, device, dtype):
            continue
        entry, run = find_transformer(row["model"]), parse_plan(row["plan"])
        kinds = [(each.zero == 3, each.lora, each.recompute) for each in (run, plan)]
        if entry.shape != training.shape or kinds[0] != kinds[1]:
            continue
        away = abs(log2(entry.size / training.seq)) + _doublings(run, plan)
        if away <= FAR and away < least:
            least, seconds = away, format_seconds(float(row["seconds"]))
            nearest = f"{seconds} on {run.degrees.ranks} GPUs, {run} ({row['source']})"
    return nearest


def _doublings(run: Plan, plan: Plan) -> float:
    """How many doublings two plans are apart."""
    ranks = [each.degrees.ranks for each in (run, plan)]
    batch = run.sequences / ranks[0] * ranks[1] / plan.sequences
    degrees = sum(abs(log2(getattr(run, key) / getattr(plan, key))) for key in DEGREES)
    return abs(log2(ranks[0] / ranks[1])) + abs(log2(batch)) + degrees
