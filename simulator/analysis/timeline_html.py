"""A timeline as HTML, for notebooks: its critical path by part, and when each rank works."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.analysis.critical_path import critical_path, parts
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Timeline, union
from topologies.html_tables import facts
from topologies.topology import Longs
from topologies.units import format_seconds

STRIP_RANKS = 16
"""The ranks that the strip shows."""
WIDTH, ROW, MARGIN = 480, 12, 40
"""The pixels of the strip, of a rank's row, and left of the strip."""
COLOURS = {"computes": "#0072b2", "sends": "#d55e00"}


def timeline_html(timeline: Timeline) -> str:
    """Its makespan, the critical path by part, and a strip of its first ranks."""
    shares = parts(critical_path(timeline))
    values = [("time", format_seconds(timeline.makespan))]
    values += [
        (f"critical path: {part}", f"{format_seconds(seconds)}, {seconds / timeline.makespan:.0%}")
        for part, seconds in shares.items()
        if seconds > 0
    ]
    return facts("Timeline", values) + (_strip(timeline) if timeline.makespan else "")


def _strip(timeline: Timeline) -> str:
    """When each rank computes (the upper half of its row) and sends (the lower half)."""
    schedule = timeline.schedule
    ranks = np.unique(schedule.rank)[:STRIP_RANKS].tolist()
    boxes = []
    for place, rank in enumerate(ranks):
        top = place * ROW
        boxes.append(f'<text x="0" y="{top + 9}" font-size="9">rank {rank}</text>')
        for half, (name, colour) in enumerate(COLOURS.items()):
            chosen = (schedule.kind == COMPUTE) if name == "computes" else schedule.remote
            for start, end in _busy(timeline, np.flatnonzero(chosen & (schedule.rank == rank))):
                boxes.append(
                    f'<rect x="{MARGIN + start}" y="{top + 1 + half * 5}" width="{end - start}" '
                    f'height="5" fill="{colour}"/>'
                )
    caption = "Each row is a rank. Upper half, blue: it computes. Lower half, orange: it sends."
    more = f" The strip shows {len(ranks)} of {schedule.ranks} ranks."
    size = f'width="{MARGIN + WIDTH}" height="{len(ranks) * ROW}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="currentColor">{"".join(boxes)}'
        f"</svg><p>{caption}{more if len(ranks) < schedule.ranks else ''}</p>"
    )


def _busy(timeline: Timeline, operations: Longs) -> Iterator[tuple[int, int]]:
    """The pixels from which and to which some of the operations run."""
    scale = WIDTH / timeline.makespan
    start = np.floor(timeline.start[operations] * scale).astype(np.int64).clip(0, WIDTH - 1)
    end = np.ceil(timeline.finish[operations] * scale).astype(np.int64).clip(start + 1, WIDTH)
    yield from union(start, end).T.tolist()
