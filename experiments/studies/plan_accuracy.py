"""Predicted steps of plans of parallel training beside measured and published ones.

One row of each GPU and precision calibrates compute and does not count: that with the fewest GPUs,
then the least TP x PP, then the first in its file. Nothing else is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.models.accelerators import accelerator
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.compute_calibration import (
    PathSeconds,
    calibrate,
    plan_critical_path,
)
from experiments.parallel.plan_errors import PlanError, PlanKind, kind_of, span_of
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.studies import measured_plans
from experiments.studies.measured_plans import MeasuredStep
from experiments.studies.measured_rows import aligned, grouped
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import StepMeasures, measure
from topologies.catalogue import find


class Predicted(NamedTuple):
    """A measured step and its predictions."""

    row: MeasuredStep
    measures: StepMeasures
    """The simulated step."""
    plain: float
    """Seconds of a constant efficiency and the bubble of the pipeline, without communication."""
    times: DeviceTimes
    """The times of the device."""
    calibrates: bool = False

    @property
    def kind(self) -> PlanKind:
        """The kind of plan, as a report has it."""
        plan = parse_plan(self.row.plan)
        topology = _times(self.row.machine, plan.degrees).topology
        return kind_of(self.times, plan.zero, span_of(topology, plan.degrees.ranks))

    @property
    def seconds(self) -> float:
        """Seconds of the simulated step."""
        return self.measures.step

    @property
    def error(self) -> float:
        """Of the predicted seconds, as a share of the measured ones."""
        return self.seconds / self.row.seconds - 1

    @property
    def plain_error(self) -> float:
        """Of the plain prediction."""
        return self.plain / self.row.seconds - 1


@lru_cache(maxsize=512)
def _times(machine: str, degrees: Degrees) -> GroupTimes:
    return GroupTimes(find(machine).build(degrees.ranks), degrees)


def simulate(model: str, plan: str, machine: str, times: DeviceTimes) -> StepMeasures:
    """The measures of a step."""
    entry, parsed = find_transformer(model), parse_plan(plan)
    training = Training(entry.name, entry.shape, entry.size, times)
    return measure(write(work_of(training, parsed, _times(machine, parsed.degrees))))


def predict(rows: Sequence[MeasuredStep], *, by_model: bool = False) -> list[Predicted]:
    """The predictions of rows, a GPU and precision after the other. One row of each calibrates it;
    with `by_model` one row of each of its models does."""
    predicted = []
    for alike in grouped(rows, lambda row: row.kind).values():
        models = grouped(alike, lambda row: row.group if by_model else "").values()
        firsts = [min(model, key=lambda row: row.order) for model in models]
        usual = DeviceTimes(alike[0].device, alike[0].dtype)
        paths = [_path(first, usual) for first in firsts]
        times = calibrate(paths, [first.seconds for first in firsts]).of(usual)
        for model, first in zip(models, firsts, strict=True):
            predicted += [
                Predicted(
                    row,
                    simulate(row.model, row.plan, row.machine, times),
                    plain(row) * first.seconds / plain(first),
                    times,
                    row is first,
                )
                for row in model
            ]
    return predicted


def _path(row: MeasuredStep, times: DeviceTimes) -> PathSeconds:
    return plan_critical_path(
        row.model, row.plan, times, lambda plan: _times(row.machine, plan.degrees)
    )


def plain(row: MeasuredStep) -> float:
    """Seconds at the peak of the device: FLOPs of the model, a third more if all is computed again,
    and the bubble (p - 1) / (v m) of a pipeline."""
    entry, plan = find_transformer(row.model), parse_plan(row.plan)
    training = Training(entry.name, entry.shape, entry.size, DeviceTimes(row.device, row.dtype))
    again = 4 / 3 if plan.recompute == "full" else 1.0
    flops = training.flops_per_token * entry.size * plan.sequences * again
    bubble = (plan.pp - 1) / (plan.v * plan.micro_batches)
    peak = accelerator(row.device).peak["bf16"]
    return flops / (peak * plan.degrees.ranks) * (1 + bubble)


def main(folder: Path) -> str:
    """Tables of all files of a folder of measured training."""
    single = [*measured_plans.three_dimensional(folder / "a100_3d_single.csv")]
    several = [*measured_plans.three_dimensional(folder / "a100_3d_multi.csv")]
    sharded = [*measured_plans.sharded(folder / "fsdp_mpt.csv")]
    three = predict([*single, *several])
    every = predict(sharded)
    parts = {
        "A100, three-dimensional plans, one node": [p for p in three if p.row in set(single)],
        "A100, three-dimensional plans, 64 and 256 GPUs": [
            p for p in three if p.row in set(several)
        ],
        "FSDP, one row a GPU and precision": every,
        "FSDP, one row a model, GPU and precision": predict(sharded, by_model=True),
    }
    counted = {name: [p for p in part if not p.calibrates] for name, part in parts.items()}
    plain = {name: np.abs([each.plain_error for each in part]) for name, part in counted.items()}
    sections = {
        "": _errors(counted)
        | {"of a plain model": [f"{each.mean():.1%}" for each in plain.values()]}
    }
    for name, part in counted.items():
        by_plan = grouped(part, lambda each: each.row.group)
        sections[f"{name}, by plan"] = _errors(dict(sorted(by_plan.items())))
        worst = sorted(part, key=lambda each: -abs(each.error))[:10]
        sections[f"{name}, the ten worst"] = _steps(worst) | _parts_of_steps(worst)
    published = unfitted([*measured_plans.mlperf(folder / "mlperf_llama31_405b.csv")])
    machines = {"machine": [each.row.group for each in published]}
    sections["MLPerf Training 5.0, nothing fitted"] = machines | _steps(published)
    for paper, steps in (
        ("Narayanan et al. 2021, table 1", measured_plans.narayanan()),
        ("Korthikanti et al. 2022, table 5", measured_plans.korthikanti()),
    ):
        sections[f"{paper}, nothing fitted"] = _steps(unfitted([*steps]))
    kinds = errors_by_kind([*three, *every, *unfitted([*single, *several, *sharded]), *published])
    sections["Errors by kind of plan, as reports name them"] = {
        name: [str(row[name]) for row in kinds] for name in kinds[0]
    }
    tables = [f"{name}\n\n{aligned(columns)}".strip() for name, columns in sections.items()]
    return "\n\n".join(tables)


def unfitted(rows: Sequence[MeasuredStep]) -> list[Predicted]:
    """The predictions of rows with the times of the specification."""
    predicted = []
    for row in rows:
        times = DeviceTimes(row.device, row.dtype)
        step = simulate(row.model, row.plan, row.machine, times)
        predicted.append(Predicted(row, step, plain(row), times))
    return predicted


def errors_by_kind(predicted: Sequence[Predicted]) -> list[output.Record]:
    """The errors of each kind of plan that a report tells apart: rows of its file."""
    counted = [each for each in predicted if not each.calibrates]
    rows: list[output.Record] = []
    for kind, alike in grouped(counted, lambda each: each.kind).items():
        errors = np.array([each.error for each in alike])
        figures = np.abs(errors).mean(), errors.mean(), np.quantile(np.abs(errors), 0.9)
        error = PlanError(len(errors), *(round(float(figure), 3) for figure in figures))
        rows.append(kind._asdict() | error._asdict())
    return rows


Columns = dict[str, list[str]]


def _errors(parts: Mapping[str, Sequence[Predicted]]) -> Columns:
    errors = [np.array([each.error for each in part]) for part in parts.values()]
    return {
        "rows of": [*parts],
        "number": [str(len(part)) for part in errors],
        "mean error": [f"{np.abs(part).mean():.1%}" for part in errors],
        "bias": [f"{part.mean():+.1%}" for part in errors],
        "largest": [f"{np.abs(part).max():.1%}" for part in errors],
    }


def _steps(predicted: Sequence[Predicted]) -> Columns:
    return {
        "step": [each.row.text for each in predicted],
        "measured s": [f"{each.row.seconds:.3f}" for each in predicted],
        "predicted s": [f"{each.seconds:.3f}" for each in predicted],
        "error": [f"{each.error:+.1%}" for each in predicted],
    }


def _parts_of_steps(predicted: Sequence[Predicted]) -> Columns:
    measures = [each.measures for each in predicted]
    seconds = {
        "device": [each.computing for each in measures],
        "launches": [each.launching for each in measures],
        "exposed": [each.exposed.sum(axis=1) for each in measures],
        "idle": [each.idle for each in measures],
        "optimizer": [each.optimizer for each in measures],
    }
    return {name: [f"{part.mean():.3f}" for part in parts] for name, parts in seconds.items()}
