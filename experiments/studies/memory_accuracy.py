"""Predicted memory of training steps beside what PyTorch measured: allocated and reserved.

`allocated_mib_rank0` and so on are of each rank, as are `reserved_mib_rank0`; `memory_gib_max` is
what is reserved at most. One number is fitted: `RESERVED`, to the ranks of SimuMax's runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import RESERVED, Training, memory_of, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.studies.measured_rows import Row, aligned, grouped, rows_of
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import StepMemory
from topologies.errors import InputError
from topologies.shapes import star

GIB, MIB = 2.0**30, 2.0**20
AGAIN = {"": "none", "none": "none", "full": "full", "selective (per operator)": "op"}
"""What is computed again, by the words of the column."""
SIZES = {"layers": "layers", "hidden": "hidden", "heads": "heads", "kv_heads": "kv_heads"}
SIZES |= {"mlp": "ffn", "vocab": "vocab", "seq": "seq"}


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


def predicted_memory(row: Row) -> StepMemory:
    """The memory of a run of a dense model like Llama. Raises InputError for another."""
    if row.get("experts"):
        raise InputError(f"{row['model']}: a model with experts")
    if (again := AGAIN.get(row["recompute"])) is None:
        raise InputError(f"recompute is {row['recompute']!r}: one of {', '.join(AGAIN)}")
    entry = find_transformer(
        "llama3_8b:" + ",".join(f"{key}={row[name]}" for key, name in SIZES.items())
    )
    sharded = "fsdp" in row["sharding"]
    # Torchtitan compiles its loss since 2025.
    compiled = row.get("compiled") or "no"
    loss = "compiled" if compiled == "yes" and row["date"] >= "2025" else "eager"
    plan = parse_plan(
        f"dp={row['dp']},tp={row['tp']},pp={row['pp']},cp={row['cp']},micro={row['micro_batch']},"
        f"batch={row['global_batch']},sp={row['sp']},zero={3 if sharded else 1},"
        f"recompute={again},compiled={compiled},loss={loss if sharded else 'fused'},uneven=yes"
    )
    training = Training(row["model"], entry.shape, entry.size, DeviceTimes("h100"))
    times = GroupTimes(star(plan.degrees.ranks, bandwidth=1e9), plan.degrees)
    return memory_of(training, plan, work_of(training, plan, times))


def errors_of(path: Path) -> Iterator[MeasuredMemory]:
    """What is measured and predicted in a file, but for runs whose memory is that of another."""
    for row in rows_of(path):
        ranks = [name for name in row if name.startswith("allocated_mib_rank") and row[name]]
        if row.get("memory_from_case") or not (ranks or row.get("memory_gib_max")):
            continue
        try:
            memory = predicted_memory(row)
        except InputError:
            continue
        reserved = memory.allocated + (RESERVED - 1) * memory.moving
        name = f"{row['model']} {row['gpus']} {row['gpu']} tp={row['tp']} pp={row['pp']}"
        name += f" {row['precision']}{' compiled' if row.get('compiled') == 'yes' else ''}"
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
