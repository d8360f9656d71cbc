"""The reports of `simctl plan`: a step of a plan, and a search of plans."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.output import counted
from experiments.pages.page import Block, Facts
from experiments.pages.reports.collective_story import PATH
from experiments.pages.reports.report_tables import Record, facts_of, number, shares, table
from experiments.pages.reports.result import Result, Story
from experiments.pages.reports.result_scenes import scenes
from experiments.parallel.plan_report import NAMES, PLANS, SHARED, SPENT, WAITS, figures, spent
from experiments.parallel.plan_run import MEANINGS
from experiments.templates import fill, share, times
from topologies.errors import InputError

LOST = {
    "exposed_s": "communication that devices wait for",
    "idle_s": "the bubble of the pipeline",
    "launching_s": "waiting for the CPU",
    "optimizer_s": "the optimizer",
    "restarting_s": "restarts after a failure",
    "input_s": "waiting for samples",
}
"""What a device of a plan loses time to, in words."""
DEVICES = (
    "A device of the pipeline stands for all of its ranks: they do the same. Exposed communication "
    "runs while the device does not compute."
)
MET = (
    "Streams that met on full links, for how long on a mean device, and what the stream lost. The "
    "link is that on which it lost most."
)
DEVICE_COLUMNS = {
    "device": "device",
    "stages": "stages",
    "computing": "computing_s",
    "optimizer": "optimizer_s",
    **{f"exposed: {meaning}": f"exposed_{name}_s" for name, meaning in MEANINGS.items()},
    "waiting for the CPU": "launching_s",
    "restarting": "restarting_s",
    "waiting for samples": "input_s",
    "idle": "idle_s",
    "idle in between": "idle_between_s",
}
MEMORY = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "context")


def one(result: Result) -> Story:
    """A step of a plan: its time, where it goes, and memory."""
    report, row = result.report, result.report["summary"]
    step, memory = number(row, "step_s"), report.get("memory") or {}
    whole, path = step or 1.0, report["critical_path_s"]
    lost = dict.fromkeys(LOST, 0.0) | row
    worst = max(LOST, key=lambda field: number(lost, field))
    summary = [
        fill("How long does a step of {model} take on {gpus} GPUs ({device}) with {plan}?", row),
        fill(
            "It takes {step_s:s}: {tokens_per_s:,.0f} tokens/s, {tflops:.0f} TFLOP/s a GPU, "
            "{mfu:share} of its peak.",
            row,
        ),
        f"A mean device computes for {share(number(row, 'computing_s') / whole)} of the step; it "
        f"loses most to {LOST[worst]}: {share(number(lost, worst) / whole)}. {_fits(row)}",
        _epochs(row),
    ]
    if memory.get("advice"):
        summary.append(f"To make it fit: {memory['advice']}.")
    groups = dict.fromkeys(part.partition(":")[0] for part in path)
    meanings = [f"{group}: {MEANINGS[group]}." for group in groups if group in MEANINGS]
    waits, shared = report.get("waits") or [], report.get("shared") or []
    late = "In a step, beyond a step without conditions."
    devices = memory.get("devices", [])
    parts = dict.fromkeys([*MEMORY, *(name for each in devices for name in each)])
    held = [
        {"device": place, **{f"{name}_bytes": value for name, value in each.items()}}
        for place, each in enumerate(devices)
    ]
    columns = {"device": "device", **{NAMES.get(name, name): f"{name}_bytes" for name in parts}}
    note = "What a GPU of each device holds at its fullest moment."
    blocks: list[Block] = [
        Facts("The answer in figures", facts_of(figures(row))),
        table("Where a mean device spends the step", spent(row, report["devices"]), SPENT),
        shares("Where the time goes", path, step, "\n".join([PATH, *meanings])),
        *scenes(result),
        table(
            "Devices of the pipeline", report["devices"], DEVICE_COLUMNS, note=DEVICES, zeros=False
        ),
        *([table("Who waits for whom", waits, WAITS, note=late)] if waits else []),
        *([table("Streams that share links", shared, SHARED, note=MET)] if shared else []),
        *([table("Memory", held, columns, note=note)] if held else []),
    ]
    left = [
        "Collectives of a plan share links at mean rates: --detail transfers sends each message."
    ]
    title = fill("{model}, {plan}: {step_s:s}", row)
    return Story(title, summary, blocks, left if row.get("transfers_s") is None else [])


def _fits(row: Record) -> str:
    missing = row.get("missing_bytes")
    if missing is None or row.get("memory_bytes") is None:
        return ""
    lacks = "would hold {memory_bytes:B}: {missing_bytes:B} more than it has."
    return fill(
        f"The fullest GPU {lacks if missing else 'holds {memory_bytes:B}, which fits.'}", row
    )


def _epochs(row: Record) -> str:
    if "epoch_s" not in row:
        return ""
    steps = counted(int(number(row, "epoch_steps")), "step")
    epochs = counted(int(number(row, "epochs")), "epoch")
    training = f"the training of {epochs} {{training_s:s}}"
    return fill(f"An epoch of {steps} takes {{epoch_s:s}}, {training}.", row)


def search(result: Result) -> Story:
    """The fastest plans, and what the others lose."""
    rows = [
        {name: value for name, value in each.items() if value is not None}
        for each in result.report["plans"]
    ]
    simulated = [row for row in rows if "step_s" in row]
    if not simulated:
        raise InputError("no plan in the result is simulated")
    best = simulated[0]
    fastest = number(best, "step_s") or 1.0
    for row in simulated[1:]:
        row["change"] = number(row, "step_s") / fastest - 1
    slower = next((row for row in simulated[1:] if row["change"] > 0.001), None)
    others = "All others that were simulated are as fast."
    if slower:
        factor = times(slower["change"] + 1)
        others = f"The next one that is slower, {slower['plan']}, takes {factor} times as long."
    summary = [
        fill("Which plan trains {model} fastest on {gpus} GPUs? ", best)
        + f"{counted(len(rows), 'plan')} fit into memory; the {len(simulated)} most promising were "
        f"simulated.",
        fill("The fastest is {plan}: {step_s:s} a step, {tokens_per_s:,.0f} tokens/s.", best),
        others,
    ]
    note = "bound: no step of the plan is shorter. why slower: what takes longer than in the first."
    columns = {"plan": "plan", **PLANS, "why slower": "loses_to", "bound": "bound_s"}
    left_out: Mapping[str, int] = result.report["left_out"]
    reasons = [{"reason": reason, "plans": count} for reason, count in left_out.items() if count]
    parts = result.report["parts_s"].get(best["plan"], {})
    blocks: list[Block] = [
        table("Plans", rows, columns, note=note),
        shares("Where a mean device of the fastest plan spends the step", parts, fastest),
        table("Plans that were left out", reasons, {"plans": "plans", "reason": "reason"}),
    ]
    return Story(fill("Plans for {model} on {gpus} GPUs", best), summary, blocks)
