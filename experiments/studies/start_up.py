"""Start-up: the imports that take the longest, and from when on compiled code pays."""

from __future__ import annotations

import re
import subprocess
from statistics import median
from time import perf_counter
from typing import Annotated

import typer

from experiments import output
from experiments.studies.process_usage import PYTHON, SIMCTL, environment, usage
from topologies.units import format_seconds


def main(
    crossover: Annotated[
        bool, typer.Option(help="Time sweeps with compiled code forced each way instead.")
    ] = False,
) -> str:
    """The packages that a command with compiled code spends most time to import."""
    if crossover:
        return output.align(crossovers())
    sweep = (*SIMCTL[1:], "sweep", "--algo", "ring", "--p", "64")
    line = (PYTHON[0], "-X", "importtime", *sweep)
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
    return output.align(imports(done.stderr))


def imports(text: str, count: int = 6) -> list[list[str]]:
    """The packages that take the longest to import, from the output of `python -X importtime`,
    and their share."""
    seconds: dict[str, float] = {}
    for match in re.finditer(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\w+)", text, re.MULTILINE):
        seconds[match[2]] = seconds.get(match[2], 0) + int(match[1]) / 1e6
    total = sum(seconds.values())
    order = sorted(seconds, key=lambda name: -seconds[name])[:count]
    return [
        ["import", "time", "share"],
        *([name, format_seconds(seconds[name]), f"{seconds[name] / total:.0%}"] for name in order),
    ]


def crossovers(repeats: int = 7) -> list[list[str]]:
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
    return rows
