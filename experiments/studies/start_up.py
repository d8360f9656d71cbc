"""Start-up: from when on compiled code pays."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Annotated

import typer

from experiments import output
from experiments.studies.process_usage import PYTHON, environment, usage
from topologies.units import format_seconds


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each sweep.")] = 7,
) -> str:
    """Whole sweeps, forced each way: from when on it pays to load compiled code."""
    rows = [["sweep", "never compiled", "always compiled", "chosen"]]
    script = (
        "from topologies import jit\njit.CROSSOVER = {}\nfrom experiments.cli import main\nmain()"
    )
    for last in (8, 12, 16, 20, 24, 32, 48):
        words = ["sweep", "--p", f"2..{last}", "--format", "csv"]
        times = []
        for limit in ("10**12", "-1", "jit.CROSSOVER"):
            seconds = []
            for _ in range(repeats + 1):  # the first run warms the caches
                begin = perf_counter()
                usage((*PYTHON, "-c", script.format(limit), *words), environment())
                seconds.append(perf_counter() - begin)
            times.append(format_seconds(median(seconds[1:])))
        rows.append([f"--p 2..{last}", *times])
    return output.align(rows)
