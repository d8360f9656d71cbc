"""The answers of `simctl train`: a run in full, several runs, and what a network learns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from experiments.answer_blocks import (
    Block,
    Facts,
    Record,
    Remarks,
    Story,
    listed,
    shares,
    span,
    table,
)
from experiments.output import counted
from experiments.pages.reports.collective_story import CAUSES, PATH, contention
from experiments.pages.reports.result import Result
from experiments.profiles.interval_levels import EXPECTED
from experiments.templates import Lines, fill, headed, lines_of, share, times
from experiments.text_lines import bytes_cell
from experiments.training.training_table import (
    RARE,
    comparison_lines,
    scaling,
    scaling_lines,
    shown_runs,
)
from topologies.units import format_bytes, format_seconds

BUBBLES = {
    "transfer_s": "their own messages, which are on links",
    "contention_s": "messages of others in front of their own",
    "slower_peer_s": "a slower peer",
    "drain_s": "the end of the run: they have nothing left to do",
    "input_s": "input",
}
"""What a worker waits for, in words."""
TERMS = ("bubble", "exposed", "hidden", "contention", "slower peer", "drain")
"""The words of tables of bubbles."""
WAITING = ("transfer", "contention", "slower peer", "drain", "idle", "input")
"""The columns of what workers wait for."""
FIGURES = {
    "peak memory": ("{peak_B:B}", "{limit}the fullest rank{traced}"),
    "step": ("{step_s}", "{spread}"),
    "expected": EXPECTED,
    "unsure": ("", "{unsure}"),
    "waiting for input": ("{input_s}", "{input_share:.1%} of the step{reads}"),
    "epoch": ("{epoch_s}", "{epoch_steps} steps{pause}"),
    "training": ("{training_s}", "{number}"),
    "samples/s": ("{samples_per_s}", "{efficiency:.1%} of {ranks} times one worker alone"),
    "computing": ("{computing_s}", "{computing_share:.1%} of the step"),
    "restarting": ("{restarting_s}", "of the mean step"),
    "communicating": ("{communicating_s}", "{hidden_s} hidden, {exposed_s} exposed"),
    "sent": ("{volume_B:B}", "all ranks, a step"),
    "redundant": ("{redundant}", "the peak amount of duplicate data over all ranks"),
    "staleness": ("{staleness:.2f}", "{stale}"),
    "simulated": ("{who}", "{parts}"),
    "verdict": ("{verdict}", "{proof}"),
}
"""The figures of a run."""
CHANGED = {
    "change": "name",
    "a step": "{simulated:s}",
    "saves": "{saved:.1%}",
    "to first order": "{first_order:s}",
}
"""The columns of a table of changes."""
LEARNT = {
    "strategy": "strategy",
    "workers": "disturbance",
    "updates": "updates",
    "time": "time_s",
    "loss": "{loss:.4f}",
    "accuracy": "{accuracy:.1%}",
    "to {target:.4g}": "reached",
    "staleness": "{staleness:.2f}",
    "most": "staleness_max",
    "idle": "{idle:.1%}",
    "cause": "cause",
}


def one(result: Result) -> Story:
    """A run: the time of a step, bubbles and their causes."""
    report, row = result.report, result.report["summary"]
    step, steps = row["step_s"], max(1, len(report["steps_s"]))
    where, model = (
        result.stated("topology"),
        fill("{model} with {strategy} on {ranks} workers", row),
    )
    rate = "{samples_per_s:,.0f} samples/s, {efficiency:share} of {ranks} times one worker alone."
    changes = report["what_if_s"] | result.words.get("changes", {})
    helping = _changes(changes, step)
    blocks: list[Block] = []
    if report["chosen"]:
        blocks.append(Remarks("Chosen for this machine", report["chosen"], first=3))
    figures = _figures(row, report["staleness"], report["simulated"], result.words)
    columns = headed("rank", "computing_s", "hidden_s", "exposed_s")
    columns |= {f"waits: {name}": f"{name}_s" for name in _causes(report)}
    ranks = [
        {**each, **{f"{name}_s": value for name, value in each["bubble_s"].items()}}
        for each in report["ranks"]
    ]
    blocks = [
        Facts("The answer in figures", figures),
        *blocks,
        _bubbles(report, step, steps),
        shares(PATH, _path(row, report, steps), step),
        *contention(report["contention"], steps),
        table("What would help", helping, CHANGED),
        table("What each rank does", ranks, columns, TERMS, zeros=False, page_only=True),
    ]
    left = [f"Times of layers: {report['model_source']}."]
    if any(each["simulated"] is None for each in changes.values()):
        left.append("What would help is known to first order alone: --force simulates it.")
    if report["memory"] is None:
        left.append("The memory was not traced: the run has too many operations.")
    summary = [
        f"How long does a training step of {model} take on {where}, and what stalls it?",
        fill(f"A step takes {{step_s:s}}: {rate}", row),
        _stall(row, step),
        _advice(helping),
    ]
    case = fill("{model}, batch {batch} on {device}, {strategy}, ", row)
    case += f"{counted(row['ranks'], 'rank')} of {where}"
    fits = (
        f"{format_seconds(step)} a step"
        if row.get("fits") is not False
        else "does not fit in memory"
    )
    return Story(f"{case}: {fits}{result.words.get('lacks', '')}", summary, blocks, left)


def _figures(
    row: Record, staleness: ArrayLike, simulated: Mapping[str, int], words: Mapping[str, Any]
) -> Lines:
    """The figures of a run from its row, the staleness of its updates, and how much of it is
    simulated. `words` are remarks that only the run itself has."""
    step, (who, parts) = row["step_s"] or 1.0, _simulated(row["ranks"], **simulated)
    return lines_of(
        FIGURES,
        {
            **row,
            **dict.fromkeys(("limit", "traced", "spread", "reads", "pause"), ""),
            "input_share": row.get("input_s", 0.0) / step,
            "computing_share": row["computing_s"] / step,
            "restarting_s": row["restarting_s"] or None,
            "communicating_s": row["exposed_s"] + row["hidden_s"],
            "redundant": bytes_cell(row["redundant_B"]),
            "stale": _stale(np.asarray(staleness)) if np.size(staleness) else None,
            "number": counted(row["epochs"], "epoch") if "epochs" in row else None,
            "unsure": row.get("unsure") or None,
            "who": who,
            "parts": parts,
            **words,
        },
    )


def _simulated(number: int, ranks: int, collectives: int, alike: int) -> tuple[str, str]:
    """How much is simulated of a run on a `number` of ranks."""
    who = "all ranks" if number == ranks else f"{ranks} of {number} ranks"
    if not collectives:
        return who, "all transfers"
    parts = f"{collectives - alike} simulated, {alike} alike"
    return who, f"{collectives} collectives: {parts}"


def _stale(staleness: np.ndarray) -> str:
    low, middle, high = np.quantile(staleness, (0.1, 0.5, 0.9), method="nearest").astype(int)
    return f"updates, mean; 10% {low}, median {middle}, 90% {high}, most {staleness.max()}"


def _causes(report: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for each in report["ranks"] for name in each["bubble_s"]))


def _bubbles(report: Mapping[str, Any], step: float, steps: int) -> Block:
    """Mean and worst idle time of a step by cause, and their shares of it."""
    ranks = report["ranks"]
    worst = max(ranks, key=lambda each: sum(each["bubble_s"].values()))
    rows, whole = list[dict[str, Any]](), (step or 1.0) * steps
    for name in _causes(report):
        mean = sum(each["bubble_s"].get(name, 0.0) for each in ranks) / len(ranks)
        rows.append({"cause": name.replace("_", " "), "mean": mean})
        rows[-1]["most"] = worst["bubble_s"].get(name, 0.0)
    rows.append({"cause": "in all", **{key: sum(r[key] for r in rows) for key in ("mean", "most")}})
    for row in rows:
        for key in ("mean", "most"):
            row |= {f"{key}_s": row[key] / steps, f"{key}_share": row[key] / whole}
    columns = {"cause": "cause", "mean": "mean_s", "of the step": "{mean_share:.1%}"}
    columns |= {f"worst: rank {worst['rank']}": "most_s", "its share": "{most_share:.1%}"}
    terms = [term for term in TERMS if term not in ("exposed", "hidden")]
    return table("Bubbles: why devices wait, of a step", rows, columns, terms)


def _path(row: Record, report: Mapping[str, Any], steps: int) -> dict[str, float]:
    phases, parts = report["critical_path_by_phase_s"], report["critical_path_s"]
    path = {f"computing: {phase}": seconds for phase, seconds in phases.items()}
    path |= {CAUSES.get(part, part): parts[part] for part in parts if part != "compute"}
    seconds = {name: value / steps for name, value in path.items()}
    return seconds | {"waiting for input": row.get("input_s") or 0.0}


def _changes(what_if: Mapping[str, Any], step: float) -> list[Record]:
    """The rows of a table of changes: of what is not simulated, what they save to first order."""
    rows = list[Record]()
    for name, each in what_if.items():
        seconds = each["first_order"] if each["simulated"] is None else each["simulated"]
        saved = None if seconds is None else 1 - seconds / (step or 1.0)
        rows.append({"name": name, **each, "saved": saved})
    return rows


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
    rows = result.report
    swept, names = _swept(result)
    best = max(rows, key=lambda row: row["samples_per_s"])
    workers = span((row["ranks"] for row in rows), lambda value: f"{value:.0f}", "worker")
    value = f"{swept} {names[str(best[swept])]} and " if swept else ""
    values = f", for several values of {swept}" if swept not in ("", "strategy") else ""
    strategies = listed(str(row["strategy"]) for row in rows)
    alike = [row for row in rows if row.get(swept) == best.get(swept)] if swept else rows
    summary = [
        f"How does {rows[0]['model']} do with {strategies} on {workers}{values}?",
        fill("The most samples a second are {samples_per_s:,.0f}, with ", best)
        + value
        + fill("{ranks} workers, at an efficiency of {efficiency:share}.", best),
        _values(rows, swept, names) if swept else "",
        f"Adding workers {scaling(alike)}." if len({row["ranks"] for row in rows}) > 1 else "",
    ]
    shown, columns = shown_runs(rows, swept, names)
    about = dict.fromkeys(WAITING, "Waiting is a share of the step.")
    blocks: list[Block] = [table("All runs", shown, columns, TERMS, rare=RARE, about=about)]
    if len(names) > 1:
        blocks.append(Remarks("Compared", comparison_lines(rows, swept, names)))
    if lines := scaling_lines(rows, swept, names):
        blocks.append(Remarks("More workers", lines))
    title = f"{rows[0]['model']}: {counted(len(rows), 'run')}, {workers}"
    return Story(title, summary, blocks)


def swept_option(rows: Sequence[Record], sweep: object) -> str:
    """The option whose values differ: that of the text of `--sweep`, "strategy" if there are
    several, and none where a run lacks it."""
    swept = str(sweep or "").partition("=")[0]
    swept = swept or "strategy" * (len({row.get("strategy") for row in rows}) > 1)
    return swept if all(row.get(swept) is not None for row in rows) else ""


def _swept(result: Result) -> tuple[str, Mapping[str, str]]:
    """The option whose values differ, "strategy" if there are several, and how its values are
    shown: bytes in their unit."""
    if "swept" in result.words:
        return result.words["swept"], result.words["names"]
    rows = result.report
    if not (swept := swept_option(rows, result.stated("sweep"))):
        return "", {}
    texts = dict.fromkeys(str(row[swept]) for row in rows)
    is_bytes = re.compile(r"\d{1,18}(\.0)?B", re.ASCII).fullmatch
    return swept, {
        text: format_bytes(float(text.removesuffix("B"))) if is_bytes(text) else text
        for text in texts
    }


def _values(rows: Sequence[Record], swept: str, names: Mapping[str, str]) -> str:
    """How far the values of an option are from each other, on the most workers."""
    most = max(row["ranks"] for row in rows)
    by_rate = sorted(
        (row for row in rows if row["ranks"] == most), key=lambda row: row["samples_per_s"]
    )
    slow, fast = by_rate[0], by_rate[-1]
    factor = fast["samples_per_s"] / (slow["samples_per_s"] or 1.0)
    if factor < 1.001:
        return f"On {most:.0f} workers all values of {swept} are as fast."
    return (
        f"On {most:.0f} workers {swept} {names[str(fast[swept])]} is the fastest, {times(factor)} "
        f"times as fast as the slowest, {names[str(slow[swept])]}."
    )


def learning(result: Result) -> Story:
    """What a network learns along runs."""
    rows = result.report
    reached = [row for row in rows if row.get("target_s") is not None]
    answer = fill("No run names {target:share} of the digits that it has not seen.", rows[0])
    if reached:
        answer = fill(
            "{strategy} is the first to name {target:share} of the digits it has not seen: after "
            "{target_s:s}.",
            min(reached, key=lambda row: row["target_s"]),
        )
    summary = [
        f"Which strategy learns fastest, in simulated seconds? This page compares "
        f"{counted(len(rows), 'run')} of {rows[0]['network']}.",
        answer,
        fill(
            "Workers idle most with {strategy}: {idle:share} of the time.",
            max(rows, key=lambda row: row["idle"]),
        ),
    ]
    disturbed = any(row.get("disturbance") for row in rows)
    shown = [
        {
            **row,
            "time_s": row["seconds"],
            "reached": "never" if row.get("target_s") is None else format_seconds(row["target_s"]),
            "disturbance": (row.get("disturbance") or "alike") if disturbed else None,
            "cause": row.get("cause") or None,
        }
        for row in rows
    ]
    columns = {fill(name, rows[0]): column for name, column in LEARNT.items()}
    note = "staleness: mean number of updates between reading weights and updating them."
    return Story(
        "Learning over simulated time", summary, [table("All runs", shown, columns, note=note)]
    )
