"""Predicted and measured steps of plans: `python -m experiments.benchmarks plans FOLDER`.

One row of each GPU and precision calibrates compute and does not count: that with the fewest GPUs,
then the least TP x PP, then the first in its file. Nothing else is fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.benchmarks import measured_plans
from experiments.benchmarks.measured_plans import Measured, Published
from experiments.benchmarks.table_rows import grouped
from experiments.models.accelerators import accelerator
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.compute_calibration import (
    CriticalPath,
    calibrate,
    critical_path,
)
from experiments.parallel.plan_errors import Kind, PlanError, kind_of, span_of
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import StepMeasures, measure
from topologies.catalogue import find

WORST = 10


class Predicted(NamedTuple):
    """A measured step and its predictions."""

    row: Measured
    measures: StepMeasures
    """The simulated step."""
    plain: float
    """Seconds of a constant efficiency and the bubble of the pipeline, without communication."""
    times: DeviceTimes
    """The times of the device."""
    calibrates: bool = False

    @property
    def kind(self) -> Kind:
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


def predict(rows: Sequence[Measured], *, by_model: bool = False) -> list[Predicted]:
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


def _path(row: Measured, times: DeviceTimes) -> CriticalPath:
    return critical_path(row.model, row.plan, times, lambda plan: _times(row.machine, plan.degrees))


def plain(row: Measured) -> float:
    """Seconds at the peak of the device: FLOPs of the model, a third more if all is computed again,
    and the bubble (p - 1) / (v m) of a pipeline."""
    entry, plan = find_transformer(row.model), parse_plan(row.plan)
    training = Training(entry.name, entry.shape, entry.size, DeviceTimes(row.device, row.dtype))
    again = 4 / 3 if plan.recompute == "full" else 1.0
    flops = training.flops_per_token * entry.size * plan.sequences * again
    bubble = (plan.pp - 1) / (plan.v * plan.micro_batches)
    peak = accelerator(row.device).peak["bf16"]
    return flops / (peak * plan.degrees.ranks) * (1 + bubble)


def table(folder: Path) -> str:
    """Tables of all files of a folder of measured training."""
    sections = []
    single = [*measured_plans.three_dimensional(folder / "a100_3d_single.csv")]
    several = [*measured_plans.three_dimensional(folder / "a100_3d_multi.csv")]
    sharded = [*measured_plans.sharded(folder / "fsdp_mpt.csv")]
    three = predict([*single, *several])
    every = predict(sharded)
    by_model = predict(sharded, by_model=True)
    parts = {
        "A100, three-dimensional plans, one node": [p for p in three if p.row in set(single)],
        "A100, three-dimensional plans, 64 and 256 GPUs": [
            p for p in three if p.row in set(several)
        ],
        "FSDP, one row a GPU and precision": every,
        "FSDP, one row a model, GPU and precision": by_model,
    }
    sections.append(_summary(parts))
    for name, predicted in parts.items():
        sections.append(f"{name}, by plan\n\n{_by_plan(predicted)}")
    for name, predicted in parts.items():
        sections.append(f"{name}, the ten worst\n\n{_worst(predicted)}")
    published = unfitted([*measured_plans.mlperf(folder / "mlperf_llama31_405b.csv")])
    sections.append(f"MLPerf Training 5.0, nothing fitted\n\n{_unfitted(published)}")
    for name, steps in (
        ("Narayanan et al. 2021, table 1, nothing fitted", measured_plans.narayanan()),
        ("Korthikanti et al. 2022, table 5, nothing fitted", measured_plans.korthikanti()),
    ):
        sections.append(f"{name}\n\n{_published(steps)}")
    specified = [*unfitted([*single, *several, *sharded]), *published]
    errors = errors_by_kind([*three, *every, *specified])
    sections.append(f"Errors by kind of plan, as reports name them\n\n{output.to_csv(errors)}")
    return "\n\n".join(sections)


def unfitted(rows: Sequence[Measured]) -> list[Predicted]:
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


def _summary(parts: Mapping[str, Sequence[Predicted]]) -> str:
    rows = [["file", "rows", "mean error", "of a plain model", "largest"]]
    for name, predicted in parts.items():
        counted = [each for each in predicted if not each.calibrates]
        errors = np.abs([each.error for each in counted])
        simple = np.abs([each.plain_error for each in counted])
        rows.append(
            [
                name,
                str(len(counted)),
                _percent(errors.mean()),
                _percent(simple.mean()),
                _percent(errors.max()),
            ]
        )
    return output.align(rows)


def _by_plan(predicted: Sequence[Predicted]) -> str:
    counted = [each for each in predicted if not each.calibrates]
    groups = grouped(counted, lambda each: each.row.group)
    rows = [["plan", "rows", "mean error", "bias"]]
    for name in sorted(groups):
        errors = np.array([each.error for each in groups[name]])
        mean, bias = _percent(np.abs(errors).mean()), _percent(errors.mean(), sign=True)
        rows.append([name, str(len(errors)), mean, bias])
    return output.align(rows)


def _worst(predicted: Sequence[Predicted]) -> str:
    """The ten worst rows: seconds, and those of each part of the prediction, the mean of all
    places."""
    counted = [each for each in predicted if not each.calibrates]
    worst = sorted(counted, key=lambda each: -abs(each.error))[:WORST]
    head = "model, plan", "measured", "predicted", "error", "device", "launches", "exposed", "idle"
    rows = [[*head, "optimizer"]]
    for each in worst:
        measures = each.measures
        parts = measures.computing, measures.launching, measures.exposed.sum(axis=1)
        means = [part.mean() for part in (*parts, measures.idle, measures.optimizer)]
        rows.append(
            [
                each.row.text,
                f"{each.row.seconds:.3f}",
                f"{each.seconds:.3f}",
                _percent(each.error, sign=True),
                *(f"{mean:.3f}" for mean in means),
            ]
        )
    return output.align(rows)


def _unfitted(predicted: Sequence[Predicted]) -> str:
    rows = [["machine", "measured s", "predicted s", "error"]]
    for each in predicted:
        error = _percent(each.error, sign=True)
        rows.append([each.row.group, f"{each.row.seconds:.2f}", f"{each.seconds:.2f}", error])
    return output.align(rows)


def _published(published: Iterable[Published]) -> str:
    rows = [["model", "published s", "predicted s", "error"]]
    for each in published:
        step = simulate(each.model, each.plan, each.machine, DeviceTimes("a100")).step
        error = _percent(step / each.seconds - 1, sign=True)
        rows.append([each.name, f"{each.seconds:.2f}", f"{step:.2f}", error])
    return output.align(rows)


def _percent(value: float, *, sign: bool = False) -> str:
    return f"{100 * value:+.1f}%" if sign else f"{100 * value:.1f}%"
