"""Predicted memory of training steps beside what PyTorch measured: allocated and reserved.

`allocated_mib_rank0` and so on are of each rank, as are `reserved_mib_rank0`; `memory_gib_max` is
what is reserved at most. One number is fitted: `RESERVED`, to the ranks of SimuMax's runs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import RESERVED, Training, memory_of, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.shipped_tables import rows_of
from experiments.studies.measured_plans import MeasuredStep, whole_plans
from experiments.studies.measured_rows import Row, formatted
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import StepMemory
from topologies.shapes import star

GIB, MIB = 2.0**30, 2.0**20
FORMATS = {
    "run": "{}",
    **dict.fromkeys(("measured GiB", "predicted GiB"), "{:.2f}"),
    "error": "{:+.1%}",
}


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


def errors_of(path: Path) -> pd.DataFrame:
    """A row for the memory, `allocated` or `reserved`, of the ranks of each device of a pipeline in
    bytes, as `measured` and as `predicted`; but for runs whose memory is that of another."""
    rows, table = rows_of(path), list[dict[str, Any]]()
    if not rows or not {"memory_gib_max", "allocated_mib_rank0"} & rows[0].keys():
        return pd.DataFrame()
    for step in whole_plans(path)[0]:
        row = rows[step.order[-1]]
        ranks = [name for name in row if name.startswith("allocated_mib_rank") and row[name]]
        if row.get("memory_from_case") or not (ranks or row.get("memory_gib_max")):
            continue
        memory, name = predicted_memory(step, row), f"{step.group} {step.dtype}"
        name += f", {step.gpus} {row['gpu']}{', compiled' * (row.get('compiled') == 'yes')}"
        reserved = memory.allocated + (RESERVED - 1) * memory.moving
        if not ranks:
            table.append(
                {
                    **{"kind": "reserved", "run": name},
                    **{"measured": float(row["memory_gib_max"]) * GIB, "predicted": reserved.max()},
                }
            )
        for kind, figures in (("allocated", memory.allocated), ("reserved", reserved)):
            cells = [float(row[rank.replace("allocated", kind)]) * MIB for rank in ranks]
            for device, each in enumerate(np.array_split(cells, len(figures)) if cells else ()):
                table.append(
                    {
                        **{"kind": kind, "run": f"{name}, device {device}"},
                        **{"measured": each.mean(), "predicted": figures[device]},
                    }
                )
    return pd.DataFrame(table)


def main(folder: Path) -> str:
    """A table of all files of a folder that have memory."""
    tables = []
    for path in sorted(folder.glob("*.csv")):
        table = errors_of(path)
        for kind, rows in table.groupby("kind", sort=False) if len(table) else ():
            rows["error"] = rows["predicted"] / rows["measured"] - 1
            rows[["measured GiB", "predicted GiB"]] = rows[["measured", "predicted"]] / GIB
            mean, worst = rows["error"].abs().mean(), rows["error"].abs().max()
            title = f"{path.stem}, {kind}: mean error {mean:.1%}, worst {worst:.1%}"
            tables.append(f"{title}\n\n{formatted(rows, FORMATS)}")
    return "\n\n".join(tables) or "no file with memory"
