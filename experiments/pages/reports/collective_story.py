"""The answers of `simctl run`: one collective, several at once, or a workload of traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.answer_blocks import (
    REST,
    Block,
    Facts,
    Record,
    Remarks,
    Story,
    Table,
    shares,
    table,
    unless_empty,
)
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.templates import Columns, Lines, fill, headed, share, times
from experiments.terms import TERMS, inexact
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

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
SHOWN = 8
"""Waits that a terminal shows, the longest."""
NAMED = 6
"""Ranks that are named of those behind which a rank waits."""
PATH = "Where the time goes (the critical path)"
CALLS = {
    **headed("call", "ranks", "algorithm", "stream", "size_B", "enters_s", "time_s", "alone_s"),
    "of alone": "{over_alone:.3f}",
    "bound": "bound_s",
}
RANKS = {
    "computing": "computing_s",
    "hidden communication": "hidden_s",
    "exposed communication": "exposed_s",
    "idle": "idle_s",
    "CPU": "cpu_s",
}
"""What a rank of a workload does."""


def one(result: Result) -> Story:
    """One collective: its time, and where it goes."""
    report, row = result.report, result.report["summary"]
    time, where = row["time_s"], result.stated("topology")
    root = f" from root {result.stated('root')}" if result.stated("root") else ""
    case = fill("{algorithm}, {ranks} ranks, {size_B}", row) + root
    parts = report["critical_path_s"]
    cause = max(parts, key=lambda part: parts[part])
    summary = [
        fill("How long does the algorithm {algorithm} take for {size_B} among {ranks} ranks", row)
        + f" on {where}?",
        f"It takes {format_seconds(time)}{_bound(row)}. {_verdict(row)}",
        f"Most of the time goes to {CAUSES.get(cause, cause)}: "
        f"{share(parts[cause] / (time or 1))}. {_help(report['worth_s'], time)}",
    ]
    worth = [
        {"change": HELP.get(part, part), "saved_s": value / 2, "share": value / 2 / (time or 1.0)}
        for part, value in report["worth_s"].items()
        if value > 0
    ]
    columns = {"change": "change", "saves": "saved_s", "of the time": "share"}
    note = "To first order: a large change may move the critical path elsewhere."
    binary = in_binary([row["size_B"]])
    busy: Columns = {
        "link or port": "medium",
        "busy": "busy",
        "bytes": lambda medium: format_bytes(medium["bytes_B"], binary),
    }
    simulated, word = report["ranks_simulated"], str(row.get("verdict")).partition(":")[0]
    terms = [term for term in ("redundant", word) if term in TERMS]
    figures = _figures(row, result, simulated)
    blocks: list[Block] = [Facts("The answer in figures", figures, terms)]
    if report["chosen"]:
        blocks.append(Remarks("Chosen for this machine", report["chosen"]))
    blocks += [
        shares(PATH, {CAUSES.get(part, part): value for part, value in parts.items()}, time),
        *contention(report["contention"], folded=simulated < row["ranks"]),
        table("Busiest links and ports", report["busiest"], busy),
        table("What would help", worth, columns, note=note),
    ]
    left = [f"Bounds left out: {row['bounds_left_out']}."] * bool(row.get("bounds_left_out"))
    title = f"{case} on {where}: {format_seconds(time)}"
    return Story(title, summary, blocks, [*left, *_grid(report, time)])


def _bound(row: Record) -> str:
    if row["bound_s"] <= 0:
        return ""
    return (
        f", {times(row['over_bound'])} times the best lower bound of "
        f"{format_seconds(row['bound_s'])}, which no algorithm can beat"
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


def _figures(row: Record, result: Result, simulated: int) -> Lines:
    binary = in_binary([row["size_B"]])

    def beside(name: str, field: str, about: str = "") -> list[str]:
        formula = row.get(f"{field}_formula_B")
        said = "" if formula is None else f"formula {format_bytes(formula, binary)}"
        value = format_bytes(row[f"{field}_B"], binary)
        return [name, value, "; ".join(filter(None, (about, said)))]

    bound = f"{row['bound']}; time is {row['over_bound']:.3f} of it" if row["bound_s"] else ""
    steps = row.get("steps_formula")
    lines = [
        ["time", format_seconds(row["time_s"]), _difference(row)],
        *_expected(row, result),
        ["best bound", format_seconds(row["bound_s"]), bound or "none is known"],
        ["V", format_bytes(row["size_B"]), "the size, as nccl-tests counts it"],
        ["algbw", format_bandwidth(row["algbw_Bps"]), "V / time"],
        ["busbw", format_bandwidth(row["busbw_Bps"]), "compare it with the bandwidth of a link"],
        beside("bytes moved", "volume"),
        ["steps", str(row["steps"]), "" if steps is None else f"formula {steps}"],
        beside("peak memory", "peak", "a rank"),
        beside("redundant", "redundant", "all ranks"),
    ]
    if simulated < row["ranks"]:
        lines.append(
            ["simulated", f"{simulated} of {row['ranks']} ranks", "all others do the same"]
        )
    lines.append(["verdict", str(row.get("verdict")), ""])
    protocol = row.get("protocol")
    return [*lines, *([["protocol", protocol, "the fastest of the profile's"]] if protocol else [])]


def _difference(row: Record) -> str:
    if row.get("formula_s") is None:
        return "no formula"
    formula = format_seconds(row["formula_s"])
    if str(row.get("verdict")).startswith("not claimed"):
        return f"formula, not claimed here: {formula}"
    if abs(row["difference"]) <= 1e-9:
        return f"equal to the formula {formula}"
    return f"{row['difference']:+.2%} off the formula {formula}"


def _expected(row: Record, result: Result) -> Lines:
    """The interval, what corrects the time, and why the interval is wide."""
    if (expected := row.get("expected_s")) is None:
        return []
    low, high = row.get("low_s") or 0.0, row.get("high_s") or 0.0
    of_runs = f"{result.level} of runs" if result.level else "interval"
    about = [f"{of_runs}: {format_seconds(low)} - {format_seconds(high)}"]
    if low < row["bound_s"] and low * high > (1 + 1e-9) * expected**2:  # no longer symmetrical
        about.append(f"it ends at the bound of the specified links, {format_seconds(low)}")
    if abs(longer := expected / row["time_s"] - 1) >= 0.01:
        more = "longer" if longer > 0 else "less"
        about.append(f"measured runs nearby take {abs(longer):.0%} {more} than the model says")
    about += [f"unsure: {row['unsure']}"] * bool(row.get("unsure"))
    return [["expected", format_seconds(expected), "; ".join(about)]]


def contention(
    waits: Sequence[Mapping[str, Any]], steps: float = 1, *, folded: bool = False
) -> list[Table]:
    """Who waits on the critical path for a link while it carries messages of others, in seconds a
    step. Where some ranks stand for all, so does the link: the schedule is `folded`."""
    like = " and all like it" if folded else ""
    rows = [
        {**wait, "where": f"{wait['where']}{like}", "who": _names([*wait["behind"]])}
        | {"seconds_s": wait["seconds"] / steps}
        for wait in waits
    ]
    left = rows[SHOWN:]
    rest = {"link": f"{len(left)} more: {REST}"}
    rest["time"] = format_seconds(sum(row["seconds_s"] for row in left))
    columns = {"link": "where", "who waits": "waits", "behind": "who", "time": "seconds_s"}
    title = "Contention: waiting behind messages of other ranks"
    return unless_empty(title, rows, columns, ["critical path"], first=SHOWN, rest=rest)


def _names(behind: Sequence[str]) -> str:
    """The ranks behind which a rank waits.

    >>> _names(["rank 3", "rank 1", "server"])
    'ranks 3, 1, server'
    """
    ranks = [name.removeprefix("rank ") for name in behind if name.startswith("rank ")]
    others = [name for name in behind if not name.startswith("rank ")]
    more = [f"{len(ranks) - NAMED} more"] * (len(ranks) > NAMED)
    words = f"rank{'s' * (len(ranks) > 1)} {', '.join([*ranks[:NAMED], *more])}"
    return ", ".join([*[words] * bool(ranks), *others])


def _grid(report: Mapping[str, Any], time: float) -> list[str]:
    if report.get("grid_s") is None:
        return []
    text = inexact(report["grid_s"], report["grid_error_s"], time)
    return [f"{text[:1].upper()}{text[1:]}."]


def _slowed(slowest: Record) -> str:
    """How much the others slow down the call that they slow down most."""
    if slowest["over_alone"] < 1.0005:
        return "No call slows another one down."
    return (
        fill("Call {call} ({algorithm} on ranks {ranks}) suffers most", slowest)
        + f": it takes {times(slowest['over_alone'])} times as long as alone."
    )


def several(result: Result) -> Story:
    """Several collectives at once, each beside its time alone."""
    report = result.report
    calls = report["calls"]
    time, wrong = report["time_s"], report["wrong"]
    summary = [
        f"How long do {counted(len(calls), 'collective')} take that run at once?",
        f"All are done after {format_seconds(time)}. "
        + (f"A call gives a wrong result: {wrong}." if wrong else "Every result is right."),
        _slowed(max(calls, key=lambda call: call["over_alone"])),
    ]
    proof = f"FAIL: {wrong}" if wrong else "every call keeps its promise"
    blocks: list[Block] = [
        table(
            "Calls", calls, CALLS, note=f"alone: the time of the call if nothing else ran.\n{proof}"
        ),
        *contention(report["contention"]),
    ]
    where = result.stated("topology")
    title = f"{counted(len(calls), 'collective')} at once on {where}: {format_seconds(time)}"
    return Story(title, summary, blocks, _grid(report, time))


def workload(result: Result) -> Story:
    """A workload of Chakra traces: its time, and what each rank does."""
    report = result.report
    time, whole = report["time_s"], report["time_s"] or 1.0
    ranks = report["ranks"]
    means = {name: sum(row[name] for row in ranks) / len(ranks) for name in RANKS.values()}
    path = report["critical_path_s"]
    most = max(path, key=lambda part: path[part], default="")
    summary = [
        f"How long does the workload of {counted(len(ranks), 'rank')} take?",
        f"It takes {format_seconds(time)}. A mean rank computes for "
        f"{share(means['computing_s'] / whole)} of that, and for "
        f"{share(means['exposed_s'] / whole)} only communicates.",
        f"The largest part of the critical path is {most}: {format_seconds(path[most])}."
        if most
        else "The workload has no operation that takes time.",
    ]
    figures = []
    for name, field in RANKS.items():
        busiest = max(ranks, key=lambda row: row[field])
        mean = {"name": name, "mean_s": means[field], "mean_share": means[field] / whole}
        worst = {"most_s": busiest[field], "most_share": busiest[field] / whole}
        figures.append({**mean, **worst, "rank": busiest["rank"]})
    heads = {"of a rank": "name", "mean": "mean_s", "of the time": "mean_share", "most": "most_s"}
    heads |= {"its share": "most_share", "rank": "rank"}
    kinds = {**headed("collective", "calls"), "V": "size_B", "time": "time_s"}
    longest = [{**row, "seconds_s": row["seconds"]} for row in report["longest"]]
    tasks = {"task": "task", "rank": "rank", "time": "seconds_s"}
    terms = ["hidden", "exposed"]
    blocks: list[Block] = [
        table("What ranks do", figures, heads, terms),
        table("Communication", report["communication"], kinds | {"longest": "longest_s"}),
        *([shares(PATH, path, time)] if path else []),
        *unless_empty("Computations that take most of it", longest, tasks),
        *contention(report["contention"]),
        table("Ranks", ranks, {"rank": "rank", "ends": "ends_s", **RANKS}, terms, page_only=True),
    ]
    title = f"Workload of {counted(len(ranks), 'rank')} on {result.stated('topology')}"
    return Story(f"{title}: {format_seconds(time)}", summary, blocks)
