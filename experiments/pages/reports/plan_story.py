"""The answers of `simctl plan`: a step of a plan, and a search of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

from experiments.answer_blocks import (
    Block,
    Facts,
    Record,
    Story,
    Table,
    shares,
    table,
    unless_empty,
)
from experiments.output import counted
from experiments.pages.reports.collective_story import PATH
from experiments.pages.reports.result import Result
from experiments.parallel.measured_steps import error_cells
from experiments.parallel.plan_run import MEANINGS
from experiments.parallel.plan_search import FASTEST
from experiments.parallel.plan_text import parse_plan
from experiments.profiles.interval_levels import INTERVAL, WHOLE
from experiments.templates import Lines, fill, headed, lines_of, share, times
from experiments.text_lines import bytes_cell
from topologies.errors import InputError
from topologies.units import format_seconds

LOST = {
    "exposed_s": "communication that devices wait for",
    "idle_s": "the bubble of the pipeline",
    "launching_s": "waiting for the CPU",
    "optimizer_s": "the optimizer",
    "restarting_s": "restarts after a failure",
    "input_s": "waiting for samples",
}
"""What a device of a plan loses time to, in words."""
MET = (
    "Streams that met on full links, for how long on a mean device, and what the stream lost. The "
    "link is that on which it lost most."
)
STREAMS = {f"exposed: {meaning}": f"exposed_{name}_s" for name, meaning in MEANINGS.items()}
DEVICES = {
    **headed("device", "stages", "computing_s", "optimizer_s", "exposed_s"),
    **STREAMS,
    "waiting for the CPU": "launching_s",
    **headed("restarting_s", "input_s", "idle_s"),
    "idle in between": "idle_between_s",
}
MEMORY = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "context")
NAMES = {
    "logits": "logits and loss",
    "again": "the backward of a layer",
    "gathered": "gathered units",
    "unsharded": "gradients before they are scattered",
    "reducing": "buffers of a reduction",
    "buffers": "buffers of communicators",
    "context": "context and libraries",
    "fragmentation": "margin of the allocator",
}
"""The parts of the memory, where a report gives them another name."""
FIGURES = {
    "step": ("{step_s}", "{batch} sequences, {tokens_per_s} tokens/s"),
    "without conditions": (
        "{plain_step_s}",
        "{cost:+.1%} with them, {relative_speed:.1%} of the speed",
    ),
    "expected": WHOLE,
    "nearest run": ("", "{nearest_run}"),
    "model FLOP/s": ("{tflops:.1f} TFLOP/s", "a GPU, {mfu:.1%} of its peak (MFU)"),
    "peak of MFU": ("{peak}", "the peak of all FLOPs of the model, also of those in bf16"),
    "micro-batches": ("{micro_batches}", "of each pipeline"),
    "defaults of": ("", "{defaults}"),
    "allocated": (
        "{allocated_bytes:B}",
        "for tensors of the fullest GPU; the allocator needs {margin_bytes:B} beyond, and reserves "
        "{reserved_bytes:B} where that is free",
    ),
    "model's error": ("{error}", "{measured}"),
    "communicating": ("{communicating_s}", "{hidden_s} hidden, {exposed_s} exposed, a mean device"),
    "all transfers": ("{transfers_s}", "{beyond:+z.2%} {why}"),
    "an epoch": ("{epoch_s}", "{epoch_steps} steps and the time between epochs"),
    "training": ("{training_s}", "{epochs} epochs"),
    "all tokens": ("{days:,.2f} days", "{gpu_hours:,.0f} GPU hours, without pauses and failures"),
}
"""The figures of a step."""
SPENT = {"part": "part", "time": "time_s", "share": "{share:.1%}", "what it is": "about"}
"""The columns of a table of what a mean device does."""
WAITS = {
    "device": "device",
    "who waits": "ranks",
    "for device": "peer_device",
    "for whom": "peer_ranks",
    "stream": "stream",
    "longer by": "longer_s",
}
TOKENS = {
    "busiest rank": ("{busiest:.2f}", "times the tokens of a mean rank"),
    "dropped": ("{dropped:.1%}", "experts take {slots}"),
    "dispatch": ("{dispatch_s:s}", "of a layer and a micro-batch; exposed {exposed_dispatch_s:s}"),
    "combine": ("{combine_s:s}", "of a layer and a micro-batch; exposed {exposed_combine_s:s}"),
    "all-to-alls": ("even", "{why_even}"),
}
"""What a router does."""
SHARED = {**headed("stream", "beside", "together_s", "lost_s"), "most on": "medium"}
ZERO = {
    "zero": "zero",
    "held": "{held:B}",
    "redundant": "{redundant:B}",
    "sent in a step": "{sent:B}",
}
PLANS = {
    "step": "step_s",
    **INTERVAL,
    "slower": "{change:+.1%}",
    "tokens/s": "tokens_per_s",
    "MFU": "{mfu:.1%}",
    "days": "{days:,.2f}",
    "GPU hours": "{gpu_hours:,.0f}",
    "memory": "{memory_bytes:B}",
    "free": "{left_bytes:B}",
}
"""The columns of a table of plans."""


def one(result: Result) -> Story:
    """A step of a plan: its time, where it goes, and memory."""
    report, row, memory = result.report, result.report["summary"], result.report["memory"]
    step, devices = row["step_s"], report["devices"]
    lost = {name: row.get(name) or 0.0 for name in LOST}
    worst = max(LOST, key=lost.__getitem__)
    summary = [
        fill("How long does a step of {model} take on {gpus} GPUs ({device}) with {plan}?", row),
        fill(
            "It takes {step_s:s}: {tokens_per_s:,.0f} tokens/s, {tflops:.0f} TFLOP/s a GPU, "
            "{mfu:share} of its peak.",
            row,
        ),
        f"A mean device computes for {share(row['computing_s'] / (step or 1.0))} of the step; it "
        f"loses most to {LOST[worst]}: {share(lost[worst] / (step or 1.0))}. {_fits(row)}",
        _epochs(row),
        f"To make it fit: {memory['advice']}." if memory["advice"] else "",
    ]
    waits, zero = report.get("waits") or [], memory["zero"]
    zero = zero if zero and zero[0]["redundant"] else []
    exposed = [
        {**each, "exposed_s": sum(each[field] for field in STREAMS.values())} for each in devices
    ] * (len(devices) > 1)
    late = "In a step, beyond a step without conditions."
    proven = [[kind, words] for kind, words in report["proven"].items()]
    blocks: list[Block] = [
        Facts("The answer in figures", _figures(row)),
        _memory(row, memory),
        table("Where a mean device spends the step", _spent(row, devices), SPENT),
        shares(PATH, report["critical_path_s"], step),
        *unless_empty("Who waits for whom", waits, WAITS, note=late, first=8),
        *unless_empty(
            "Devices of the pipeline", exposed, DEVICES, zeros=False, rare=[*STREAMS], first=16
        ),
        *unless_empty("Streams that share links", report.get("shared") or [], SHARED, note=MET),
        *([Facts("Tokens of experts", _tokens(row, report["router"]))] if report["router"] else []),
        *([Facts("Proven on integers", proven)] if proven else []),
        *unless_empty("Stages of ZeRO: what it holds between steps", zero, ZERO),
        _devices_memory(memory["devices"]),
    ]
    left = [
        "Collectives of a plan share links at mean rates: --detail transfers sends each message."
    ]
    title = fill("{model} on {gpus} GPUs ({device}), {plan}: ", row) + _time(row, memory)
    return Story(title, summary, blocks, left if row.get("transfers_s") is None else [])


def _time(row: Record, memory: Mapping[str, Any]) -> str:
    """The step; of a plan that does not fit by how much it does not, and the advice."""
    if not memory["missing"]:
        return format_seconds(row["step_s"])
    parts = memory["devices"][memory["fullest_device"]]
    # These depend on the framework: what is held between steps follows from the plan.
    framework = "activations", "logits", "fragmentation"
    unsure = max((part for part in framework if part in parts), key=parts.__getitem__)
    needs, has, lacks = map(
        bytes_cell, (row["memory_bytes"], memory["capacity"], memory["missing"])
    )
    return (
        f"does not fit in memory\n"
        f"  a GPU needs {needs} and has {has}, {lacks} too few\n"
        f"  least sure: {bytes_cell(parts[unsure])} of {NAMES.get(unsure, unsure)}\n"
        f"  to make it fit: {memory['advice']}"
    )


def _memory(row: Record, memory: Mapping[str, Any]) -> Block:
    device, peak = memory["fullest_device"], row["memory_bytes"]
    parts = {**memory["devices"][device], "all": peak}
    rows = [
        {"part": NAMES.get(name, name), "held_bytes": nbytes, "share": nbytes / (peak or 1.0)}
        for name, nbytes in parts.items()
    ]
    columns = {"part": "part", "held": "held_bytes", "share": "{share:.1%}"}
    note = f"of {bytes_cell(memory['capacity'])} ({row['device']})"
    return table(f"Memory of a GPU of device {device} when it holds most", rows, columns, note=note)


def _devices_memory(devices: Sequence[Record]) -> Block:
    parts = dict.fromkeys([*MEMORY, *(name for each in devices for name in each)])
    memory_lines = [
        {"device": place, **{f"{name}_bytes": value for name, value in each.items()}}
        for place, each in enumerate(devices)
    ]
    columns = {"device": "device", **{NAMES.get(name, name): f"{name}_bytes" for name in parts}}
    note = "What a GPU of each device holds at its fullest moment."
    return table("Memory", memory_lines, columns, note=note, page_only=True)


def _fits(row: Record) -> str:
    missing = row.get("missing_bytes")
    if missing is None or row.get("memory_bytes") is None:
        return ""
    lacks = "would hold {memory_bytes:B}: {missing_bytes:B} more than it has."
    fits = "holds {memory_bytes:B}, which fits."
    if "margin_bytes" in row:
        fits = "holds {memory_bytes:B} with a margin of {margin_bytes:B}, which fits."
    return fill(f"The fullest GPU {lacks if missing else fits}", row)


def _epochs(row: Record) -> str:
    if "epoch_s" not in row:
        return ""
    steps, epochs = counted(row["epoch_steps"], "step"), counted(row["epochs"], "epoch")
    training = f"the training of {epochs} {{training_s:s}}"
    return fill(f"An epoch of {steps} takes {{epoch_s:s}}, {training}.", row)


def _figures(row: Record) -> Lines:
    error, _ = error_cells(row["model_error"], row["measured"])
    beyond = round((row["transfers_s"] or 0.0) / (row["step_s"] or 1.0) - 1, 4)
    # The step gives each collective and transfer the time of the last group of its kind, or a mean.
    sooner = "as ranks go on before the last group ends"
    why = sooner if beyond < 0 else "with streams that share links"
    cost = row["step_s"] / (row.get("plain_step_s") or row["step_s"] or 1.0) - 1
    words = {"error": error, "beyond": beyond, "why": why, "cost": cost}
    return lines_of(
        FIGURES, {**row, **words, "communicating_s": row["hidden_s"] + row["exposed_s"]}
    )


def _spent(row: Record, devices: Sequence[Record]) -> list[Record]:
    seconds = {name: (row[f"{name}_s"], "") for name in ("computing", "optimizer")}
    for name, meaning in MEANINGS.items():
        exposed, hidden = (
            sum(device[f"{kind}_{name}_s"] for device in devices) / len(devices)
            for kind in ("exposed", "hidden")
        )
        if exposed + hidden > 0:
            seconds[f"exposed {name}"] = exposed, f"{meaning}; hidden {format_seconds(hidden)}"
    if launches := row.get("launches_s", row["launching_s"]):
        waits = f"waiting for the CPU, which launches for {format_seconds(launches)}"
        seconds["launching"] = row["launching_s"], waits
    for name, about in (("restarting_s", "after a failure"), ("input_s", "waiting for samples")):
        if row.get(name):
            seconds[name.removesuffix("_s")] = row[name], about
    between = "the bubble; between its first and last action {idle_between_s}"
    seconds["idle"] = row["idle_s"], fill(between, row)
    step = row["step_s"] or 1.0
    return [
        {"part": name, "time_s": time, "share": time / step, "about": about}
        for name, (time, about) in seconds.items()
    ]


def _tokens(row: Record, router: Mapping[str, Any]) -> Lines:
    plan = parse_plan(row["plan"])
    even = f"{plan.capacity:g} times the tokens of even routing"
    words = {
        "slots": even if plan.capacity else "all tokens",
        "why_even": (plan.ep > 1 and router.get("even")) or None,
    }
    return [["router", plan.router, f"seed {plan.seed}"], *lines_of(TOKENS, {**router, **words})]


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
    fastest = best["step_s"] or 1.0
    for row in simulated[1:]:
        row["change"] = row["step_s"] / fastest - 1
    slower = next((row for row in simulated[1:] if row["change"] > 0.001), None)
    others = "All others that were simulated are as fast."
    defaults = result.report.get("defaults")
    if slower:
        factor = times(slower["change"] + 1)
        others = f"The next one that is slower, {slower['plan']}, takes {factor} times as long."
    left_out = result.report["left_out"]
    number = counted(len(rows) + sum(left_out.values()), "plan")
    title = fill("Plans for {model} on {gpus} GPUs: ", best) + (
        f"{number}, {len(rows)} fit and are bounded, {len(simulated)} simulated"
    )
    summary = [
        fill("Which plan trains {model} fastest on {gpus} GPUs? ", best)
        + f"{counted(len(rows), 'plan')} fit into memory; the {len(simulated)} most promising were "
        f"simulated.",
        fill("The fastest is {plan}: {step_s:s} a step, {tokens_per_s:,.0f} tokens/s.", best),
        others,
        *([defaults] if defaults else []),
    ]
    first = _distinct(simulated)
    columns = {"plan": "plan", **PLANS, "why slower": "loses_to", "bound": "bound_s"}
    note = "bound: no step of the plan is shorter. why slower: what takes longer than in the first."
    reasons = [{"reason": reason, "plans": count} for reason, count in left_out.items() if count]
    why = {"plan": "number", "its degrees": "plan", "what takes longer": "loses_to"}
    blocks: list[Block] = [
        table("The fastest plans", first, {"plan": "number", **PLANS, "as fast": "alike"}),
        table("The plans, and why they are slower than the first", first, why),
        *(
            [Facts("The model's error on measured steps", result.words["errors"])]
            if "errors" in result.words
            else []
        ),
        *_parts(first, result.report["parts_s"]),
        *unless_empty("Left out", reasons, {"plans": "plans", "why": "reason"}),
        table("Plans", rows, columns, note=note, page_only=True),
    ]
    return Story(title, summary, blocks)


def _distinct(simulated: Sequence[Record]) -> list[dict[str, Any]]:
    """The plans with the shortest steps; others that take as long are counted."""
    first = list[dict[str, Any]]()
    for row in simulated:
        if first and isclose(row["step_s"], first[-1]["step_s"], rel_tol=2e-9):
            first[-1]["others"] += 1
        else:
            first.append({**row, "number": len(first) + 1, "others": 0})
    for row in first:
        row["alike"] = f"{row['others']} more" if row["others"] else ""
    return first[:FASTEST]


def _parts(first: Sequence[Record], parts_s: Mapping[str, Mapping[str, float]]) -> list[Table]:
    """A row for each part of a mean device's step, a column for each plan."""
    runs = {f"{row['number']}_s": parts_s.get(row["plan"], {}) for row in first}
    names = dict.fromkeys(name for run in runs.values() for name in run)
    rows = [
        {"part": name, **{number: run.get(name, 0.0) for number, run in runs.items()}}
        for name in names
        if any(run.get(name) for run in runs.values())
    ]
    columns = {"part": "part"} | {number.removesuffix("_s"): number for number in runs}
    return unless_empty("Where a mean device spends the step", rows, columns)
