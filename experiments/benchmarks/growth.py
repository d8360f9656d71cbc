"""How time and memory grow with the ranks and with the transfers, and what start-up costs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import linear_regression

from experiments import output
from experiments.benchmarks.process_usage import (
    PYTHON,
    SIMCTL,
    alternate,
    environment,
    in_process,
    usage,
)
from experiments.benchmarks.speed_rows import FULL
from topologies.errors import InputError
from topologies.units import format_seconds

RANKS = (64, 256, 1024, 4096)
FLAT = 1e6
"""Bytes below which memory says nothing of its growth."""


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of log(value) over log(size).

    >>> exponent([1, 10, 100], [3, 300, 30000])
    2.0
    """
    slope, _ = linear_regression([math.log(s) for s in sizes], [math.log(v) for v in values])
    return round(slope, 3)


Lines = list[list[str]]


def measure(repeats: int, with_long: bool) -> tuple[Lines, Lines]:
    """Build and simulate rings of all ranks in process: the figures, and their exponents. 4096
    ranks take long."""
    rows = [["ring of all ranks", "transfers", "CPU", "a transfer", "bytes", "a transfer"]]
    points = []
    for p in RANKS if with_long else RANKS[:-1]:
        line = (*PYTHON, "-c", FULL, str(p), "above")
        done = alternate({"": partial(in_process, line, environment())}, repeats)[""]
        if isinstance(done, str):
            raise InputError(f"a ring of {p} ranks fails: {done}")
        transfers = 2 * p * (p - 1)
        points.append((p, transfers, done.cpu, done.peak))
        times = [format_seconds(value) for value in (done.cpu, done.cpu / transfers)]
        memory = [f"{done.peak / 1e6:.1f}MB", f"{done.peak / transfers:.1f}B"]
        rows.append([f"{p} ranks", str(transfers), *times, *memory])
    return rows, exponents(points)


def table(repeats: int, with_long: bool) -> str:
    """The figures and the exponents as text."""
    return "\n\n".join(map(output.align, measure(repeats, with_long)))


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
    _, transfers, seconds, _ = zip(*points, strict=True)
    if len(points) > 2:
        ratio = (seconds[-1] / transfers[-1]) / (seconds[1] / transfers[1])
        rows.append(
            [f"a transfer at {points[-1][0]} ranks over {points[1][0]}", f"{ratio:.2f}", ""]
        )
    return rows


def imports(text: str, count: int = 6) -> list[list[str]]:
    """The packages that take the longest to import, of what `python -X importtime` prints, and
    their share."""
    seconds: dict[str, float] = {}
    for match in re.finditer(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\w+)", text, re.MULTILINE):
        seconds[match[2]] = seconds.get(match[2], 0) + int(match[1]) / 1e6
    total = sum(seconds.values())
    order = sorted(seconds, key=lambda name: -seconds[name])[:count]
    return [
        ["import", "time", "share"],
        *([name, format_seconds(seconds[name]), f"{seconds[name] / total:.0%}"] for name in order),
    ]


def startup() -> str:
    """What start-up costs most, in a command that loads compiled code."""
    script = (
        "import subprocess, sys\n"
        "print(subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True).stderr)"
    )
    line = (PYTHON[0], "-X", "importtime", *SIMCTL[1:], "sweep", "--algo", "ring", "--p", "64")
    return output.align(imports(usage((*PYTHON, "-c", script, *line), environment()).printed))
