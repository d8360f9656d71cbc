"""What would make a plan fit into the memory of its devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from experiments.models.accelerators import accelerator
from experiments.parallel.plan_step import Training, memory_of, work_of
from experiments.parallel.plan_text import Plan
from experiments.text_lines import bytes_cell
from simulator.parallel.group_times import GroupTimes
from topologies.errors import InputError
from topologies.topology import Topology


def advice(training: Training, plan: Plan, topology: Topology) -> str:
    """Up to three changes that each make a plan fit; if none does, changes that do together."""
    capacity = accelerator(training.times.device).capacity
    changes, least = dict[str, Any](), inf
    for _ in range(16):  # more changes together are another plan
        options = [changes | change for change in _changes(replace(plan, **changes))]
        peaks = [_peak(training, replace(plan, **option), topology) for option in options]
        if min(peaks, default=least) >= least:
            break
        best = peaks.index(min(peaks))
        if peaks[best] <= capacity:
            fitting = [place for place, nbytes in enumerate(peaks) if nbytes <= capacity]
            shown = [best] if changes else fitting[:3]
            words = [f"{_text(options[place])} ({bytes_cell(peaks[place])})" for place in shown]
            return f"take {' or '.join(words)}"
        changes, least = options[best], peaks[best]
    return "take more GPUs or a smaller model"


def _peak(training: Training, plan: Plan, topology: Topology) -> float:
    """Bytes of a plan; infinite for one that the model does not allow."""
    try:
        work = work_of(training, plan, GroupTimes(topology, plan.degrees))
    except InputError:
        return inf
    return memory_of(training, plan, work).peak


def _changes(plan: Plan) -> list[dict[str, Any]]:
    """Changes of a plan that take less memory, the cheapest ones first."""
    batch, even = plan.sequences, plan.dp % 2 == 0
    unfused = plan.attention == "unfused" and plan.recompute == "none"
    # Tensor parallel stays within the 8 GPUs of a usual node.
    half, whole, within = plan.dp // 2, plan.pp == 1, plan.tp < 8
    changes: list[tuple[bool, dict[str, Any]]] = [
        (unfused, {"recompute": "selective"}),
        (plan.tp > 1 and not plan.sp, {"sp": True}),
        (plan.zero == 0, {"zero": 1}),
        (plan.zero <= 1 and whole, {"zero": 2}),
        (plan.zero <= 2 and whole, {"zero": 3}),
        (plan.shard != 0, {"shard": 0}),
        (plan.reshard is not True, {"reshard": True}),
        (not plan.sync, {"sync": True}),
        (plan.micro > 1, {"micro": plan.micro // 2, "batch": batch}),
        (plan.recompute != "full", {"recompute": "full"}),
        (even and within, {"dp": half, "tp": plan.tp * 2, "sp": True, "batch": batch}),
        (even, {"dp": half, "pp": plan.pp * 2, "batch": batch}),
    ]
    return [change for possible, change in changes if possible]


def _text(change: Mapping[str, object]) -> str:
    return ",".join(f"{key}={'yes' if value is True else value}" for key, value in change.items())
