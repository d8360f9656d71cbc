"""The first commands on a machine: CPU seconds, and as multiples of a fixed loop of Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory

from experiments import output
from experiments.benchmarks.process_usage import COMPILE, SIMCTL, environment, unit, usage
from topologies.units import format_seconds

REPEATS = 5
SWEEP = (*SIMCTL, "sweep", "--algo", "ring", "--p", "64")
RUN = (*SIMCTL, "run", "--algo", "ring", "--p", "8")


def table() -> str:
    """Small commands and all compilation, with an empty cache and with a full one."""
    base = unit()
    rows = [["command", "compiled code", "CPU", "over the loop"]]
    with TemporaryDirectory() as folder:
        needed = {"SIMCTL_CACHE_DIR": folder, "SIMCTL_COMPILE": "needed"}
        rows += [
            _row("sweep --algo ring --p 64", "none", cpu(SWEEP, needed), base),
            _row("python -m simulator.kernels", "none", cpu(COMPILE, needed), base),
        ]
        for name, line in {
            "python -c pass": (sys.executable, "-c", "pass"),
            "--help": (*SIMCTL, "--help"),
            "run --algo ring --p 8": RUN,
            "sweep --algo ring --p 64": SWEEP,
            "sweep --algo ring --p 2..64": (*SWEEP[:-1], "2..64"),
        }.items():
            least = min(cpu(line, needed) for _ in range(REPEATS))
            rows.append(_row(name, "all", least, base))
    return output.align(rows)


def cpu(line: Sequence[str], variables: Mapping[str, str]) -> float:
    """CPU seconds of a process and of those that it waits for."""
    return usage(line, {**environment(), **variables}).cpu


def _row(name: str, compiled: str, seconds: float, base: float) -> list[str]:
    return [name, compiled, format_seconds(seconds), f"{seconds / base:.2f}"]
