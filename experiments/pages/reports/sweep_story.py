"""The report of `simctl sweep`: algorithms by size and number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from experiments.output import counted
from experiments.pages.page import Table
from experiments.pages.reports.report_tables import Record, listed, number, span, table, word
from experiments.pages.reports.result import Result, Story
from experiments.profiles.interval_levels import RUNS
from experiments.templates import times
from experiments.terms import TERMS
from topologies.units import format_bytes, format_seconds

COLUMNS = {
    "algorithm": "algorithm",
    "ranks": "ranks",
    "size": "size_B",
    "time": "time_s",
    "verdict": "verdict",
    **RUNS,
    "unsure": "unsure",
    "of bound": "over_bound",
    "busbw": "busbw_Bps",
    "formula": "formula_s",
    "difference": "difference",
    "protocol": "protocol",
    "bound": "bound",
    "bytes sent": "volume_B",
    "peak memory": "peak_B",
    "redundant": "redundant_B",
}


def story(result: Result) -> Story:
    """Which algorithm is the fastest where, and every point."""
    rows: Sequence[Record] = result.report
    names = listed(word(row, "algorithm") for row in rows)
    where = result.origin.get("parameters", {}).get("topology")
    machine = f" on {where}" if where else ""
    ranks = span((number(row, "ranks") for row in rows), lambda value: f"{value:.0f}")
    sizes = span((number(row, "size_B") for row in rows), format_bytes)
    summary = [
        f"How long do {names} take{machine}, with {ranks} ranks and sizes of {sizes}? "
        f"This page compares {counted(len(rows), 'point')}.",
        _fastest(rows),
        _checks(rows),
    ]
    shown = list(map(_shown, rows))
    blocks: list[Table] = []
    winners = list(_winners(rows))
    if len({word(row, "algorithm") for row in rows}) > 1:
        heads = {"ranks": "ranks", "size": "size_B", "fastest": "algorithm", "time": "time_s"}
        heads |= {"of bound": "over_bound", "next": "next", "the next takes": "factor"}
        blocks.append(table("Which algorithm is the fastest", winners, heads))
    words = {str(row.get("verdict")).partition(":")[0] for row in rows}
    terms = ["of bound", "busbw", "redundant", *(text for text in words if text in TERMS)]
    note = "size: V, the size."
    if "expected_s" in rows[0]:
        terms = ["expected", *terms]
        note += " interval: of a run."
    blocks.append(table("All points", shown, COLUMNS, terms, note=note))
    left = {str(row.get("bounds_left_out") or "") for row in rows} - {""}
    return Story(
        f"Sweep: {names}{machine}",
        summary,
        blocks,
        [f"Bounds that are not computed for so many ranks: {line}." for line in sorted(left)],
    )


def _shown(row: Record) -> Record:
    """The row with its verdict in a word; the formula counts where it is claimed."""
    verdict = str(row.get("verdict")).partition(":")[0]
    return {
        **row,
        "verdict": verdict,
        "difference": None if verdict == "not claimed" else row.get("difference"),
    }


def _place(row: Record) -> tuple[float, float]:
    return number(row, "ranks"), number(row, "size_B")


def _winners(rows: Sequence[Record]) -> list[Record]:
    """The fastest algorithm for each number of ranks and size, and how far the next one is."""
    winners = list[Record]()
    for _, group in groupby(sorted(rows, key=_place), key=_place):
        first, *rest = sorted(group, key=lambda row: number(row, "time_s"))
        following = rest[0] if rest else {}
        factor = number(following, "time_s") / (number(first, "time_s") or 1.0) if rest else None
        shown = None if factor is None else f"{factor:.3g} times as long"
        winners.append({**first, "next": following.get("algorithm"), "factor": shown})
    return winners


def _fastest(rows: Sequence[Record]) -> str:
    winners = _winners(rows)
    last = winners[-1]
    where = f"{last['ranks']} ranks and {format_bytes(number(last, 'size_B'))}"
    name, seconds = word(last, "algorithm"), format_seconds(number(last, "time_s"))
    bound = _bound(last)
    if last["next"] is None:
        return f"With {where}, {name} takes {seconds}{bound}."
    wins = sum(word(row, "algorithm") == name for row in winners)
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
