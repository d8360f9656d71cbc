"""Predicted memory of training steps beside what PyTorch measured: allocated and reserved.

`allocated_mib_rank0` and so on are of each rank, as are `reserved_mib_rank0`; `memory_gib_max` is
what is reserved at most. One number is fitted: `RESERVED`, to the ranks of SimuMax's runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import RESERVED, Training, memory_of, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.shipped_tables import rows_of
from experiments.studies.measured_plans import MeasuredStep, whole_plans
from experiments.studies.measured_rows import Row, aligned, grouped
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import StepMemory
from topologies.shapes import star

GIB, MIB = 2.0**30, 2.0**20


class MeasuredMemory(NamedTuple):
    """The memory of the ranks of a device of a pipeline."""

    run: str
    kind: str
    """Allocated or reserved."""
    measured: float
    predicted: float
    """Bytes, as are those measured."""
    parts: str

    @property
    def error(self) -> float:
        """Of the prediction, as a share of what is measured."""
        return self.predicted / self.measured - 1


def predicted_memory(step: MeasuredStep, row: Row) -> StepMemory:
    """The memory of a run. Torchtitan compiles its loss since 2025."""
    entry, plan = find_transformer(step.model), parse_plan(step.plan)
    compiled = row.get("compiled") == "yes"
    if compiled and row["date"] >= "2025":
        plan = replace(plan, loss="compiled")
    plan = replace(plan, compiled=compiled)
    times = DeviceTimes(step.device, step.dtype)
    training = Training(entry.name, entry.shape, entry.size, times).under(plan)
    groups = GroupTimes(star(plan.degrees.ranks, bandwidth=1e9), plan.degrees)
    return memory_of(training, plan, work_of(training, plan, groups))


def errors_of(path: Path) -> Iterator[MeasuredMemory]:
    """What is measured and predicted in a file, but for runs whose memory is that of another."""
    rows = rows_of(path)
    if not rows or not {"memory_gib_max", "allocated_mib_rank0"} & rows[0].keys():
        return
    for step in whole_plans(path)[0]:
        row = rows[step.order[-1]]
        ranks = [name for name in row if name.startswith("allocated_mib_rank") and row[name]]
        if row.get("memory_from_case") or not (ranks or row.get("memory_gib_max")):
            continue
        memory, name = predicted_memory(step, row), f"{step.group} {step.dtype}"
        name += f", {step.gpus} {row['gpu']}{', compiled' * (row.get('compiled') == 'yes')}"
        reserved = memory.allocated + (RESERVED - 1) * memory.moving
        if not ranks:
            parts, most = _parts(memory, memory.fullest), float(row["memory_gib_max"]) * GIB
            yield MeasuredMemory(name, "reserved", most, float(reserved.max()), parts)
        for kind, figures in (("allocated", memory.allocated), ("reserved", reserved)):
            cells = [float(row[rank.replace("allocated", kind)]) * MIB for rank in ranks]
            for device, each in enumerate(np.array_split(cells, len(figures)) if cells else ()):
                parts, place = _parts(memory, device), f"{name}, device {device}"
                mean = float(each.mean())
                yield MeasuredMemory(place, kind, mean, float(figures[device]), parts)


def _parts(memory: StepMemory, device: int) -> str:
    outside = "buffers", "context", "fragmentation"
    sizes = {name: size for name, size in memory.parts(device).items() if name not in outside}
    return ", ".join(f"{name} {size / GIB:.1f}" for name, size in sizes.items())


def main(folder: Path) -> str:
    """A table of all files of a folder that have memory, with the parts in GiB."""
    tables = []
    for path in sorted(folder.glob("*.csv")):
        for kind, rows in grouped(errors_of(path), lambda each: each.kind).items():
            errors = [abs(each.error) for each in rows]
            mean, worst = np.mean(errors), max(errors)
            columns = {
                "run": [each.run for each in rows],
                "measured GiB": [f"{each.measured / GIB:.2f}" for each in rows],
                "predicted GiB": [f"{each.predicted / GIB:.2f}" for each in rows],
                "error": [f"{each.error:+.1%}" for each in rows],
                "parts": [each.parts for each in rows],
            }
            title = f"{path.stem}, {kind}: mean error {mean:.1%}, worst {worst:.1%}"
            tables.append(f"{title}\n\n{aligned(columns)}")
    return "\n\n".join(tables) or "no file with memory"
