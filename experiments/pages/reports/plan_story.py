"""The reports of `simctl train --plan`: a step of a plan, and a search of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.output import counted
from experiments.pages.page import Block, Facts
from experiments.pages.reports.collective_story import PATH
from experiments.pages.reports.report_tables import (
    Record,
    number,
    share,
    shares,
    table,
    times,
    word,
    written,
)
from experiments.pages.reports.result import Result, Story
from experiments.pages.reports.result_scenes import scenes
from experiments.parallel.plan_report import MEANINGS
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

PARTS = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "context")
DEVICES = (
    "A device of the pipeline stands for all of its ranks: they do the same. Exposed communication "
    "runs while the device does not compute."
)
STREAMS = {
    "exposed_tp_s": "tensor parallel",
    "exposed_cp_s": "context parallel",
    "exposed_ep_s": "experts",
    "exposed_data_s": "gradients",
    "exposed_experts_s": "gradients of experts",
    "exposed_send_s": "between stages",
    "exposed_tied_s": "shared gradients",
    "exposed_gather_s": "gather parameters",
    "exposed_reduce_s": "reduce gradients",
    "exposed_replica_s": "across replicas",
    "exposed_copy_s": "copies",
}


def one(result: Result) -> Story:
    """A step of a plan: its time, where it goes, and memory."""
    report, row = result.report, result.report["summary"]
    step = number(row, "step_s")
    lost = {
        "communication that devices wait for": number(row, "exposed_s"),
        "the bubble of the pipeline": number(row, "idle_s"),
        "waiting for the CPU": number(row, "launching_s"),
        "the optimizer": number(row, "optimizer_s"),
    }
    worst = max(lost, key=lambda name: lost[name])
    summary = [
        f"How long does a step of {word(row, 'model')} take on {word(row, 'gpus')} GPUs "
        f"({word(row, 'device')}) with {word(row, 'plan')}?",
        f"It takes {format_seconds(step)}: {number(row, 'tokens_per_s'):,.0f} tokens/s, "
        f"{number(row, 'tflops'):.0f} TFLOP/s a GPU, {share(number(row, 'mfu'))} of its peak.",
        f"A mean device computes for {share(number(row, 'computing_s') / (step or 1.0))} of the "
        f"step; it loses most to {worst}: {share(lost[worst] / (step or 1.0))}. {_fits(row)}",
    ]
    path: Mapping[str, float] = report["critical_path_s"]
    blocks: list[Block] = [
        Facts("The answer in figures", _figures(row)),
        shares("Where the time goes", path, step, _meanings(path)),
        *scenes(result),
        table("Devices of the pipeline", report["devices"], _columns(), note=DEVICES, zeros=False),
        *_memory(report.get("memory") or {}),
    ]
    left = ["Collectives of a plan run one by one on each stream: --detail transfers runs all."]
    advice = (report.get("memory") or {}).get("advice")
    if advice:
        summary.append(f"To make it fit: {advice}.")
    left = left if row.get("transfers_s") is None else []
    return Story(
        f"{word(row, 'model')}, {word(row, 'plan')}: {format_seconds(step)}", summary, blocks, left
    )


def _meanings(path: Mapping[str, float]) -> str:
    """What the parts of the critical path are."""
    groups = dict.fromkeys(part.partition(":")[0] for part in path)
    lines = [f"{group}: {MEANINGS[group]}." for group in groups if group in MEANINGS]
    return "\n".join([PATH, *lines])


def _fits(row: Record) -> str:
    missing = row.get("missing_bytes")
    if missing is None or row.get("memory_bytes") is None:
        return ""
    held = format_bytes(number(row, "memory_bytes"), binary=False)
    if not missing:
        return f"The fullest GPU holds {held}, which fits."
    lacking = format_bytes(number(row, "missing_bytes"), binary=False)
    return f"The fullest GPU would hold {held}: {lacking} more than it has."


def _figures(row: Record) -> dict[str, str]:
    names = {
        "step": "step_s",
        "sequences of a step": "batch",
        "micro-batches of each pipeline": "micro_batches",
        "tokens/s": "tokens_per_s",
        "TFLOP/s a GPU": "tflops",
        "share of the GPU's peak (MFU)": "mfu",
        "mean error on measured steps of such plans": "model_error",
        "computing, a mean device": "computing_s",
        "communication that it waits for (exposed)": "exposed_s",
        "communication beside computing (hidden)": "hidden_s",
        "idle (the bubble)": "idle_s",
        "memory of the fullest GPU": "memory_bytes",
        "all transfers of all ranks simulated": "transfers_s",
    }
    if row.get("level") is not None:
        where = f"interval of {share(number(row, 'level'))} of steps"
        names |= {"expected step": "expected_s", f"{where}, from": "low_s", "to": "high_s"}
    return {name: written(field, row.get(field)) for name, field in names.items()}


def _columns() -> dict[str, str]:
    columns = {"device": "device", "stages": "stages", "computing": "computing_s"}
    columns |= {"optimizer": "optimizer_s"}
    columns |= {f"exposed: {name}": field for field, name in STREAMS.items()}
    return columns | {"idle": "idle_s", "idle in between": "idle_between_s"}


def _memory(memory: Mapping[str, Any]) -> list[Block]:
    rows = [
        {"device": place, **{f"{name}_bytes": value for name, value in parts.items()}}
        for place, parts in enumerate(memory.get("devices", ()))
    ]
    names = dict.fromkeys([*PARTS, *(name for each in memory.get("devices", ()) for name in each)])
    columns = {"device": "device", **{name: f"{name}_bytes" for name in names}}
    note = "What a GPU of each device holds at its fullest moment."
    return [table("Memory", rows, columns, note=note)] if rows else []


def search(result: Result) -> Story:
    """The fastest plans, and what the others lose."""
    plans: Sequence[Record] = [
        {name: value for name, value in plan.items() if value is not None}
        for plan in result.report["plans"]
    ]
    simulated = [plan for plan in plans if "step_s" in plan]
    if not simulated:
        raise InputError("no plan in the result is simulated")
    best = simulated[0]
    left_out: Mapping[str, int] = result.report["left_out"]
    summary = [
        f"Which plan trains {word(best, 'model')} fastest on {word(best, 'gpus')} GPUs? "
        f"{counted(len(plans), 'plan')} fit into memory; the {len(simulated)} most promising were "
        f"simulated.",
        f"The fastest is {word(best, 'plan')}: {format_seconds(number(best, 'step_s'))} a step, "
        f"{number(best, 'tokens_per_s'):,.0f} tokens/s.",
        _next(simulated),
    ]
    columns = {"plan": "plan", "step": "step_s", "expected": "expected_s", "from": "low_s"}
    columns |= {"to": "high_s", "slower": "change", "tokens/s": "tokens_per_s"}
    columns |= {"MFU": "mfu", "memory": "memory_bytes", "free": "left_bytes"}
    columns |= {"why slower": "loses_to", "bound": "bound_s"}
    fastest = number(best, "step_s") or 1.0
    rows = [
        {**plan, "change": number(plan, "step_s") / fastest - 1} if "step_s" in plan else plan
        for plan in plans
    ]
    note = "bound: no step of the plan is shorter. why slower: what takes longer than in the first."
    if any("low_s" in plan for plan in plans):
        note += " from, to: the ends of the interval of a step, by the error of communication."
    reasons = [{"reason": reason, "plans": count} for reason, count in left_out.items() if count]
    parts = result.report["parts_s"].get(word(best, "plan"), {})
    blocks: list[Block] = [
        table("Plans", rows, columns, note=note),
        shares("Where a mean device of the fastest plan spends the step", parts, fastest),
        table("Plans that were left out", reasons, {"plans": "plans", "reason": "reason"}),
    ]
    title = f"Plans for {word(best, 'model')} on {word(best, 'gpus')} GPUs"
    return Story(title, summary, blocks)


def _next(simulated: Sequence[Record]) -> str:
    best = number(simulated[0], "step_s") or 1.0
    slower = [plan for plan in simulated if number(plan, "step_s") > best * 1.001]
    if not slower:
        return "All others that were simulated are as fast."
    factor = times(number(slower[0], "step_s") / best)
    return f"The next one that is slower, {word(slower[0], 'plan')}, takes {factor} times as long."
