"""Growth of time and memory with the ranks and transfers of a ring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import numpy as np
import typer

from experiments import output
from experiments.studies.process_usage import environment, parts_of, work
from topologies.units import format_seconds

FLAT = 1e6
"""Bytes below which memory says nothing of its growth."""
Lines = list[list[str]]


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each number of ranks.")] = 3,
    long: Annotated[bool, typer.Option(help="Also 4096 ranks, over a minute.")] = False,
) -> str:
    """Build and simulate rings of all ranks."""
    return "\n\n".join(map(output.align, tables(repeats, long)))


def tables(repeats: int, with_long: bool) -> tuple[Lines, Lines]:
    """The figures of rings, in a process each, and their exponents."""
    rows = [["ring of all ranks", "transfers", "CPU", "a transfer", "bytes", "a transfer"]]
    points = []
    for p in (64, 256, 1024, 4096)[: 3 + with_long]:
        runs = np.array([parts_of(work(f"ring {p}"), environment()) for _ in range(repeats)])
        counted, before, peak, *parts = runs.T
        transfers, nbytes = float(counted[0]), float((peak - before).min())
        seconds = float(sum(parts).min())
        points.append((p, transfers, seconds, nbytes))
        times = [format_seconds(value) for value in (seconds, seconds / transfers)]
        memory = [f"{nbytes / 1e6:.1f}MB", f"{nbytes / transfers:.1f}B"]
        rows.append([f"{p} ranks", f"{transfers:.0f}", *times, *memory])
    return rows, exponents(points)


def exponents(points: Iterable[tuple[float, float, float, float]]) -> Lines:
    """The exponents of points of ranks, transfers, seconds and bytes."""
    points = list(points)
    large = [point for point in points if point[3] > FLAT]
    rows = [["exponent", "in p", "in transfers"]]
    for name, column, chosen in (("CPU", 2, points), ("bytes", 3, large)):
        values = [point[column] for point in chosen]
        slopes = [
            f"{exponent([point[k] for point in chosen], values):.2f}" if len(chosen) > 1 else ""
            for k in (0, 1)
        ]
        rows.append([name, *slopes])
    ranks, transfers, seconds, _ = zip(*points, strict=True)
    if len(points) > 2:
        ratio = (seconds[-1] / transfers[-1]) / (seconds[1] / transfers[1])
        rows.append([f"a transfer at {ranks[-1]} ranks over {ranks[1]}", f"{ratio:.2f}", ""])
    return rows


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of log(value) over log(size).

    >>> exponent([1, 10, 100], [3, 300, 30000])
    2.0
    """
    return round(float(np.polyfit(np.log(sizes), np.log(values), 1)[0]), 3)
