"""Start-up: the first commands on a machine, small commands after them, and imports."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import typer

from experiments import output
from experiments.studies.process_usage import (
    PYTHON,
    SIMCTL,
    ProcessUsage,
    compiling,
    environment,
    unit,
    usage,
)
from topologies.units import format_seconds

SWEEP = (*SIMCTL, "sweep", "--algo", "ring", "--p", "64")


def main(
    crossover: Annotated[
        bool, typer.Option(help="Time sweeps with compiled code forced each way instead.")
    ] = False,
) -> str:
    """CPU seconds of commands with an empty cache of compiled code and with a full one, and the
    largest imports."""
    if crossover:
        return output.align(crossovers())
    return f"{output.align(commands())}\n\n{output.align(imports(_import_times()))}"


def commands(repeats: int = 5) -> list[list[str]]:
    """A row for each command: seconds, and CPU over the fixed loop."""
    base = unit()
    rows = [["command", "compiled code", "CPU", "over the loop", "elapsed"]]
    with TemporaryDirectory() as folder:
        needed = {"SIMCTL_CACHE_DIR": folder, "SIMCTL_COMPILE": "needed"}
        for name, line in {
            "sweep --algo ring --p 64": SWEEP,
            "python -m simulator.kernels": compiling(),
        }.items():
            rows.append(_row(name, "none", [used(line, needed)], base))
        for name, line in {
            "python -c pass": (sys.executable, "-c", "pass"),
            "--help": (*SIMCTL, "--help"),
            "run --algo ring --p 8": (*SIMCTL, "run", "--algo", "ring", "--p", "8"),
            "sweep --algo ring --p 64": SWEEP,
            "sweep --algo ring --p 2..64": (*SWEEP[:-1], "2..64"),
        }.items():
            rows.append(_row(name, "all", [used(line, needed) for _ in range(repeats)], base))
    return rows


def used(line: Sequence[str], variables: Mapping[str, str]) -> ProcessUsage:
    """The usage of a process and of those that it waits for."""
    return usage(line, {**environment(), **variables})


def _row(name: str, compiled: str, runs: Sequence[ProcessUsage], base: float) -> list[str]:
    cpu, elapsed = min(run.cpu for run in runs), min(run.elapsed for run in runs)
    return [name, compiled, format_seconds(cpu), f"{cpu / base:.2f}", format_seconds(elapsed)]


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


def _import_times() -> str:
    line = (PYTHON[0], "-X", "importtime", *SWEEP[1:])
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
    return done.stderr


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
