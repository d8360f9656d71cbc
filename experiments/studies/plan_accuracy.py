"""Predicted steps of plans of parallel training beside measured and published ones.

Each protocol says which rows calibrate the times of the device for a row. These rows are never the
row itself. Nothing else is fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from experiments import output
from experiments.models.accelerators import accelerator
from experiments.models.device_times import DeviceTimes
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
from experiments.parallel.plan_step import Sureness, Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.parallel.step_calibration import (
    FULL,
    PlanError,
    PlanKind,
    kind_of,
    memory_share,
    plan_critical_path,
    sizes_of,
    span_of,
)
from experiments.parallel.step_interval import step_spread
from experiments.studies.measured_plans import (
    MeasuredStep,
    mlperf,
    published,
    sharded,
    three_dimensional,
    whole_plans,
)
from experiments.studies.measured_rows import aligned, grouped
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import StepMeasures, measure
from simulator.uncertainty.interval import LEVEL, quantile
from topologies.catalogue import find
from topologies.errors import InputError
from topologies.topology import Floats

Case = tuple[MeasuredStep, tuple[MeasuredStep, ...]]
"""A row to predict, and the rows that calibrate."""
Rows = Sequence[MeasuredStep]


def one_row(rows: Rows, *, by_model: bool = False) -> Iterator[Case]:
    """One row of each GPU and precision calibrates: that with the fewest GPUs, then the least
    TP x PP, then the first in its file. With `by_model` one row of each model does, too."""
    for alike in grouped(rows, lambda row: row.kind).values():
        models = grouped(alike, lambda row: row.model_name if by_model else "").values()
        firsts = tuple(min(model, key=lambda row: row.order) for model in models)
        yield from ((row, firsts) for row in alike if row not in firsts)


def new_plan(rows: Rows) -> Iterator[Case]:
    """All rows of the same GPU and precision calibrate, but those with the same plan of the same
    model."""
    for alike in grouped(rows, lambda row: row.kind).values():
        for row in alike:
            others = tuple(each for each in alike if each.text != row.text)
            if others:
                yield row, others


def larger_scale(rows: Rows) -> Iterator[Case]:
    """The row with the fewest GPUs of the same model, GPU and precision calibrates."""
    for alike in grouped(rows, lambda row: (row.kind, row.model_name)).values():
        first = min(alike, key=lambda row: row.order)
        yield from ((row, (first,)) for row in alike if row.gpus > first.gpus)


def later_release(rows: Rows) -> Iterator[Case]:
    """The same plan under the releases of software before calibrates."""
    for alike in grouped(rows, lambda row: (row.kind, row.text)).values():
        for row in alike:
            before = tuple(each for each in alike if each.version < row.version)
            if before:
                yield row, before


FACTORS = 1 / 8, 8.0
"""Factors on the times of a device between which a search takes place."""


def no_row(rows: Rows) -> Iterator[Case]:
    """The times are those of the specification."""
    yield from ((row, ()) for row in rows)


PROTOCOLS: dict[str, Callable[[Rows], Iterable[Case]]] = {
    "nothing fitted": no_row,
    "one row a GPU and precision": one_row,
    "one row a model, GPU and precision": lambda rows: one_row(rows, by_model=True),
    "GPU and precision known, plan new": new_plan,
    "larger scales from the smallest": larger_scale,
    "a plan under a later release": later_release,
}


class Predicted(NamedTuple):
    """A measured step and its predictions."""

    row: MeasuredStep
    seconds: float
    """Seconds of the simulated step."""
    plain: float
    """Seconds of a constant efficiency and the bubble of the pipeline, without communication."""
    times: DeviceTimes
    """The times of the device."""
    spread: float
    """The standard deviation of the logarithm of the step, as its interval has it."""

    @property
    def reach(self) -> float:
        """The half width of the interval, as a logarithm."""
        return quantile(LEVEL) * self.spread

    @property
    def kind(self) -> PlanKind:
        """The kind of plan, as a report has it."""
        plan = parse_plan(self.row.plan)
        topology = _times(self.row.machine, plan.degrees).topology
        return kind_of(self.times, plan.zero, span_of(topology, plan.degrees.ranks))

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
    return GroupTimes(find(machine).for_training(degrees.ranks).build(degrees.ranks), degrees)


def simulate(row: MeasuredStep, times: DeviceTimes) -> StepMeasures:
    """The measures of a step."""
    entry, plan = find_transformer(row.model), parse_plan(row.plan, row.gpus)
    training = Training(entry.name, entry.shape, entry.size, times).under(plan)
    return measure(write(work_of(training, plan, _times(row.machine, plan.degrees))))


@cache
def critical_paths(device: str, dtype: str, machine: str, model: str, plan: str) -> Floats:
    """The critical paths of a step where the device and where launches bind, shape (2, 3): seconds
    of the device, of launches, and of all else. In between, the longest path is the step."""
    times = DeviceTimes(device, dtype)
    path = plan_critical_path(model, plan, times, lambda each: _times(machine, each.degrees))
    points = [Factors(launch=start) for start in STARTS]
    return np.array([path(point) / np.array([*point, 1.0]) for point in points])


def path_of(row: MeasuredStep) -> PathSeconds:
    """The critical path of a row with factors, by :func:`critical_paths`."""
    paths = critical_paths(row.device, row.dtype, row.machine, row.model, row.plan)

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


def predict(cases: Iterable[Case]) -> list[Predicted]:
    """The predictions of rows with the times that their calibrating rows tell."""
    predicted = []
    for row, known in cases:
        fitted = _fit(row.model, row.dtype, known) if known else None
        factors = fitted.factors if fitted else Factors()
        sureness = Sureness(fitted.spread, fitted.launch_spread) if fitted else None
        path = path_of(row)(factors)
        efficiency = [each.seconds / plain(each) for each in known] or [1.0]
        predicted.append(
            Predicted(
                row,
                float(path.sum()),
                plain(row) * float(np.exp(np.log(efficiency).mean())),
                factors.of(DeviceTimes(row.device, row.dtype)),
                step_spread(path, sureness, links=spreads().links),
            )
        )
    return predicted


@lru_cache(maxsize=4096)
def _fit(model: str, precision: str, known: tuple[MeasuredStep, ...]) -> FactorFit:
    rows = [
        FitRow(path_of(row), row.seconds, _sizes(row.model), row.dtype, fills(row)) for row in known
    ]
    return fit(rows, _sizes(model), precision)


@cache
def fills(row: MeasuredStep) -> bool:
    """Whether a row fills the memory of its devices."""
    times = DeviceTimes(row.device, row.dtype)
    share = memory_share(row.model, row.plan, times, lambda each: _times(row.machine, each.degrees))
    return share >= FULL * row.memory


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


FOLDERS = typer.Argument(help="folders of measured training")
READERS: dict[str, Callable[[Path], Iterable[MeasuredStep]]] = {
    "a100_3d_single": three_dimensional,
    "a100_3d_multi": three_dimensional,
    "fsdp_mpt": sharded,
    "mlperf_llama31_405b": mlperf,
}
"""What reads a file of its own columns."""
ELSEWHERE = "abci_v100_resnet50_horovod"
"""A file for another study."""


def files_in(
    folders: Sequence[Path],
) -> tuple[dict[str, list[MeasuredStep]], dict[str, Mapping[str, int]]]:
    """The steps of each file of folders, those of :data:`READERS` and runs with their whole plans;
    and how many rows of a file are left out for which reason.

    Raises InputError for a file that cannot be read, and for folders without one.
    """
    files, skipped = dict[str, list[MeasuredStep]](), dict[str, Mapping[str, int]]()
    for path in sorted(path for folder in folders for path in folder.glob("*.csv")):
        if path.stem in READERS:
            files[path.stem] = [*READERS[path.stem](path)]
        elif path.stem != ELSEWHERE:
            files[path.stem], skipped[path.stem] = whole_plans(path)
    if not files:
        raise InputError(f"no CSV of measured steps in {', '.join(map(str, folders))[:200]}")
    return files, skipped


def main(
    folders: Annotated[list[Path], FOLDERS],
    out: Annotated[Path | None, typer.Option(help="Write plan_errors.csv anew here.")] = None,
) -> str:
    """Tables of all files of folders of measured training."""
    files, skipped = files_in(folders)
    three = [row for name in files if "a100_3d" in name for row in files[name]]
    parts = dict[str, list[Predicted]]()
    for name, rows in files.items():
        for title, protocol in PROTOCOLS.items():
            cases = list(protocol(three if "a100_3d" in name else rows))
            part = predict(case for case in cases if case[0] in set(rows))
            if part:
                parts[f"{name}, {title}"] = part
    parts |= {f"{paper}, nothing fitted": predict(no_row([*published(paper)])) for paper in PAPERS}
    sections = {"": errors(parts)}
    for name, part in parts.items():
        by_kind = grouped(part, lambda each: f"{each.row.kind} {each.row.group}")
        sections[f"{name}, by plan"] = errors(dict(sorted(by_kind.items())))
    for name in files:
        part = next(parts[key] for title in WORST_OF if (key := f"{name}, {title}") in parts)
        worst = sorted(part, key=lambda each: -abs(each.error))[:10]
        sections[f"{name}, the ten worst"] = _steps(worst) | _parts_of_steps(worst)
    left_out = [(name, reason, str(n)) for name, of in skipped.items() for reason, n in of.items()]
    sections["Rows that plans cannot say yet"] = {
        heading: [cells[place] for cells in left_out]
        for place, heading in enumerate(("file", "reason", "rows"))
    }
    kinds = errors_by_kind(
        [each for name, part in parts.items() if _in_reports(name) for each in part]
    )
    if out is not None:
        output.write(out, output.to_csv(kinds))
    sections["Errors by kind of plan, as reports name them"] = {
        name: [str(row[name]) for row in kinds] for name in (*PlanKind._fields, *PlanError._fields)
    }
    tables = [f"{name}\n\n{aligned(columns)}".strip() for name, columns in sections.items()]
    return "\n\n".join(tables)


WORST_OF = "one row a GPU and precision", "nothing fitted"
"""The protocol of the ten worst rows of a file: the first that it has."""
PAPERS = ("narayanan", "korthikanti")
"""Papers whose steps are predicted with the times of the specification."""


def _in_reports(part: str) -> bool:
    name, _, title = part.partition(", ")
    return name not in PAPERS and title in ("nothing fitted", "one row a GPU and precision")


def errors_by_kind(predicted: Sequence[Predicted]) -> list[output.Record]:
    """The errors of each kind of plan that a report tells apart: rows of its file."""
    rows: list[output.Record] = []
    for kind, alike in grouped(predicted, lambda each: each.kind).items():
        errors = np.array([each.error for each in alike])
        figures = np.abs(errors).mean(), errors.mean(), np.quantile(np.abs(errors), 0.9)
        error = PlanError(len(errors), *(round(float(figure), 3) for figure in figures))
        rows.append(kind._asdict() | error._asdict())
    return rows


Columns = dict[str, list[str]]


def errors(parts: Mapping[str, Sequence[Predicted]]) -> Columns:
    """The errors of parts, beside those of the plain model."""
    all_errors = [np.array([each.error for each in part]) for part in parts.values()]
    plains = [np.abs([each.plain_error for each in part]) for part in parts.values()]
    figures = {
        "mean": [np.abs(part).mean() for part in all_errors],
        "median": [np.median(np.abs(part)) for part in all_errors],
        "nine of ten": [np.quantile(np.abs(part), 0.9) for part in all_errors],
        "largest": [np.abs(part).max() for part in all_errors],
        "plain model": [part.mean() for part in plains],
        "its median": [np.median(part) for part in plains],
    }
    return {
        "rows of": [*parts],
        "number": [str(len(part)) for part in all_errors],
        "bias": [f"{part.mean():+.1%}" for part in all_errors],
        **{name: [f"{figure:.1%}" for figure in column] for name, column in figures.items()},
        "in 80% interval": [
            f"{np.mean([_inside(each) for each in part]):.0%}" for part in parts.values()
        ],
        "half width": [
            f"{np.expm1(np.median([each.reach for each in part])):.0%}" for part in parts.values()
        ],
    }


def _inside(each: Predicted) -> bool:
    return bool(abs(np.log1p(each.error)) <= each.reach)


def _steps(predicted: Sequence[Predicted]) -> Columns:
    return {
        "step": [each.row.text for each in predicted],
        "measured s": [f"{each.row.seconds:.3f}" for each in predicted],
        "predicted s": [f"{each.seconds:.3f}" for each in predicted],
        "error": [f"{each.error:+.1%}" for each in predicted],
    }


def _parts_of_steps(predicted: Sequence[Predicted]) -> Columns:
    measures = [simulate(each.row, each.times) for each in predicted]
    seconds = {
        "device": [each.computing for each in measures],
        "launches": [each.launching for each in measures],
        "exposed": [each.exposed.sum(axis=1) for each in measures],
        "idle": [each.idle for each in measures],
        "optimizer": [each.optimizer for each in measures],
    }
    return {name: [f"{part.mean():.3f}" for part in parts] for name, parts in seconds.items()}
