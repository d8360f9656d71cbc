"""Finds impossible times, mostly those of a column in another unit, and nodes made of hosts."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from experiments.measurements.curve import TRAYS, Curve, Point
from experiments.measurements.nvlink_domains import domains
from topologies.units import format_bandwidth, format_bytes, format_seconds

SHORTEST_TIME = 10e-9
"""Seconds: less than a cache line takes from one core to the next, 20 ns or more."""
FASTEST_RATE = 10e12
"""Bytes/s of algbw: more than a GPU reads of its own memory, 8 TB/s in 2025."""


def doubts(curves: Iterable[Curve]) -> Iterator[str]:
    """A line for each curve with impossible times: its file, the first size, and how many more. A
    line says which nodes are made of several hosts.

    Times in place of a single rank do not count: it has nothing to do.
    """
    for curve in curves:
        name = Path(curve.source).name
        yield from (f"{name}: {note}" for note in curve.notes if TRAYS in note)
        if (nodes := domains(curve)) and not (curve.hosts or curve.family):
            yield (
                f"{name}: {curve.nodes} nodes with {curve.device}: if they are trays of NVLink "
                f"domains, write {nodes} under nodes"
            )
        points = curve.points if curve.ranks == 1 else (*curve.points, *curve.in_place)
        wrong = [line for point in points if (line := _doubt(curve, point))]
        if wrong:
            question = "which is impossible: is its time in microseconds?"
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            yield f"{name}, row of {wrong[0]}, {question}{more}"


def _doubt(curve: Curve, point: Point) -> str:
    if point.time_s < SHORTEST_TIME:
        return f"{format_bytes(point.size)}: it takes {format_seconds(point.time_s)}"
    pairs = max((curve.ranks or 2) // 2, 1) if curve.collective == "send_recv" else 1
    rate = point.size / point.time_s
    return (
        f"{format_bytes(point.size)}: it moves {format_bandwidth(rate)}"
        if rate > FASTEST_RATE * pairs
        else ""
    )
