"""The reports of `simctl recommend`: the best algorithm of each size, or all at one size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.output import counted
from experiments.pages.page import Block
from experiments.pages.reports.report_tables import Record, listed, number, span, table
from experiments.pages.reports.result import Result, Story
from experiments.profiles.interval_levels import RUNS
from experiments.simulations.recommendation import GAIN
from experiments.simulations.winners import ADVICE, EXPLAINED
from experiments.templates import times
from topologies.units import format_bytes, format_seconds

CLOSE = 1.05
"""A winner that is less than so many times as fast as the second wins by little."""
ENDS = " interval: of a run."
RIVAL = " or: the second fastest algorithm, if the difference is inside its error."
"""What a note says of the columns of intervals, after the rest."""


def story(result: Result) -> Story:
    """The best algorithm of each size."""
    report = result.report
    rows: Sequence[Record] = report["advice"]
    changes: Sequence[Record] = report["crossovers"]
    machine, collective = report["machine"], report["collective"]
    ranks = counted(report["ranks"], "rank")
    sizes = span((number(row, "size_B") for row in rows), format_bytes)
    summary = [
        f"Which {collective} is the fastest for {ranks} on {machine}, at sizes of {sizes}?",
        _answer(rows, changes),
        _gain(rows),
    ]
    columns = {**ADVICE, "unsure": "unsure", "default": "default"}
    columns |= {"default takes": "default_time_s", "own software": "own_software"}
    columns |= {"takes": "own_software_time_s", "why": "why"}
    note = "gain: how many times as long the default of the library takes."
    if _sure(rows):
        note += ENDS + RIVAL
    blocks: list[Block] = [
        table("The best algorithm of each size", rows, columns, ["of bound"], note)
    ]
    if changes:
        heads = {"from size": "size_B", "take": "after", "instead of": "before"}
        blocks.append(table("Where the best algorithm changes", changes, heads))
    blocks += _not_tried(report["not_tried"])
    title = f"Best algorithms: {collective}, {ranks} on {machine}"
    return Story(title, summary, blocks)


def _answer(rows: Sequence[Record], changes: Sequence[Record]) -> str:
    first = f"Take {rows[0]['algorithm']}"
    if not changes:
        return f"{first} at every size."
    steps = [
        f"{each['after']} from {format_bytes(each['size_B'], binary=True)}" for each in changes
    ]
    return f"{first} at small sizes, then {listed(steps, most=6)}."


def _gain(rows: Sequence[Record]) -> str:
    best = max(rows, key=lambda row: number(row, "gain"))
    if number(best, "gain") <= GAIN:
        return "The default of the library is as good at every size."
    return (
        f"This gains most at {format_bytes(number(best, 'size_B'))}: the library's default "
        f"{best['default']} takes {times(number(best, 'gain'))} times as long there."
    )


def _not_tried(left: Sequence[Record]) -> list[Block]:
    heads = {"algorithm": "name", "reason": "why"}
    return [table("Algorithms that were not tried", left, heads)] if left else []


def _sure(rows: Sequence[Record]) -> bool:
    """Whether a profile knows the error of runs."""
    return any(row.get("low_s") is not None for row in rows)


def winners(result: Result) -> Story:
    """The best algorithm of each number of ranks and size."""
    report = result.report
    rows: Sequence[Record] = report["winners"]
    case = f"{report['collective']} on {report['machine']}"
    ranks = listed([str(p) for p in dict.fromkeys(row["ranks"] for row in rows)], most=8)
    wins = Counter(str(row["algorithm"]).partition(":")[0] for row in rows)
    name, most = wins.most_common(1)[0]
    close = sum(1 for row in rows if row["margin"] and number(row, "margin") < CLOSE)
    summary = [
        f"Which algorithm is the fastest for {case}, with {ranks} ranks?",
        f"{name} wins most often: at {most} of {len(rows)} points.",
        f"At {counted(close, 'point')} the second takes less than {CLOSE:g} times as long.",
    ]
    columns = {"p": "ranks", "size": "size_B", "algorithm": "algorithm", "time": "time_s"}
    columns |= {"of bound": "over_bound", "second": "second", "second takes": "second_time_s"}
    columns |= {"margin": "margin", "default": "default", "gain": "gain"}
    columns |= {**RUNS, "unsure": "unsure", "or": "rival", "why": "why"}
    note = "margin: how many times as long the second takes."
    if _sure(rows):
        note += ENDS + RIVAL
    blocks: list[Block] = [table("Who wins where", rows, columns, ["of bound"], note)]
    blocks += _not_tried(report["not_tried"])
    return Story(f"Best algorithms: {case}", summary, blocks)


def explained(result: Result) -> Story:
    """All algorithms at one size."""
    rows: Sequence[Record] = result.report
    parameters = result.origin.get("parameters", {})
    case = f"{parameters.get('collective')}, {parameters.get('p')} ranks, {parameters.get('size')}"
    best, worst = rows[0], max(rows, key=lambda row: number(row, "over_best"))
    where = parameters.get("topology")
    summary = [
        f"Which algorithm is the fastest for {case} on {where}?",
        f"{best['algorithm']} takes {format_seconds(number(best, 'time_s'))}: {best['path']}.",
        f"The slowest is {worst['algorithm']}: {times(number(worst, 'over_best'))} times that.",
    ]
    columns = {**EXPLAINED, "unsure": "unsure", "own software": "own_software"}
    note = "of best: the time as a multiple of that of the fastest."
    if _sure(rows):
        note += f"{ENDS} perhaps as fast: the difference to the fastest is inside its error."
    return Story(
        f"Algorithms compared: {case}", summary, [table("All algorithms", rows, columns, note=note)]
    )
