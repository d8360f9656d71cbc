"""Predictions of measured steps, with the times of a device that other rows tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

import numpy as np
import pandas as pd

from experiments.models.accelerators import accelerator
from experiments.models.device_times import DeviceTimes
from experiments.models.kernel_times.nccl_calls import laws
from experiments.models.model_catalogue import find_transformer
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.factor_fit import (
    STARTS,
    FactorFit,
    Factors,
    FitRow,
    PathSeconds,
    fit,
    spreads,
)
from experiments.parallel.measured_steps import (
    PlanKind,
    kind_of,
    plan_critical_path,
    sizes_of,
    span_of,
    step_spread,
    usual_sureness,
)
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.studies.measured_plans import MeasuredStep
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import StepMeasures, measure
from simulator.uncertainty.interval import LEVEL, quantile
from topologies.catalogue import find
from topologies.topology import Floats

Case = tuple[MeasuredStep, tuple[MeasuredStep, ...]]
"""A row to predict, and the rows that calibrate."""
FACTORS = 1 / 8, 8.0
"""Factors on the times of a device between which a search takes place."""


@lru_cache(maxsize=512)
def _times(machine: str, device: str, degrees: Degrees) -> GroupTimes:
    built = find(machine).for_training(degrees.ranks).build(degrees.ranks)
    return GroupTimes(built, degrees, laws=laws(device))


def simulate(row: MeasuredStep, times: DeviceTimes) -> StepMeasures:
    """The measures of a step."""
    entry, plan = find_transformer(row.model), parse_plan(row.plan, row.gpus)
    training = Training(entry.name, entry.shape, entry.size, times).under(plan)
    return measure(write(work_of(training, plan, _times(row.machine, row.device, plan.degrees))))


@cache
def critical_paths(times: DeviceTimes, machine: str, model: str, plan: str) -> Floats:
    """The critical paths of a step where the device and where launches bind, shape (2, 3): seconds
    of the device, of launches, and of all else. In between, the longest path is the step."""
    path = plan_critical_path(
        model, plan, times, lambda each: _times(machine, times.device, each.degrees)
    )
    points = [Factors(launch=start) for start in STARTS]
    return np.array([path(point) / np.array([*point, 1.0]) for point in points])


def usual_times(row: MeasuredStep) -> DeviceTimes:
    """The times of the device of a row before a calibration."""
    return DeviceTimes(row.device, row.dtype, level=row.level)


def path_of(row: MeasuredStep) -> PathSeconds:
    """The critical path of a row with factors, by :func:`critical_paths`."""
    paths = critical_paths(usual_times(row), row.machine, row.model, row.plan)

    def path(factors: Factors) -> Floats:
        scaled = paths * np.array([*factors, 1.0])
        return np.asarray(scaled[scaled.sum(axis=1).argmax()])

    return path


def factor_of(row: MeasuredStep) -> float:
    """The factor on the times of the device with which a step takes as long as measured; the
    smallest one of a search where all else takes longer."""
    path, low, high = path_of(row), *FACTORS
    for _ in range(40):
        middle = (low * high) ** 0.5
        above = path(Factors(middle)).sum() >= row.seconds
        low, high = (low, middle) if above else (middle, high)
    return high


def predict(cases: Iterable[Case]) -> pd.DataFrame:
    """The predictions of rows with the times that their calibrating rows tell.

    Columns: the `row`, the `times` of the device, the `seconds` of the simulated step, the `plain`
    ones of a constant efficiency and the bubble of the pipeline, both `error` and `plain_error` as
    shares of what is measured, the half width of the interval as a logarithm in `reach`, and
    whether the step is `inside`.
    """
    predicted = []
    for row, calibrating in cases:
        fitted = _fit(row.model, row.dtype, calibrating) if calibrating else None
        factors = fitted.factors if fitted else Factors()
        usual = usual_sureness(find_transformer(row.model).shape)
        path = path_of(row)(factors)
        efficiency = [each.seconds / plain(each) for each in calibrating] or [1.0]
        plainly = plain(row) * float(np.exp(np.log(efficiency).mean()))
        spread = step_spread(path, fitted.sureness if fitted else usual, links=spreads().links)
        error, reach = float(path.sum()) / row.seconds - 1, quantile(LEVEL) * spread
        predicted.append(
            {
                **{"row": row, "times": factors.of(usual_times(row))},
                **{"seconds": float(path.sum()), "plain": plainly},
                **{"error": error, "plain_error": plainly / row.seconds - 1},
                **{"reach": reach, "inside": abs(np.log1p(error)) <= reach},
            }
        )
    table = pd.DataFrame(predicted)
    return (
        table.assign(
            size=table["error"].abs(),
            plain_size=table["plain_error"].abs(),
            width=np.expm1(table["reach"]),
        )
        if predicted
        else table
    )


def plan_kind(row: MeasuredStep, times: DeviceTimes) -> PlanKind:
    """The kind of plan, as a report has it."""
    plan = parse_plan(row.plan)
    topology = _times(row.machine, row.device, plan.degrees).topology
    return kind_of(times, plan.zero, span_of(topology, plan.degrees.ranks))


@lru_cache(maxsize=4096)
def _fit(model: str, precision: str, calibrating: tuple[MeasuredStep, ...]) -> FactorFit:
    return fit(fit_rows(calibrating), _sizes(model), precision)


def fit_rows(rows: Sequence[MeasuredStep]) -> list[FitRow]:
    """Measured steps as a fit takes them."""
    return [FitRow(path_of(row), row.seconds, _sizes(row.model), row.dtype) for row in rows]


@cache
def _sizes(model: str) -> TransformerShape:
    return sizes_of(find_transformer(model).shape)


@cache
def plain(row: MeasuredStep) -> float:
    """Seconds at the peak of the device: FLOPs of the model, a third more if all is computed again,
    and the bubble (p - 1) / (v m) of a pipeline."""
    entry, plan = find_transformer(row.model), parse_plan(row.plan, row.gpus)
    training = Training(entry.name, entry.shape, entry.size, DeviceTimes(row.device, row.dtype))
    again = 4 / 3 if plan.recompute == "full" else 1.0
    flops = training.flops_per_token * entry.size * plan.sequences * again
    bubble = (plan.pp - 1) / (plan.v * plan.micro_batches)
    peak = accelerator(row.device).peak["bf16"]
    return flops / (peak * plan.degrees.ranks) * (1 + bubble)
