"""A schedule as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from topologies.html_tables import facts, table
from topologies.units import format_bytes

if TYPE_CHECKING:
    from simulator.schedules.schedule import Schedule

FIRST = 8
"""The transfers that a table shows."""


def schedule_html(schedule: Schedule) -> str:
    """Its ranks, steps and bytes, and its first transfers."""
    transfers = np.flatnonzero(schedule.remote)
    number = len(transfers) * schedule.members
    values: list[tuple[str, object]] = [
        ("ranks", schedule.ranks),
        ("V", format_bytes(schedule.nbytes_total)),
        ("slots of a rank", schedule.slots),
        ("steps", schedule.steps),
        ("transfers", number),
        ("bytes sent by all ranks", format_bytes(schedule.volume)),
    ]
    if schedule.fold is not None:
        values.append(("each listed transfer stands for", f"{schedule.members} transfers"))
    header = ("transfer", "from rank", "to rank", "bytes", "at the target", "phase")
    rows = _transfers(schedule, transfers[:FIRST].tolist())
    more = f"<p>and {len(transfers) - FIRST} more transfers</p>" if len(transfers) > FIRST else ""
    return facts("Schedule", values) + table(header, rows) + more


def _transfers(schedule: Schedule, operations: list[int]) -> Iterator[tuple[object, ...]]:
    for number in operations:
        phase = int(schedule.phase[number])
        yield (
            number,
            int(schedule.rank[number]),
            int(schedule.peer[number]),
            format_bytes(float(schedule.nbytes[number])),
            "adds" if schedule.reduces[number] else "overwrites",
            schedule.phases[phase] if 0 <= phase < len(schedule.phases) else "",
        )
