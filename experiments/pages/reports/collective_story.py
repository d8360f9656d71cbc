"""The reports of `simctl run`: one collective, several at once, or a workload of traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.output import counted
from experiments.pages.page import Block, Facts, Lines
from experiments.pages.reports.report_tables import (
    Record,
    interval,
    listed,
    number,
    shares,
    table,
    word,
)
from experiments.pages.reports.result import Result, Story
from experiments.pages.reports.result_scenes import scenes
from experiments.templates import share, times, written
from experiments.terms import inexact
from topologies.units import format_bytes, format_seconds

CAUSES = {
    "compute": "computing",
    "latency": "latency: the start of messages (α)",
    "gap": "the gap between two messages of a sender (g)",
    "serialisation": "bytes on links (V / β)",
    "reduction": "adding what arrives (γ)",
    "copy": "copying within a rank",
    "contention": "waiting behind messages of other ranks",
    "launch": "starting the collective (the library's software)",
}
"""The parts of a critical path in words."""
HELP = {
    "latency": "half the latency of links (α)",
    "gap": "half the gap between messages (g)",
    "serialisation": "twice the bandwidth of links (β)",
    "reduction": "adding twice as fast (γ)",
    "copy": "copying twice as fast",
    "compute": "computing twice as fast",
}
"""What halves each part of the critical path."""
PATH = (
    "The critical path is the chain of operations that the last result waits for. Only a shorter "
    "operation on it makes the run shorter."
)
BUSY = {"link or port": "medium", "busy": "busy", "bytes": "bytes_B"}
WAITING = {"link": "where", "who waits": "waits", "behind": "who", "time": "seconds_s"}


def one(result: Result) -> Story:
    """One collective: its time, and where it goes."""
    report, row = result.report, result.report["summary"]
    time = number(row, "time_s")
    parameters = result.origin.get("parameters", {})
    where = parameters.get("topology")
    size = format_bytes(number(row, "size_B"))
    case = f"{word(row, 'algorithm')}, {word(row, 'ranks')} ranks, {size}"
    parts: Mapping[str, float] = report["critical_path_s"]
    cause = max(parts, key=lambda part: parts[part])
    summary = [
        f"How long does the algorithm {word(row, 'algorithm')} take for "
        f"{size} among {word(row, 'ranks')} ranks on {where}?",
        f"It takes {format_seconds(time)}{_bound(row)}. {_verdict(row)}",
        f"Most of the time goes to {CAUSES.get(cause, cause)}: "
        f"{share(parts[cause] / (time or 1))}. "
        f"{_help(report['worth_s'], time)}",
    ]
    worth = [
        {"change": HELP.get(part, part), "saved_s": value / 2}
        | {"share": value / 2 / (time or 1.0)}
        for part, value in report["worth_s"].items()
        if value > 0
    ]
    columns = {"change": "change", "saves": "saved_s", "of the time": "share"}
    note = "To first order: a large change may move the critical path elsewhere."
    blocks: list[Block] = [
        Facts("The answer in figures", _figures(row)),
        shares("Where the time goes", _named(parts), time, PATH),
        table("What would help", worth, columns, note=note),
        *scenes(result),
        *_contention(report["contention"]),
        table("Busiest links and ports", report["busiest"], BUSY),
    ]
    if report["chosen"]:
        blocks.append(Lines("What the algorithm chose for this machine", report["chosen"]))
    bounds = row.get("bounds_left_out")
    left = [_sentence(f"Bounds left out: {bounds}")] * bool(bounds)
    left += _stands(report, row) + _grid(report, time)
    return Story(f"{case} on {where}: {format_seconds(time)}", summary, blocks, left)


def _bound(row: Record) -> str:
    bound = number(row, "bound_s")
    if bound <= 0:
        return ""
    return (
        f", {times(number(row, 'over_bound'))} times the best lower bound of "
        f"{format_seconds(bound)}, which no algorithm can beat"
    )


def _verdict(row: Record) -> str:
    word = str(row.get("verdict"))
    if word.startswith("FAIL"):
        return f"A check failed ({word}), so do not trust the answer: this is a bug."
    if word.startswith("not claimed"):
        return "The schedule was executed on integers, and its result is right."
    return "The schedule gives the right result, and its time equals the formula."


def _help(worth: Mapping[str, float], time: float) -> str:
    best = max(worth, key=lambda part: worth[part], default=None)
    if best is None or worth[best] <= 0:
        return "No parameter of the machine would make it faster."
    saved = share(worth[best] / 2 / (time or 1.0))
    return f"What would help most is {HELP.get(best, best)}: it saves about {saved}."


def _figures(row: Record) -> dict[str, str]:
    """The summary as names and values, with what the formula says."""

    def beside(field: str, formula: str) -> str:
        value = written(field, row.get(field))
        expected = row.get(formula)
        return value if expected is None else f"{value} (formula: {written(field, expected)})"

    return {
        "time": beside("time_s", "formula_s"),
        **interval(row, "expected"),
        "best lower bound": f"{written('bound_s', row.get('bound_s'))} ({row.get('bound')})",
        "V, the size": written("size_B", row.get("size_B")),
        "algbw = V / time": written("algbw_Bps", row.get("algbw_Bps")),
        "busbw, to compare with the bandwidth of a link": written(
            "busbw_Bps", row.get("busbw_Bps")
        ),
        "bytes that all ranks send": beside("volume_B", "volume_formula_B"),
        "steps": beside("steps", "steps_formula"),
        "peak memory of the fullest rank": beside("peak_B", "peak_formula_B"),
        "redundant: duplicate data over all ranks": beside("redundant_B", "redundant_formula_B"),
        "verdict": str(row.get("verdict")),
        **({"protocol": str(row.get("protocol"))} if row.get("protocol") else {}),
    }


def _named(parts: Mapping[str, float]) -> dict[str, float]:
    return {CAUSES.get(part, part): value for part, value in parts.items()}


def _contention(waits: Sequence[Mapping[str, Any]]) -> list[Block]:
    rows = [
        {**wait, "who": listed(map(str, wait["behind"]), most=6), "seconds_s": wait["seconds"]}
        for wait in waits
    ]
    note = "On the critical path: who waits for a link while it carries messages of others."
    return [table("Contention", rows, WAITING, note=note)] if rows else []


def _stands(report: Mapping[str, Any], row: Record) -> list[str]:
    simulated = report["ranks_simulated"]
    if simulated >= number(row, "ranks"):
        return []
    return [
        f"{counted(simulated, 'rank')} of {word(row, 'ranks')} simulated: the others do the same."
    ]


def _grid(report: Mapping[str, Any], time: float) -> list[str]:
    if "grid_s" not in report or report["grid_s"] is None:
        return []
    return [_sentence(inexact(report["grid_s"], report["grid_error_s"], time))]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _slowed(slowest: Record) -> str:
    """How much the others slow down the call that they slow down most."""
    ratio = number(slowest, "over_alone")
    if ratio < 1.0005:
        return "No call slows another one down."
    return (
        f"Call {word(slowest, 'call')} ({word(slowest, 'algorithm')} on ranks "
        f"{word(slowest, 'ranks')}) suffers most: it takes {times(ratio)} times as long as alone."
    )


def several(result: Result) -> Story:
    """Several collectives at once, each beside its time alone."""
    report = result.report
    calls: Sequence[Record] = report["calls"]
    time = number(report, "time_s")
    slowest = max(calls, key=lambda call: number(call, "over_alone"))
    wrong = report["wrong"]
    summary = [
        f"How long do {counted(len(calls), 'collective')} take that run at once?",
        f"All are done after {format_seconds(time)}. "
        + (f"A call gives a wrong result: {wrong}." if wrong else "Every result is right."),
        _slowed(slowest),
    ]
    columns = {"call": "call", "ranks": "ranks", "algorithm": "algorithm", "size": "size_B"}
    columns |= {"stream": "stream", "enters": "enters_s", "time": "time_s", "alone": "alone_s"}
    columns |= {"of alone": "over_alone", "bound": "bound_s"}
    note = "alone: the time of the call if nothing else ran."
    blocks: list[Block] = [
        table("Calls", calls, columns, note=note),
        *scenes(result),
        *_contention(report["contention"]),
    ]
    title = f"{counted(len(calls), 'collective')} at once: {format_seconds(time)}"
    return Story(title, summary, blocks, _grid(report, time))


def workload(result: Result) -> Story:
    """A workload of Chakra traces: its time, and what each rank does."""
    report = result.report
    time = number(report, "time_s")
    ranks: Sequence[Record] = report["ranks"]
    mean = sum(number(row, "computing_s") for row in ranks) / len(ranks)
    exposed = sum(number(row, "exposed_s") for row in ranks) / len(ranks)
    path: Mapping[str, float] = report["critical_path_s"]
    most = max(path, key=lambda part: path[part], default="")
    summary = [
        f"How long does the workload of {counted(len(ranks), 'rank')} take?",
        f"It takes {format_seconds(time)}. A mean rank computes for {share(mean / (time or 1.0))} "
        f"of that, and for {share(exposed / (time or 1.0))} only communicates.",
        f"The largest part of the critical path is {most}: {format_seconds(path[most])}."
        if most
        else "The workload has no operation that takes time.",
    ]
    columns = {"rank": "rank", "ends": "ends_s", "computing": "computing_s", "hidden": "hidden_s"}
    columns |= {"exposed": "exposed_s", "idle": "idle_s", "CPU": "cpu_s"}
    kinds = {"collective": "collective", "calls": "calls", "size": "size_B", "time": "time_s"}
    heads = {"task": "task", "rank": "rank", "time": "seconds_s"}
    longest = [{**row, "seconds_s": row.get("seconds")} for row in report["longest"]]
    note = "hidden, exposed: communication while the rank computes, and while it does not."
    blocks: list[Block] = [
        table("Ranks", ranks, columns, note=note),
        *scenes(result),
        *([shares("Where the time goes", path, time, PATH)] if path else []),
        table("Communication", report["communication"], kinds | {"longest": "longest_s"}),
        table("Computations that take most of it", longest, heads),
        *_contention(report["contention"]),
    ]
    return Story(f"Workload of {len(ranks)} ranks: {format_seconds(time)}", summary, blocks)
