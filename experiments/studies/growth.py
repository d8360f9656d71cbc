"""Growth of time and memory with the ranks and transfers of a ring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer

from experiments import output
from experiments.studies.process_usage import environment, parts_of, work
from topologies.units import format_seconds

FLAT = 1e6
"""Bytes below which memory says nothing of its growth."""
RANKS = 64, 256, 1024, 4096
Point = tuple[int, float, float, float]
"""Ranks, transfers, seconds and bytes of a ring."""
Lines = list[list[str]]


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each number of ranks.")] = 3,
    long: Annotated[bool, typer.Option(help="Also 4096 ranks, over a minute.")] = False,
) -> str:
    """Build and simulate rings of all ranks."""
    return "\n\n".join(map(output.align, tables(repeats, long)))


def tables(repeats: int, with_long: bool) -> tuple[Lines, Lines]:
    """The figures of rings, in a process each, and their exponents."""
    points = [measured(p, repeats) for p in (RANKS if with_long else RANKS[:-1])]
    heads = ["ring of all ranks", "transfers", "CPU", "a transfer", "bytes", "a transfer"]
    return [heads, *(_line(*point) for point in points)], exponents(points)


def measured(ranks: int, repeats: int) -> Point:
    """The least time and memory of several runs."""
    runs = np.array([parts_of(work(f"ring {ranks}"), environment()) for _ in range(repeats)])
    counted, before, peak, *parts = runs.T
    return ranks, float(counted[0]), float(sum(parts).min()), float((peak - before).min())


def _line(ranks: int, transfers: float, seconds: float, nbytes: float) -> list[str]:
    times = [format_seconds(seconds), format_seconds(seconds / transfers)]
    memory = [f"{nbytes / 1e6:.1f}MB", f"{nbytes / transfers:.1f}B"]
    return [f"{ranks} ranks", f"{transfers:.0f}", *times, *memory]


def exponents(points: Sequence[Point]) -> Lines:
    """The slopes of the logarithms of time and memory over those of ranks and transfers."""
    ranks, transfers, seconds, nbytes = np.transpose(points)
    rows = [["exponent", "in p", "in transfers"]]
    for name, values, chosen in (("CPU", seconds, ranks > 0), ("bytes", nbytes, nbytes > FLAT)):
        logs = [np.log(column[chosen]) for column in (values, ranks, transfers)]
        slopes = [np.polyfit(each, logs[0], 1)[0] for each in logs[1:]]
        rows.append([name, *(f"{slope:.2f}" for slope in slopes)])
    each = seconds / transfers
    about = f"a transfer at {ranks[-1]:.0f} ranks over {ranks[1]:.0f}"
    return [*rows, [about, f"{each[-1] / each[1]:.2f}", ""]]
