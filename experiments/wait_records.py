"""The waits on a critical path, for people and for JSON: who waits on which link, behind whom."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.names import rank_name
from simulator.analysis.critical_path import QueueWait
from simulator.schedules.schedule import Schedule
from topologies.units import format_seconds

SHOWN = 8
"""Waits that are shown, the longest."""
NAMED = 6
"""Ranks that are named of those behind which a rank waits."""


def wait_cells(waits: Sequence[QueueWait], schedule: Schedule, steps: float = 1) -> list[list[str]]:
    """A line a wait, seconds a step: the link, the time, and who waits behind whom. Where some
    ranks stand for all, so does the link."""
    like = " and all like it" if schedule.members > 1 else ""
    lines = [
        [f"  {wait.where}{like}", format_seconds(wait.seconds / steps), _who(wait, schedule)]
        for wait in waits[:SHOWN]
    ]
    rest = waits[SHOWN:]
    more = f"  {len(rest)} more", format_seconds(sum(wait.seconds for wait in rest) / steps), ""
    return [*lines, *([list(more)] if rest else [])]


def _who(wait: QueueWait, schedule: Schedule) -> str:
    workers = [str(rank) for rank in wait.behind if rank < schedule.workers]
    others = [rank_name(schedule, rank) for rank in wait.behind if rank >= schedule.workers]
    more = [f"{len(workers) - NAMED} more"] if len(workers) > NAMED else []
    ranks = ", ".join([*workers[:NAMED], *more])
    names = [f"rank{'' if len(workers) == 1 else 's'} {ranks}"] if workers else []
    return f"{rank_name(schedule, wait.waiter)} waits behind {', '.join([*names, *others])}"


def wait_records(waits: Sequence[QueueWait], schedule: Schedule) -> list[dict[str, object]]:
    """All waits, for JSON."""
    return [
        {
            "where": wait.where,
            "waits": rank_name(schedule, wait.waiter),
            "behind": [rank_name(schedule, rank) for rank in wait.behind],
            "seconds": wait.seconds,
        }
        for wait in waits
    ]
