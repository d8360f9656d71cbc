"""The answer of `simctl recommend --plan`: what the hosts of a job cost its collectives."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.answer_blocks import Block, Record, Remarks, Story, table
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.templates import headed, times
from topologies.units import format_bytes

MATTERS = 1.01
"""What takes no more than this many times as long costs nothing."""
HASH = (
    "A message takes one of several equal uplinks by a hash, and some meet there. Networks that "
    "route around them lose less."
)
NAMED = 64
"""Hosts that are named."""


def story(result: Result) -> Story:
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
