"""Predicted steps of plans of parallel training beside measured and published ones.

Machines: the A100 of the three-dimensional plans are in nodes of 8 with 800 Gbit/s, four HDR ports
a node. Those of FSDP are in nodes with 1600 Gbit/s; the network of its H100 is not known and is
taken as one of 400 Gbit/s a GPU.

One row of each GPU and precision calibrates compute and does not count: that with the fewest GPUs,
then the least TP x PP, then the first in its file. Nothing else is fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.models.accelerators import accelerator
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.parallel.step_calibration import (
    PathSeconds,
    PlanError,
    PlanKind,
    calibrate,
    kind_of,
    plan_critical_path,
    span_of,
)
from experiments.studies.measured_rows import aligned, grouped, rows_of
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import StepMeasures, measure
from topologies.catalogue import find


class MeasuredStep(NamedTuple):
    """A measured step."""

    table: str
    """The file that it is from."""
    kind: str
    """The GPU and precision: rows of a kind share their calibration."""
    group: str
    """Its plan in a word or two: rows are also averaged by this."""
    device: str
    dtype: str
    machine: str
    """The machine, as `--topology` takes it."""
    model: str
    plan: str
    seconds: float
    order: tuple[int, ...]
    """The row with the smallest one calibrates its kind: fewest GPUs, least TP x PP, first in the
    file."""

    @property
    def text(self) -> str:
        """The model and the plan; of a paper, the name of its row."""
        return f"{self.model} {self.plan}" if self.table else self.group


MEGATRON = "recompute=full,attention=unfused,dropout=yes,overlap_tp=no,scatter=yes"
"""Megatron-LM of 2021: everything is computed again, and all-reduces stand alone. Stages send each
other shares, which they gather."""


def three_dimensional(path: Path) -> Iterator[MeasuredStep]:
    """Rows of `a100_3d_single.csv` or `a100_3d_multi.csv`."""
    for number, row in enumerate(rows_of(path)):
        gpus, tp, dp, pp = (int(row[name]) for name in ("gpus", "tp", "dp", "pp"))
        nodes = -(-gpus // 8)
        yield MeasuredStep(
            path.stem,
            "A100",
            f"tp={tp} pp={pp}",
            "a100",
            "bf16",
            "dgx_a100" if nodes == 1 else f"dgx_a100:nodes={nodes},nics=4",
            f"gpt3_1_7b:layers={row['layers']},hidden={row['hidden']},heads={row['heads']},"
            f"seq={row['seq']}",
            f"dp={dp},tp={tp},pp={pp},micro={row['micro_batch']},batch={row['global_batch']},"
            f"{MEGATRON}",
            float(row["iteration_ms"]) / 1e3,
            (gpus, tp * pp, number),
        )


def sharded(path: Path) -> Iterator[MeasuredStep]:
    """Rows of `fsdp_mpt.csv`: tokens/s a GPU as seconds of a step."""
    for number, row in enumerate(rows_of(path)):
        gpus, device = int(row["gpus"]), row["gpu"][:4]
        micro, repeats, seq = (int(row[name]) for name in ("micro_batch", "grad_accum", "seq"))
        wide = "fp32" if row["mp_mode"] == "DEFAULT" else "bf16"
        again = "full" if row["checkpointing"] == "yes" else "none"
        host = "dgx_a100" if device == "a100" else "hgx_h100"
        yield MeasuredStep(
            path.stem,
            f"{row['gpu']} {row['precision']}",
            f"mpt_{row['model']}",
            device,
            "bf16",
            host if gpus <= 8 else f"{host}:nodes={gpus // 8}",
            f"mpt_{row['model']}:seq={seq}",
            f"dp={gpus},zero=3,fsdp=1,micro={micro},batch={gpus * micro * repeats},"
            f"recompute={again},stops=yes,attention=flash,grads={wide}",
            seq * micro * repeats / float(row["tokens_per_s_gpu"]),
            (gpus, 1, number),
        )


def mlperf(path: Path) -> Iterator[MeasuredStep]:
    """Rows of `mlperf_llama31_405b.csv`."""
    for number, row in enumerate(rows_of(path)):
        gpus = int(row["gpus"])
        blackwell = "GB200" in row["machine"]
        yield MeasuredStep(
            path.stem,
            row["machine"],
            row["machine"],
            "b200" if blackwell else "h100",
            "fp8",
            f"nvl72:nodes={-(-gpus // 72)}" if blackwell else f"hgx_h100:nodes={gpus // 8}",
            "llama3_405b",
            f"dp={row['dp']},tp={row['tp']},pp={row['pp']},cp={row['cp']},v=8,micro=1,"
            f"batch={row['global_batch']},zero=1,sp=yes,attention=flash3,overlap=yes,"
            "pieces=yes,uneven=yes",
            float(row["step_s"]),
            (gpus, int(row["tp"]) * int(row["pp"]), number),
        )


def published(paper: str) -> Iterator[MeasuredStep]:
    """Steps of a paper on DGX A100, from `plan_accuracy.csv`.

    - narayanan: Table 1 of Narayanan et al., SC 2021, seconds from TFLOP/s a GPU by its equation 3
      with everything computed again;
    - korthikanti: Table 5 of Korthikanti et al., arXiv 2205.05198, everything computed again, or
      sequence parallel with scores computed again.
    """
    for row in rows_of(Path(__file__).with_suffix(".csv")):
        if row["paper"] == paper:
            gpus, texts = int(row["gpus"]), (row["model"], row["plan"])
            machine = f"dgx_a100:nodes={gpus // 8}"
            kind = "", "A100", row["group"], "a100", "bf16", machine
            yield MeasuredStep(*kind, *texts, float(row["seconds"]), (gpus,))


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
    return GroupTimes(find(machine).for_training(degrees.ranks).build(degrees.ranks), degrees)


def simulate(model: str, plan: str, machine: str, times: DeviceTimes) -> StepMeasures:
    """The measures of a step."""
    entry, parsed = find_transformer(model), parse_plan(plan)
    training = Training(entry.name, entry.shape, entry.size, times).under(parsed)
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
    single = [*three_dimensional(folder / "a100_3d_single.csv")]
    several = [*three_dimensional(folder / "a100_3d_multi.csv")]
    fsdp = [*sharded(folder / "fsdp_mpt.csv")]
    three = predict([*single, *several])
    every = predict(fsdp)
    parts = {
        "A100, three-dimensional plans, one node": [p for p in three if p.row in set(single)],
        "A100, three-dimensional plans, 64 and 256 GPUs": [
            p for p in three if p.row in set(several)
        ],
        "FSDP, one row a GPU and precision": every,
        "FSDP, one row a model, GPU and precision": predict(fsdp, by_model=True),
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
    mlperf_steps = unfitted([*mlperf(folder / "mlperf_llama31_405b.csv")])
    machines = {"machine": [each.row.group for each in mlperf_steps]}
    sections["MLPerf Training 5.0, nothing fitted"] = machines | _steps(mlperf_steps)
    for paper, steps in (
        ("Narayanan et al. 2021, table 1", "narayanan"),
        ("Korthikanti et al. 2022, table 5", "korthikanti"),
    ):
        sections[f"{paper}, nothing fitted"] = _steps(unfitted([*published(steps)]))
    kinds = errors_by_kind([*three, *every, *unfitted([*single, *several, *fsdp]), *mlperf_steps])
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
