"""The memory of a plan on a device: whether it fits, and what would make it fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from experiments.models.accelerators import PRECISIONS, accelerator
from experiments.models.block_cut import GRADIENTS
from experiments.output import align
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import Plan
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import PARTS, Memory, Overheads, State, memory
from simulator.parallel.step import Step
from simulator.parallel.step_work import Work
from simulator.parallel.zero_stages import Stage, stages_of_zero
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import format_bytes

OVERHEADS = Overheads(communicator=300 * 2.0**20, context=2.0**30, fragmentation=1.05)
"""Recalled: a communicator of NCCL takes 200 to 400 MiB, the context of CUDA with the workspaces of
its libraries 0.5 to 1.5 GiB. Assumed: the allocator takes 5% more than what comes and goes."""
UNSURE = ("activations", "logits", "fragmentation")
"""Parts that depend on the framework: those between steps follow from the plan."""
LISTED = 3
"""Changes that a message names, at most."""
NODE = 8
"""GPUs of a usual node: tensor parallel stays within it."""


@dataclass(frozen=True)
class Fit:
    """The memory of a plan on its device."""

    memory: Memory
    zero: tuple[Stage, ...]
    """What each stage of ZeRO would hold and send on the fullest device."""
    capacity: float
    """Bytes of the device."""
    device: str

    @property
    def missing(self) -> float:
        """Bytes that the device lacks; 0 if the plan fits."""
        return max(0.0, self.memory.peak - self.capacity)


def state_of(training: Training, plan: Plan) -> State:
    """What is held between steps for each element of the parameters.

    FSDP holds shares of parameters and gradients in fp32, and converts what it gathers; others hold
    a copy of the parameters in fp32 with the optimizer.
    """
    wide = PRECISIONS[training.times.dtype].width > 2
    if wide or plan.zero == 3:
        return State(4.0, 4.0, 8.0)
    return State(2.0, GRADIENTS[plan.grads][0], 12.0)


def fit(training: Training, plan: Plan, work: Work) -> Fit:
    """The memory of a plan."""
    state, device = state_of(training, plan), training.times.device
    needed = memory(work, state, OVERHEADS)
    zero = stages_of_zero(
        work, lambda zero: state_of(training, replace(plan, zero=zero)), needed.fullest
    )
    return Fit(needed, tuple(zero), accelerator(device).capacity, device)


def advice(training: Training, plan: Plan, result: Fit, topology: Topology) -> str:
    """What would make a plan fit; empty for a plan that fits."""
    if not result.missing:
        return ""
    changes = []
    for change in _changes(plan):
        peak = _peak(training, replace(plan, **change), topology)
        if peak <= result.capacity:
            changes.append(f"{_text(change)} ({_gb(peak)})")
    if changes:
        return "take " + " or ".join(changes[:LISTED])
    together = _together(training, plan, result.capacity, topology)
    return f"take {together}" if together else "take more GPUs or a smaller model"


def _peak(training: Training, plan: Plan, topology: Topology) -> float:
    """Bytes of a plan; infinite for one that the model does not allow."""
    try:
        work = work_of(training, plan, GroupTimes(topology, plan.degrees))
        return memory(work, state_of(training, plan), OVERHEADS).peak
    except InputError:
        return float("inf")


def _together(training: Training, plan: Plan, most: float, topology: Topology) -> str:
    """Changes that make a plan fit together, as text; empty if they do not."""
    changes, least = dict[str, Any](), float("inf")
    for _ in range(16):
        options = [changes | change for change in _changes(replace(plan, **changes))]
        peaks = [_peak(training, replace(plan, **option), topology) for option in options]
        if min(peaks, default=least) >= least:
            return ""
        least = min(peaks)
        changes = options[peaks.index(least)]
        if least <= most:
            return f"{_text(changes)} ({_gb(least)})"
    return ""


def _changes(plan: Plan) -> list[dict[str, Any]]:
    """Changes of a plan that take less memory, the cheapest ones first."""
    batch, even = plan.sequences, plan.dp % 2 == 0
    unfused = plan.attention == "unfused" and plan.recompute == "none"
    half, whole = plan.dp // 2, plan.pp == 1
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
        (even and plan.tp < NODE, {"dp": half, "tp": plan.tp * 2, "sp": True, "batch": batch}),
        (even, {"dp": half, "pp": plan.pp * 2, "batch": batch}),
    ]
    return [change for possible, change in changes if possible]


def _text(change: Mapping[str, object]) -> str:
    return ",".join(f"{key}={'yes' if value is True else value}" for key, value in change.items())


def _gb(nbytes: float) -> str:
    return format_bytes(nbytes, binary=False)


NAMES = {
    "logits": "logits and loss",
    "again": "computed again",
    "gathered": "gathered units",
    "unsharded": "gradients before they are scattered",
    "reducing": "buffers of a reduction",
    "buffers": "buffers of communicators",
    "context": "context and libraries",
}
"""The parts of the memory, where a report gives them another name."""


def lacking(result: Fit, line: str) -> str:
    """By how much a plan does not fit, which part is least sure, and the advice `line`."""
    held = result.memory.parts(result.memory.fullest)
    unsure = max((name for name in UNSURE if name in held), key=lambda name: held[name])
    return (
        f"  a GPU needs {_gb(result.memory.peak)} and has {_gb(result.capacity)}, "
        f"{_gb(result.missing)} too few\n"
        f"  least sure: {_gb(held[unsure])} of {NAMES.get(unsure, unsure)}\n"
        f"  to make it fit: {line}"
    )


def memory_of(result: Fit) -> str:
    """What the fullest device holds, as text."""
    device, peak = result.memory.fullest, result.memory.peak
    lines = [
        [f"  {NAMES.get(name, name)}", _gb(nbytes), f"{nbytes / peak:.1%}"]
        for name, nbytes in result.memory.parts(device).items()
    ]
    lines.append(["  all", _gb(peak), f"of {_gb(result.capacity)} ({result.device})"])
    return f"memory of a GPU of device {device} when it holds most\n" + align(lines)


def zero_of(result: Fit) -> str:
    """What each stage of ZeRO holds, as text; empty if ranks share nothing."""
    if not result.zero[0].redundant:
        return ""
    rows = [["  zero", "held", "redundant", "sent in a step"]]
    rows += [
        [f"  {each.zero}", _gb(each.held), _gb(each.redundant), _gb(each.sent)]
        for each in result.zero
    ]
    return "stages of ZeRO: what it holds between steps\n" + align(rows)


def columns(result: Fit) -> dict[str, float]:
    """The parts of the fullest device, for tables."""
    row = result.memory.peaks[result.memory.fullest].tolist()
    return {f"{name}_bytes": nbytes for name, nbytes in zip(PARTS, row, strict=True)}


def over_time(result: Fit, step: Step) -> list[dict[str, float]]:
    """When each action of the fullest device begins and ends, and what it holds at most."""
    device = result.memory.fullest
    rows = slice(*result.memory.pipeline.starts[device : device + 2])
    sizes = result.memory.held[rows].sum(axis=1)
    return [
        {"start_s": start, "end_s": end, "bytes": nbytes}
        for (start, end), nbytes in zip(step.spans[rows].tolist(), sizes.tolist(), strict=True)
    ]


def figures(result: Fit, line: str, step: Step) -> dict[str, object]:
    """All figures and the line of advice, for JSON. Sizes are bytes."""
    return {
        "advice": line,
        "capacity": result.capacity,
        "missing": result.missing,
        "fullest_device": result.memory.fullest,
        "devices": [result.memory.parts(device) for device in range(len(result.memory.fixed))],
        "over_time": over_time(result, step),
        "zero": [each._asdict() for each in result.zero],
    }
