"""The reports of `simctl train`: a run in full, several runs, and what a network learns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from experiments.output import counted
from experiments.pages.page import Block, Facts, Lines
from experiments.pages.reports.collective_story import CAUSES, PATH
from experiments.pages.reports.report_tables import (
    Record,
    facts_of,
    listed,
    number,
    shares,
    span,
    table,
)
from experiments.pages.reports.result import Result, Story
from experiments.pages.reports.result_scenes import scenes
from experiments.templates import fill, share, times
from experiments.training.training_report import CHANGED, change_rows
from experiments.training.training_report import figures as training_figures
from experiments.training.training_table import comparison_text, scaling, series, shown_runs
from topologies.units import format_bytes, format_seconds

BUBBLES = {
    "transfer_s": "their own messages, which are on links",
    "contention_s": "messages of others in front of their own",
    "slower_peer_s": "a slower peer",
    "drain_s": "the end of the run: they have nothing left to do",
    "input_s": "input",
}
"""What a worker waits for, in words."""
WAITS = (
    "A bubble is time in which a device computes nothing. Exposed communication makes the step "
    "longer, hidden communication runs beside computing.\n"
    "A device waits for its own messages on links (transfer), for messages of other ranks in front "
    "of them (contention), for a slower peer, or for the end of the run (drain)."
)
RUNS = f"""{WAITS} Waiting is a share of the step.
efficiency: samples/s as a share of as many single workers.
2β, α/2, 2x compute: a step with twice the bandwidth, half the latency, twice the compute."""
RANK_COLUMNS = {
    "rank": "rank",
    "computing": "computing_s",
    "hidden": "hidden_s",
    "exposed": "exposed_s",
    **{f"waits: {field[:-2].replace('_', ' ')}": field for field in BUBBLES},
}
LEARNT = {
    "strategy": "strategy",
    "workers": "ranks",
    "disturbance": "disturbance",
    "updates": "updates",
    "time": "time_s",
    "loss": "loss",
    "accuracy": "accuracy",
    "to the target": "target_s",
    "staleness": "staleness",
    "idle": "idle_share",
    "cause": "cause",
}


def one(result: Result) -> Story:
    """A run: the time of a step, bubbles and their causes."""
    report, row = result.report, result.report["summary"]
    step, changes = number(row, "step_s"), report["what_if_s"]
    where = result.origin.get("parameters", {}).get("topology")
    case = fill("{model} with {strategy} on {ranks} workers", row)
    rate = "{samples_per_s:,.0f} samples/s, {efficiency:share} of {ranks} times one worker alone."
    path = {
        f"computing: {name}": value for name, value in report["critical_path_by_phase_s"].items()
    }
    path |= {
        CAUSES.get(part, part): value
        for part, value in report["critical_path_s"].items()
        if part != "compute"
    }
    ranks = [
        {**each, **{f"{name}_s": value for name, value in each["bubble_s"].items()}}
        for each in report["ranks"]
    ]
    figures = facts_of(training_figures(row, report["staleness"], report["simulated"], {}))
    helping = change_rows(changes, step)
    blocks: list[Block] = [
        Facts("The answer in figures", figures),
        table("What would help", helping, CHANGED),
        *scenes(result),
        shares("Where the time goes", path, step * max(1, len(report["steps_s"])), PATH),
        table("What each rank does", ranks, RANK_COLUMNS, note=WAITS, zeros=False),
    ]
    if report["chosen"]:
        blocks.append(Lines("What the strategy chose for this machine", report["chosen"]))
    left = [f"Times of layers: {report['model_source']}."]
    if any(each["simulated"] is None for each in changes.values()):
        left.append("What would help is known to first order alone: --force simulates it.")
    if report["memory"] is None:
        left.append("The memory was not traced: the run has too many operations.")
    summary = [
        f"How long does a training step of {case} take on {where}, and what stalls it?",
        fill(f"A step takes {{step_s:s}}: {rate}", row),
        _stall(row, step),
        _advice(helping),
    ]
    return Story(f"{case}: {format_seconds(step)} a step", summary, blocks, left)


def _stall(row: Record, step: float) -> str:
    lost = {field: row[field] for field in BUBBLES if isinstance(row.get(field), int | float)}
    total = sum(lost.values())
    if total <= 1e-6 * step:
        return "Devices never wait: all communication is hidden behind computing."
    cause = max(lost, key=lost.__getitem__)
    return (
        f"Devices wait for {share(total / (step or 1.0))} of the step, mostly for {BUBBLES[cause]} "
        f"({share(lost[cause] / (step or 1.0))})."
    )


def _advice(changes: Sequence[Record]) -> str:
    ordered = sorted(changes, key=lambda change: -(change["saved"] or 0.0))
    if not ordered or (ordered[0]["saved"] or 0.0) <= 0:
        return "No change of the machine that simctl simulated makes the step shorter."
    words = listed(
        f"{each['name']} ({share(max(0.0, each['saved'] or 0.0))} less)" for each in ordered
    )
    return f"What would shorten a step: {words}."


def several(result: Result) -> Story:
    """Several runs: numbers of workers, or values of an option."""
    rows: Sequence[Record] = result.report
    swept = _swept(result)
    best = max(rows, key=lambda row: number(row, "samples_per_s"))
    several_counts = len({row.get("ranks") for row in rows}) > 1
    workers = span((number(row, "ranks") for row in rows), lambda value: f"{value:.0f}", "worker")
    value = f"{swept} {_option(best, swept)} and " if swept else ""
    values = f", for several values of {swept}" if swept not in ("", "strategy") else ""
    strategies = listed(str(row["strategy"]) for row in rows)
    alike = [row for row in rows if row.get(swept) == best.get(swept)] if swept else rows
    summary = [
        f"How does {rows[0]['model']} do with {strategies} on {workers}{values}?",
        fill("The most samples a second are {samples_per_s:,.0f}, with ", best)
        + value
        + fill("{ranks} workers, at an efficiency of {efficiency:share}.", best),
        _values(rows, swept) if swept else "",
        f"Adding workers {scaling(alike)}." if several_counts else "",
    ]
    names = {str(row.get(swept)): _option(row, swept) for row in rows}
    shown, columns = shown_runs(rows, swept, names)
    blocks: list[Block] = [table("All runs", shown, columns, note=RUNS, zeros=False)]
    if words := _strategies(rows) if swept == "strategy" else []:
        blocks.insert(0, Lines("Strategies compared", words))
    title = f"{rows[0]['model']}: {counted(len(rows), 'run')}, {workers}"
    return Story(title, summary, blocks)


def _strategies(rows: Sequence[Record]) -> list[str]:
    """Which of several strategies is the fastest, and where more workers stop paying."""
    curves = series(rows, "strategy")
    numbers = {number(row, "ranks") for row in rows}
    if len(curves) < 2 or any(len(curve) != len(numbers) for curve in curves.values()):
        return []
    lines = comparison_text(rows, "strategy", {name: name for name in curves}).split("\n")
    if len(numbers) > 1:
        lines += [f"{name} {scaling(curve)}" for name, curve in curves.items()]
    return [f"{line}." for line in lines]


def _swept(result: Result) -> str:
    """The option whose values differ; "strategy" if there are several."""
    swept = str(result.origin.get("parameters", {}).get("sweep") or "").partition("=")[0]
    if not swept and len({row.get("strategy") for row in result.report}) > 1:
        return "strategy"
    return swept if all(row.get(swept) is not None for row in result.report) else ""


def _option(row: Record, swept: str) -> str:
    """The value of the swept option; bytes in their unit."""
    text = str(row.get(swept))
    is_bytes = re.fullmatch(r"\d{1,18}(\.0)?B", text, re.ASCII)
    return format_bytes(float(text.removesuffix("B"))) if is_bytes else text


def _values(rows: Sequence[Record], swept: str) -> str:
    """How far the values of an option are from each other, on the most workers."""
    most = max(number(row, "ranks") for row in rows)
    by_rate = sorted(
        (row for row in rows if number(row, "ranks") == most),
        key=lambda row: number(row, "samples_per_s"),
    )
    slow, fast = by_rate[0], by_rate[-1]
    factor = number(fast, "samples_per_s") / (number(slow, "samples_per_s") or 1.0)
    if factor < 1.001:
        return f"On {most:.0f} workers all values of {swept} are as fast."
    return (
        f"On {most:.0f} workers {swept} {_option(fast, swept)} is the fastest, {times(factor)} "
        f"times as fast as the slowest, {_option(slow, swept)}."
    )


def learning(result: Result) -> Story:
    """What a network learns along runs."""
    rows: Sequence[Record] = result.report
    reached = [row for row in rows if row.get("target_s") is not None]
    answer = fill("No run names {target:share} of the digits that it has not seen.", rows[0])
    if reached:
        answer = fill(
            "{strategy} is the first to name {target:share} of the digits it has not seen: after "
            "{target_s:s}.",
            min(reached, key=lambda row: number(row, "target_s")),
        )
    summary = [
        f"Which strategy learns fastest, in simulated seconds? This page compares "
        f"{counted(len(rows), 'run')} of {rows[0]['network']}.",
        answer,
        fill(
            "Workers idle most with {strategy}: {idle:share} of the time.",
            max(rows, key=lambda row: number(row, "idle")),
        ),
    ]
    shown = [
        {**row, "time_s": row.get("seconds"), "accuracy": share(number(row, "accuracy"))}
        | {"idle_share": share(number(row, "idle"))}
        for row in rows
    ]
    note = "staleness: mean number of updates between reading weights and updating them."
    table_of_runs = table("All runs", shown, LEARNT, note=note)
    return Story("Learning over simulated time", summary, [table_of_runs])
