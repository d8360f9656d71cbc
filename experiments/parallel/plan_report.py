"""A step of a plan as text, and the fastest plans of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.output import align, counted
from experiments.parallel.plan_run import MEANINGS, PlanRun
from experiments.parallel.plan_search import SearchResult
from experiments.parallel.step_calibration import error_cells
from experiments.profiles.interval_levels import EXPECTED, INTERVAL
from experiments.templates import Lines, fill, lines_of, table_of
from experiments.text_lines import bytes_cell, share_cells
from topologies.units import format_seconds

Record = Mapping[str, Any]
SHOWN = 16
"""Devices of a pipeline that a report lists, at most."""
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
FIGURES = {
    "step": ("{step_s}", "{batch} sequences, {tokens_per_s} tokens/s"),
    "without conditions": (
        "{plain_step_s}",
        "{cost:+.1%} with them, {relative_speed:.1%} of the speed",
    ),
    "expected": EXPECTED,
    "model FLOP/s": ("{tflops:.1f} TFLOP/s", "a GPU, {mfu:.1%} of its peak (MFU)"),
    "micro-batches": ("{micro_batches}", "of each pipeline"),
    "model's error": ("{error}", "{measured}"),
    "communicating": ("{communicating_s}", "{hidden_s} hidden, {exposed_s} exposed, a mean device"),
    "all transfers": ("{transfers_s}", "{beyond:+z.2%} {why}"),
    "an epoch": ("{epoch_s}", "{epoch_steps} steps and the time between epochs"),
    "training": ("{training_s}", "{epochs} epochs"),
}
"""The figures of a step."""
SPENT = {"  part": "  {part}", "time": "time_s", "share": "{share:.1%}", "what it is": "about"}
"""The columns of a table of what a mean device does."""
WAITS = {
    "  device": "  {device}",
    "who waits": "ranks",
    "for device": "peer_device",
    "for whom": "peer_ranks",
    "stream": "stream",
    "longer by": "longer_s",
}
SHARED = {
    "  stream": "  {stream}",
    "beside": "beside",
    "together": "together_s",
    "lost": "lost_s",
    "most on": "medium",
}
PLANS = {
    "step": "step_s",
    **INTERVAL,
    "slower": "{change:+.1%}",
    "tokens/s": "tokens_per_s",
    "MFU": "{mfu:.1%}",
    "memory": "{memory_bytes:B}",
    "free": "{left_bytes:B}",
}
"""The columns of a table of plans."""


def text(run: PlanRun) -> str:
    plan, total = run.plan, run.row["step_s"]
    path = [share_cells(name, seconds, total) for name, seconds in run.path.items()]
    waits = table_of(WAITS, run.waits[:8]) if run.has_conditions else []
    zero = run.zero if run.zero[0]["redundant"] else []
    tables = {
        f"memory of a GPU of device {run.memory.fullest} when it holds most": _memory(run),
        "where a mean device spends the step": table_of(SPENT, spent(run.row, run.devices))[1:],
        "who waits for whom in a step, and how much longer than without conditions": waits,
        "where the time goes (the critical path)": path,
        "devices of the pipeline": _devices(run.devices) if plan.pp > 1 else [],
        "what streams share on a mean device, and lose by it": table_of(SHARED, run.shared),
        f"tokens of experts ({plan.router}, seed {plan.seed})": _tokens(run),
        "proven on integers": [[f"  {kind}", words] for kind, words in run.proven.items()],
        "stages of ZeRO: what it holds between steps": table_of(
            {
                "  zero": "  {zero}",
                "held": "{held:B}",
                "redundant": "{redundant:B}",
                "sent in a step": "{sent:B}",
            },
            zero,
        ),
    }
    memory, *rest = (f"{title}\n{align(lines)}" for title, lines in tables.items() if lines)
    return "\n\n".join([_title(run), memory, align(figures(run.row)), *rest])


def _title(run: PlanRun) -> str:
    """The first line; of a plan that does not fit also by how much, and the advice."""
    counts = {**run.row, "gpus": counted(run.row["gpus"], "GPU")}
    name = fill("{model} on {gpus} ({device}), {plan}: ", counts)
    if not run.missing:
        return name + format_seconds(run.row["step_s"])
    parts = run.memory.parts(run.memory.fullest)
    # These depend on the framework: what is held between steps follows from the plan.
    framework = "activations", "logits", "fragmentation"
    unsure = max((part for part in framework if part in parts), key=parts.__getitem__)
    return (
        f"{name}does not fit in memory\n"
        f"  a GPU needs {bytes_cell(run.memory.peak)} and has {bytes_cell(run.capacity)}, "
        f"{bytes_cell(run.missing)} too few\n"
        f"  least sure: {bytes_cell(parts[unsure])} of {NAMES.get(unsure, unsure)}\n"
        f"  to make it fit: {run.advice}"
    )


def _memory(run: PlanRun) -> Lines:
    memory = run.memory
    lines = [
        [f"  {NAMES.get(name, name)}", bytes_cell(nbytes), f"{nbytes / memory.peak:.1%}"]
        for name, nbytes in memory.parts(memory.fullest).items()
    ]
    of_device = f"of {bytes_cell(run.capacity)} ({run.training.times.device})"
    return [*lines, ["  all", bytes_cell(memory.peak), of_device]]


def figures(row: Record) -> Lines:
    """The figures of a step from its row."""
    error, _ = error_cells(row["model_error"], row["measured"])
    beyond = round((row["transfers_s"] or 0.0) / (row["step_s"] or 1.0) - 1, 4)
    # The step gives each collective and transfer the time of the last group of its kind.
    sooner = "as ranks go on before the last group ends"
    why = sooner if beyond < 0 else "with streams that share links"
    cost = row["step_s"] / (row.get("plain_step_s") or row["step_s"] or 1.0) - 1
    words = {"error": error, "beyond": beyond, "why": why, "cost": cost}
    return lines_of(
        FIGURES, {**row, **words, "communicating_s": row["hidden_s"] + row["exposed_s"]}
    )


def spent(row: Record, devices: Sequence[Record]) -> list[Record]:
    """The rows of a table of what a mean device does in a step."""
    seconds = {name: (row[f"{name}_s"], "") for name in ("computing", "optimizer")}
    for name, meaning in MEANINGS.items():
        exposed, hidden = (
            sum(device[f"{kind}_{name}_s"] for device in devices) / len(devices)
            for kind in ("exposed", "hidden")
        )
        if exposed + hidden > 0:
            seconds[f"exposed {name}"] = exposed, f"{meaning}; hidden {format_seconds(hidden)}"
    if row["launching_s"] > 0:
        seconds["launching"] = row["launching_s"], "waiting for the CPU"
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


def _devices(records: Sequence[Record]) -> Lines:
    exposed = [sum(record[f"exposed_{name}_s"] for name in MEANINGS) for record in records]
    rows = [{**record, "exposed_s": each} for record, each in zip(records, exposed, strict=True)]
    lines = table_of(
        {
            "  device": "  {device}",
            "stages": "stages",
            "computing": "computing_s",
            "exposed": "exposed_s",
            "restarting": "restarting_s",
            "input": "input_s",
            "idle": "idle_s",
            "between": "idle_between_s",
        },
        rows,
    )
    if (more := len(records) - SHOWN) > 0:
        lines[1 + SHOWN // 2 : -SHOWN // 2] = []
        lines.append([f"  {more} more in between", *[""] * (len(lines[0]) - 1)])
    return lines


def _tokens(run: PlanRun) -> Lines:
    router, plan = run.router, run.plan
    even = f"{plan.capacity:g} times the tokens of even routing"
    words = {
        "slots": even if plan.capacity else "all tokens",
        "why_even": (plan.ep > 1 and router.get("even")) or None,
    }
    return lines_of(
        {
            "busiest rank": ("{busiest:.2f}", "times the tokens of a mean rank"),
            "dropped": ("{dropped:.1%}", "experts take {slots}"),
            "dispatch": (
                "{dispatch_s:s}",
                "of a layer and a micro-batch; exposed {exposed_dispatch_s:s}",
            ),
            "combine": (
                "{combine_s:s}",
                "of a layer and a micro-batch; exposed {exposed_combine_s:s}",
            ),
            "all-to-alls": ("even", "{why_even}"),
        },
        {**router, **words},
    )


def search_text(result: SearchResult) -> str:
    """The fastest plans with why each loses, and what is left out."""
    space, training, first = result.space, result.space.training, result.first
    number = len(result.plans)
    title = (
        f"{training.name} on {counted(space.gpus, 'GPU')} ({training.times.device}), "
        f"{space.batch} sequences of {training.seq} tokens: "
        f"{counted(number + result.left_out.total(), 'plan')}, {number} fit and are bounded, "
        f"{len(result.simulated)} simulated"
    )
    reasons = [
        [f"{number:2d}", result.rows[place]["plan"], result.rows[place]["loses_to"]]
        for number, place in enumerate(first, 1)
    ]
    errors = dict.fromkeys(result.error(place) for place in first)
    tables = {
        "the plans, and why they are slower than the first": reasons,
        "model's error on measured steps": [["", *error_cells(*error)] for error in errors],
        "where a mean device spends the step": _parts(result),
        "left out": [[str(count), why] for why, count in result.left_out.most_common() if count],
    }
    blocks = [f"{name}\n{align(table)}" for name, table in tables.items() if table]
    return "\n\n".join([title, align(_table(result)), *blocks])


def _table(result: SearchResult) -> Lines:
    best, rows = result.rows[0], list[dict[str, Any]]()
    for number, (place, others) in enumerate(result.alike.items(), 1):
        row = result.rows[place]
        change = None if row is best else row["step_s"] / best["step_s"] - 1
        alike = f"{others} more" if others else ""
        rows.append({**row, "number": number, "change": change, "alike": alike})
    return table_of({"": "number", **PLANS, "as fast": "alike"}, rows)


def _parts(result: SearchResult) -> Lines:
    """A row for each part, a column for each of the fastest plans."""
    runs = [result.simulated[place].parts for place in result.first]
    parts = {name: [run[name] for run in runs] for name in runs[0]}
    return [
        ["", *(str(number) for number in range(1, len(runs) + 1))],
        *([f"  {name}", *map(format_seconds, row)] for name, row in parts.items() if max(row) > 0),
    ]
