"""Parts of a schedule in which steps are alike."""

from __future__ import annotations

import numpy as np

from simulator.kernels.repeats import Parts
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import TRANSFER
from topologies.columns import plain_rows, spread
from topologies.topology import Numbers

FEWEST_STEPS = 64
"""Parts with fewer steps are left out."""


def alike_steps(routed: Routed, lanes: Numbers) -> Parts:
    """The parts of a folded schedule in which each operation is like that a step later. It uses
    some `lanes`."""
    parts: list[tuple[int, int, int, int]] = []
    if routed.schedule.fold is not None:
        for width in _widths(routed):
            for begin, end, reach in _alike(routed, width):
                if all(end <= part[0] or begin >= part[1] for part in parts):
                    parts.append((begin, end, width, reach))
    columns = np.array(sorted(parts), dtype=np.int32).reshape(-1, 4).T
    return Parts._make([*map(np.ascontiguousarray, columns), lanes.astype(np.int32)])


def _widths(routed: Routed) -> list[int]:
    """After how many operations the routes of eight operations come again."""
    widths, route = set[int](), routed.route
    for place in np.linspace(0, len(route), 8, endpoint=False).astype(int).tolist():
        again = np.flatnonzero(route[place + 1 :] == route[place])
        if len(again):
            widths.add(int(again[0]) + 1)
    return sorted(width for width in widths if width * FEWEST_STEPS < len(route))


def _alike(routed: Routed, width: int) -> list[tuple[int, int, int]]:
    """Where parts begin and end in which operations are like those a width later, and at most how
    many operations before it an operation waits for others in the part."""
    schedule, successors = routed.schedule, routed.schedule.successors
    count = np.diff(successors.indptr)
    alike = (schedule.kind[:-width] == TRANSFER) & (schedule.kind[width:] == TRANSFER)
    columns = routed.route, schedule.rank, schedule.peer, schedule.reduces, schedule.nbytes, count
    for column in columns:
        alike &= column[:-width] == column[width:]
    rows = np.flatnonzero(alike)
    row, offset = spread(count[rows])
    row = rows[row]
    waiting = successors.indices[successors.indptr[row] + offset]
    later = successors.indices[successors.indptr[row + width] + offset]
    moves = later == waiting + width
    alike[row[~moves & (later != waiting)]] = False
    edges = np.flatnonzero(np.diff(np.concatenate(([False], alike, [False])).astype(np.int8)))
    parts = []
    for begin, end in plain_rows(edges[::2], edges[1::2] + width):
        inside = slice(*np.searchsorted(row, [begin, end - width]).tolist())
        behind = waiting[inside] >= end
        distance = (waiting[inside] - row[inside])[~behind]
        if end - begin >= FEWEST_STEPS * width and moves[inside][~behind].all():
            parts.append((begin, end, int(distance.max(initial=0))))
    return parts
