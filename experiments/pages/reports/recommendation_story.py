"""The answers of `simctl recommend`: the best algorithm of each size, or all at one size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from experiments.answer_blocks import (
    Block,
    Record,
    Remarks,
    Story,
    listed,
    span,
    table,
    unless_empty,
)
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.profiles.interval_levels import RUNS
from experiments.simulations.recommendation import GAIN
from experiments.simulations.winners import ADVICE, EXPLAINED
from experiments.templates import Columns, fill, headed, times
from topologies.units import format_bytes, in_binary

CLOSE = 1.05
"""A winner that is less than so many times as fast as the second wins by little."""
OWN = "With software of your own"
"""What the library cannot run on the machine."""


def story(result: Result) -> Story:
    """The best algorithm of each size."""
    report = result.report
    rows = report["advice"]
    changes = report["crossovers"]
    ranks = counted(report["ranks"], "rank")
    case = f"{report['collective']}, {ranks} on {report['machine']}"
    sizes = span((row["size_B"] for row in rows), format_bytes)
    summary = [
        f"Which {report['collective']} is the fastest for {ranks} on {report['machine']}, at sizes "
        f"of {sizes}?",
        _answer(rows, changes),
        _gain(rows),
    ]
    binary = in_binary(row["size_B"] for row in rows)
    defaults = listed(row["default"] for row in rows)
    note = f"gain: how many times as long the default of the library takes: {defaults}."
    note += f"\n{result.interval}" * bool(_sure(rows))
    more = {**headed("unsure", "default"), "default takes": "default_time_s"}
    more |= {"own software": "own_software", "takes": "own_software_time_s"}
    heads: Columns = {
        "from size": lambda row: format_bytes(row["size_B"], binary),
        "take": "after",
        "instead of": "before",
    }
    first = {row["algorithm"]: row for row in reversed(rows)}
    reasons = sorted(first.values(), key=lambda row: row["size_B"])
    blocks: list[Block] = [
        table(
            "The best algorithm of each size",
            rows,
            {**ADVICE, **more},
            ["of bound", "message", *_sure(rows)],
            note,
            rare=[*more][::-1],
        ),
        *unless_empty("Where the best algorithm changes", changes, heads),
        *_own_software(rows),
        table("Why", reasons, headed("size_B", "algorithm", "why")),
        *_not_tried(report["not_tried"]),
    ]
    return Story(f"Best algorithms: {case}", summary, blocks, _left_out(result, rows))


def _answer(rows: Sequence[Record], changes: Sequence[Record]) -> str:
    first = f"Take {rows[0]['algorithm']}"
    if not changes:
        return f"{first} at every size."
    steps = [
        f"{each['after']} from {format_bytes(each['size_B'], binary=True)}" for each in changes
    ]
    return f"{first} at small sizes, then {listed(steps, most=6)}."


def _gain(rows: Sequence[Record]) -> str:
    best = max(rows, key=lambda row: row["gain"])
    if best["gain"] <= GAIN:
        return "The default of the library is as good at every size."
    return (
        f"This gains most at {format_bytes(best['size_B'])}: the library's default "
        f"{best['default']} takes {times(best['gain'])} times as long there."
    )


def _own_software(rows: Sequence[Record]) -> Sequence[Block]:
    """The algorithms that are faster than the best, but that the library cannot run."""
    faster: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.get("own_software") and row.get("own_software_time_s"):
            seconds = row.get("expected_s") or row["time_s"]
            points = faster.setdefault(row["own_software"].partition(":")[0], [])
            points.append((row["size_B"], seconds / row["own_software_time_s"]))
    records = []
    for name, points in faster.items():
        sizes, gains = zip(*points, strict=True)
        binary = in_binary(sizes)
        ends = span(sizes, partial(format_bytes, binary=binary))
        records.append({"algorithm": name, "sizes": ends, "gain": f"up to {max(gains):.2f}"})
    columns = {"algorithm": "algorithm", "sizes": "sizes", "times as fast": "gain"}
    return unless_empty(OWN, records, columns)


def _not_tried(left: Sequence[Record]) -> Sequence[Block]:
    heads = {"algorithm": "name", "reason": "why"}
    return unless_empty("Algorithms that were not tried", left, heads, page_only=True)


def _left_out(result: Result, rows: Sequence[Record]) -> list[str]:
    lines = []
    if left := dict.fromkeys(each["name"] for each in result.report["not_tried"]):
        lines.append(f"Not tried: {', '.join(left)}. --format json says why.")
    if all(row.get("own_software") is None for row in rows):
        lines.append(
            "Any software may run: --library nccl advises only what NCCL can run on the machine."
        )
    return lines


def _sure(rows: Sequence[Record]) -> list[str]:
    """The words of intervals, if a profile knows the error of runs."""
    return ["expected", "or"] * any(row.get("low_s") is not None for row in rows)


def winners(result: Result) -> Story:
    """The best algorithm of each number of ranks and size."""
    report = result.report
    rows = report["winners"]
    case = f"{report['collective']} on {report['machine']}"
    counts = dict.fromkeys(row["ranks"] for row in rows)
    wins = Counter(str(row["algorithm"]).partition(":")[0] for row in rows)
    name, most = wins.most_common(1)[0]
    close = sum(1 for row in rows if row["margin"] and row["margin"] < CLOSE)
    summary = [
        f"Which algorithm is the fastest for {case}, with {listed(map(str, counts), most=8)} "
        f"ranks?",
        f"{name} wins most often: at {most} of {len(rows)} points.",
        f"At {counted(close, 'point')} the second takes less than {CLOSE:g} times as long.",
    ]
    cells: dict[float, dict[str, Any]] = {}
    for row in rows:
        cells.setdefault(row["size_B"], {"size_B": row["size_B"]})[str(row["ranks"])] = _cell(row)
    note = "1.2x: the second algorithm takes 1.2 times as long."
    if any(row.get("rival") for row in rows):
        note += "\n?: the second may be as fast: the difference is inside its error."
    columns = {"p": "ranks", **headed("size_B", "algorithm", "time_s"), "of bound": "over_bound"}
    columns |= {"second": "second", "second takes": "second_time_s"}
    columns |= headed("margin", "default", "gain") | RUNS
    columns |= {"unsure": "unsure", "or": "rival", "why": "why"}
    margin, terms = "margin: how many times as long the second takes.", ["of bound", *_sure(rows)]
    margin += f"\n{result.interval}" * bool(_sure(rows))
    grid = {"size": "size_B"} | {f"p = {count}": str(count) for count in counts}
    blocks: list[Block] = [
        table("The fastest algorithm", [*cells.values()], grid, note=note),
        *_own_software(rows),
        table("Who wins where", rows, columns, terms, margin, page_only=True),
        *_not_tried(report["not_tried"]),
    ]
    return Story(f"Best algorithms: {case}", summary, blocks, _left_out(result, rows))


def _cell(row: Record) -> str:
    name, unsure = str(row["algorithm"]).partition(":")[0], "?" if row.get("rival") else ""
    return f"{name} {row['margin']:.2f}x{unsure}" if row["margin"] else name


def explained(result: Result) -> Story:
    """All algorithms at one size."""
    rows = result.report
    case = f"{result.stated('collective')}, {result.stated('p')} ranks, {result.stated('size')}"
    where = result.stated("topology")
    best, worst = rows[0], max(rows, key=lambda row: row["over_best"])
    summary = [
        f"Which algorithm is the fastest for {case} on {where}?",
        fill("{algorithm} takes {time_s}: {path}.", best),
        f"The slowest is {worst['algorithm']}: {times(worst['over_best'])} times that.",
    ]
    only_ours = [row for row in rows if row.get("own_software")]
    runs = [row for row in rows if row not in only_ours]
    note = "of best: the time as a multiple of that of the fastest."
    terms = ["expected", "perhaps as fast"] * bool(_sure(rows))
    note += f"\n{result.interval}" * bool(terms)
    columns, rare = {**EXPLAINED, "unsure": "unsure"}, ["unsure"]
    blocks: list[Block] = [table("All algorithms", runs, columns, terms, note, rare=rare)]
    blocks += unless_empty(OWN, only_ours, columns, rare=rare)
    return Story(f"Algorithms compared: {case} on {where}", summary, blocks)


MATTERS = 1.01
"""What takes no more than this many times as long costs nothing."""
HASH = (
    "A message takes one of several equal uplinks by a hash, and some meet there. Networks that "
    "route around them lose less."
)
NAMED = 64
"""Hosts that are named."""


def placement(result: Result) -> Story:
    """What each kind of group takes on the hosts of a job, and on as few leaves or racks."""
    report = result.report
    rows = report["collectives"]
    noun, hosts = report["shared"], counted(report["hosts"], "host")
    case = f"{report['plan']} on {hosts}"
    summary = [
        f"What does this placement cost the plan {report['plan']}? Its {hosts} are on "
        f"{_groups(report['groups'], noun)}, and need {report['fewest']}.",
        _worst(rows, noun, report["fewest"]),
        *_better(rows, noun),
    ]
    columns = {
        "groups": "group",
        **headed("collective", "ranks", "size_B"),
        _plural(noun): "shared",
        **headed("time_s", "in_order_s", "packed_s"),
        "cost": "{cost:.2f}x",
    }
    note = (
        f"All groups of a kind run at once. {_plural(noun)}: those that the ranks of a group are "
        f"on, at most.\n"
        f"in order: the same hosts, one {noun} after the other. packed: as many hosts on "
        f"{_groups(report['fewest'], noun)}. cost: time over packed."
    )
    blocks: list[Block] = [table("What the placement costs", rows, columns, note=note)]
    if _better(rows, noun):
        order, left = ",".join(report["order"][:NAMED]), len(report["order"]) - NAMED
        order += f" and {left} more: --format json has all" if left > 0 else ""
        blocks.append(Remarks(f"The hosts, one {noun} after the other", [order]))
    return Story(f"Placement: {case}", summary, blocks, [HASH] if noun != "rack" else [])


def _plural(noun: str) -> str:
    return "leaves" if noun == "leaf" else f"{noun}s"


def _groups(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {_plural(noun)}"


def _worst(rows: Sequence[Record], noun: str, fewest: int) -> str:
    worst = max(rows, key=lambda row: row["cost"])
    if worst["cost"] <= MATTERS:
        return f"It costs nothing: no collective is faster on {_groups(fewest, noun)}."
    return (
        f"{worst['group']} loses most: {_shown(worst)} takes {times(worst['cost'])} times as long "
        f"as on {_groups(fewest, noun)}."
    )


def _better(rows: Sequence[Record], noun: str) -> list[str]:
    """What the same hosts gain in another order, and what they lose."""
    gains = [(row["time_s"] / row["in_order_s"], row) for row in rows]
    most, row = max(gains, key=lambda pair: pair[0])
    least, other = min(gains, key=lambda pair: pair[0])
    if most <= MATTERS:
        return []
    line = (
        f"With the same hosts, one {noun} after the other, {_shown(row)} of {row['group']} is "
        f"{times(most)} times as fast."
    )
    if 1 / least > MATTERS:
        line += f" {_shown(other)} of {other['group']} takes {times(1 / least)} times as long then."
    return [line]


def _shown(row: Record) -> str:
    return f"{row['collective']} of {format_bytes(row['size_B'])}"
