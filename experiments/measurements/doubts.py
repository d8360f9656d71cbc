"""Finds impossible times, mostly those of a column in another unit, and nodes made of hosts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from experiments.measurements.curve import GUESSED, TRAYS, WAITING, Curve, Point, ranks_per_node
from experiments.output import counted
from topologies.units import format_bandwidth, format_bytes, format_seconds

TRAY, DOMAIN = 4, 72
"""The most GPUs of a tray, and of a domain."""


def domains(curve: Curve) -> int:
    """As few domains as hold the ranks, if nodes are likely trays of GB200 or GB300; else 0."""
    ranks, hosts = curve.ranks or 0, curve.nodes or 0
    joined = re.search(r"\bGB[23]00\b(?! NVL4)", f"{curve.device} {curve.machine} {curve.topology}")
    nodes = -(-ranks // DOMAIN)
    return nodes if joined and nodes < hosts and ranks <= TRAY * hosts else 0


def in_domains(curve: Curve, log: str) -> Curve:
    """The curve with domains for nodes, if its hosts are trays and its log does not say that NCCL
    takes each as a node."""
    if not (nodes := domains(curve)) or re.search(
        r"NCCL_MNNVL_ENABLE(?:=| set by environment to )['\"]?0|\bMNNVL 0\b", log
    ):
        return curve
    note = (
        f"{curve.nodes} hosts with {curve.device} {TRAYS} of {counted(nodes, 'NVLink domain')} of "
        f"up to {DOMAIN} GPUs: NCCL_MNNVL_ENABLE=0 in the log says that they are nodes"
    )
    per_node, notes = ranks_per_node(curve.ranks, nodes), (*curve.notes, note)
    return replace(curve, nodes=nodes, gpus_per_node=per_node, notes=notes)


FASTEST_RATE = 10e12
"""Bytes/s of algbw: more than a GPU reads of its own memory, 8 TB/s in 2025."""


def doubts(curves: Iterable[Curve]) -> Iterator[str]:
    """A line for each curve with impossible times: its file, the first size, and how many more. A
    line says which nodes are made of several hosts, which times may contain waiting, and which
    sizes are guessed.

    Times in place of a single rank do not count: it has nothing to do.
    """
    for curve in curves:
        name = Path(curve.source).name
        marks = TRAYS, WAITING, GUESSED
        yield from (
            f"{name}: {note}" for note in curve.notes if any(mark in note for mark in marks)
        )
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
    # seconds: less than a cache line takes from one core to the next, 20 ns or more
    if point.time_s < 10e-9:
        return f"{format_bytes(point.size)}: it takes {format_seconds(point.time_s)}"
    pairs = max((curve.ranks or 2) // 2, 1) if curve.collective == "send_recv" else 1
    rate = point.size / point.time_s
    return (
        f"{format_bytes(point.size)}: it moves {format_bandwidth(rate)}"
        if rate > FASTEST_RATE * pairs
        else ""
    )
