"""The answer of `simctl sweep`: algorithms by size and number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from experiments.answer_blocks import Block, Record, Remarks, Story, listed, span, table
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.simulations.sweep_rows import WIDE
from experiments.templates import fill, times
from experiments.terms import TERMS
from topologies.units import format_bytes, format_seconds


def story(result: Result) -> Story:
    """Which algorithm is the fastest where, and every point."""
    rows = result.report
    names = listed(str(row["algorithm"]) for row in rows)
    where = result.stated("topology")
    machine = f" on {where}" if where else ""
    ranks = span((row["ranks"] for row in rows), lambda value: f"{value:.0f}")
    sizes = span((row["size_B"] for row in rows), format_bytes)
    summary = [
        f"How long do {names} take{machine}, with {ranks} ranks and sizes of {sizes}? "
        f"This page compares {counted(len(rows), 'point')}.",
        _fastest(rows),
        _checks(rows),
    ]
    blocks: list[Block] = []
    if len({row["algorithm"] for row in rows}) > 1:
        heads = {"ranks": "ranks", "size": "size_B", "fastest": "algorithm", "time": "time_s"}
        heads |= {"of bound": "over_bound", "next": "next", "the next takes": "factor"}
        title = "Which algorithm is the fastest"
        blocks.append(table(title, _winners(rows), heads, page_only=True))
    words = {str(row.get("verdict")).partition(":")[0] for row in rows}
    terms = ["V", "of bound", "busbw", "redundant", *(text for text in words if text in TERMS)]
    note = result.interval if "expected_s" in rows[0] else ""
    terms = ["expected", *terms] if note else terms
    # On a page, the verdicts are in sight before anybody scrolls.
    columns = {name: WIDE[name] for name in ("algorithm", "p", "size", "time", "verdict", *WIDE)}
    blocks.append(table("All points", [*map(shown, rows)], columns, terms, note, page_only=True))
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if ": " in str(row["verdict"]):
            reasons.setdefault(row["verdict"], []).append(row["algorithm"])
    lines = [f"{verdict} ({listed(algorithms)})" for verdict, algorithms in reasons.items()]
    blocks += [Remarks("Verdicts", lines)] if lines else []
    left: dict[str, list[float]] = {}
    for row in rows:
        left.setdefault(str(row.get("bounds_left_out") or ""), []).append(row["ranks"])
    left.pop("", None)
    missing = [
        f"Bounds that are not computed for p = {span(counts, str)}: {bounds}."
        for bounds, counts in left.items()
    ]
    return Story(f"Sweep: {names}{machine}", summary, blocks, missing)


def shown(row: Record) -> Record:
    """The row with its verdict in a word; the formula counts where it is claimed."""
    verdict = str(row.get("verdict")).partition(":")[0]
    claimed = verdict != "not claimed"
    return {**row, "verdict": verdict, "difference": row.get("difference") if claimed else None}


def _place(row: Record) -> tuple[float, float]:
    return row["ranks"], row["size_B"]


def _winners(rows: Sequence[Record]) -> list[Record]:
    """The fastest algorithm for each number of ranks and size, and how far the next one is."""
    winners = list[Record]()
    for _, group in groupby(sorted(rows, key=_place), key=_place):
        first, *rest = sorted(group, key=lambda row: row["time_s"])
        following = rest[0] if rest else {}
        factor = following["time_s"] / (first["time_s"] or 1.0) if rest else None
        times_as_long = None if factor is None else f"{factor:.3g} times as long"
        winners.append({**first, "next": following.get("algorithm"), "factor": times_as_long})
    return winners


def _fastest(rows: Sequence[Record]) -> str:
    winners = _winners(rows)
    last = winners[-1]
    where, name = fill("{ranks} ranks and {size_B}", last), last["algorithm"]
    seconds, bound = format_seconds(last["time_s"]), _bound(last)
    if last["next"] is None:
        return f"With {where}, {name} takes {seconds}{bound}."
    wins = sum(row["algorithm"] == name for row in winners)
    all_of_them = f"all {len(winners)}" if wins == len(winners) else f"{wins} of {len(winners)}"
    return (
        f"With {where}, {name} is the fastest: it takes {seconds}{bound}. "
        f"The second fastest, {last['next']}, takes {last['factor']}. {name} is the fastest at "
        f"{all_of_them} combinations of ranks and size."
    )


def _bound(row: Record) -> str:
    over = row.get("over_bound")
    if not isinstance(over, float) or not over < float("inf"):
        return ""
    return f", {times(over)} times the best lower bound"


def _checks(rows: Sequence[Record]) -> str:
    words = [str(row.get("verdict")) for row in rows]
    failed = sum(text.startswith("FAIL") for text in words)
    if failed:
        return (
            f"{counted(failed, 'point')} failed a check, so do not trust the answer: this is a bug."
        )
    unclaimed = sum(text.startswith("not claimed") for text in words)
    proven = "Every schedule was executed on integers, and its result is right"
    if unclaimed == len(rows):
        return f"{proven}. No formula is claimed for this machine, so none was compared."
    agreeing = counted(len(rows) - unclaimed, "point")
    rest = f" No formula is claimed for the other {unclaimed}." if unclaimed else ""
    return f"{proven}. {agreeing} agree with their formulas.{rest}"
