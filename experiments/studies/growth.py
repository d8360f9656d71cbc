"""Growth of time and memory with the ranks and transfers of a ring, and times of simctl's parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import linear_regression
from typing import Annotated

import typer

from experiments import output
from experiments.studies.process_usage import environment, parts_of, work
from topologies.units import format_seconds

FLAT = 1e6
"""Bytes below which memory says nothing of its growth."""
Lines = list[list[str]]
WORKS = {
    "ring 96 ring reference": "build, simulate",
    "ring 96 ring": "build, simulate",
    "ring 1024 ring": "build, simulate",
    "ring 1024 star": "build, simulate",
    "machine 16": "build, ring of all GPUs",
    "machine 128": "build, ring of all GPUs",
    "machine 16384": "build",
    "fair 64": "simulate",
    "fair 128": "simulate",
    "steps ddp:algo=ring 64 1": "build, simulate, measure",
    "steps asgd 64 16": "build, simulate, measure",
    "steps asgd 64 1000": "build, simulate, measure",
}
"""The parts of each work of :mod:`experiments.studies.timed_works`, with its arguments."""


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each number of ranks.")] = 3,
    long: Annotated[bool, typer.Option(help="Also 4096 ranks, over a minute.")] = False,
) -> str:
    """Build and simulate rings of all ranks; then other works, part by part."""
    return "\n\n".join(map(output.align, (*tables(repeats, long), parts(repeats))))


def parts(repeats: int) -> Lines:
    """A row for each work: the least time of each part over the runs."""
    rows = [["work", "counted", "parts", "in all", "a second", "peak"]]
    for name, names in WORKS.items():
        runs = [parts_of(work(name), environment()) for _ in range(repeats)]
        seconds = [min(each) for each in zip(*(run.seconds for run in runs), strict=True)]
        pairs = zip(names.split(", "), seconds, strict=True)
        times = ", ".join(f"{part} {format_seconds(time)}" for part, time in pairs)
        rate, peak = runs[0].counted / sum(seconds), min(run.peak for run in runs)
        cells = [name, f"{runs[0].counted:.0f}", times, format_seconds(sum(seconds))]
        rows.append([*cells, f"{rate:.3g}", f"{peak / 1e6:.0f}MB"])
    return rows


def tables(repeats: int, with_long: bool) -> tuple[Lines, Lines]:
    """The figures of rings, in a process each, and their exponents."""
    rows = [["ring of all ranks", "transfers", "CPU", "a transfer", "bytes", "a transfer"]]
    points = []
    for p in (64, 256, 1024, 4096)[: 3 + with_long]:
        runs = [parts_of(work(f"ring {p}"), environment()) for _ in range(repeats)]
        seconds = min(sum(run.seconds) for run in runs)
        nbytes = min(run.peak - run.before for run in runs)
        transfers = runs[0].counted
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
    slope, _ = linear_regression([math.log(s) for s in sizes], [math.log(v) for v in values])
    return round(slope, 3)
