"""`python -m experiments.benchmarks [engine|commands|crossover]`: a table each; medians, and ratios within the run.

`python -m experiments.benchmarks accuracy FOLDER` validates every curve of a folder of measurements.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from experiments import output
from topologies.units import format_seconds

REPEATS = 7
SIMCTL = str(Path(sysconfig.get_path("scripts")) / "simctl")
ENGINE = """
import resource, sys, time
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import SHAPES
ranks, shape, engine, warm = int(sys.argv[1]), SHAPES[sys.argv[2]], sys.argv[3], find("ring")
if engine == "compiled":
    simulate(warm.build(200, 1.0), shape(200, bandwidth=5e10, latency=1e-6), engine)
begin = time.perf_counter()
schedule = warm.build(ranks, 2.0**30)
built = time.perf_counter()
simulate(schedule, shape(ranks, bandwidth=5e10, latency=1e-6), engine)
end = time.perf_counter()
print(len(schedule), built - begin, end - built, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def engine() -> None:
    """Ring all-reduce, schedule built and simulated: the compiled engine warm, the reference beside it."""
    rows = [["engine", "ranks", "topology", "transfers", "build", "simulate", "both", "transfers/s", "peak"]]
    for name, ranks, shape in (
        ("reference", 96, "ring"),
        ("compiled", 96, "ring"),
        ("compiled", 1024, "ring"),
        ("compiled", 1024, "star"),
    ):
        runs = [_child(ENGINE, str(ranks), shape, name) for _ in range(REPEATS)]
        transfers, build, simulate, peak = (median(column) for column in zip(*runs, strict=True))
        times = [format_seconds(value) for value in (build, simulate, build + simulate)]
        rate = f"{transfers / (build + simulate):.3g}"
        rows.append([name, str(ranks), shape, f"{transfers:.0f}", *times, rate, f"{peak / 1e6:.0f}MB"])
    output.say(output.align(rows))


def commands() -> None:
    """Whole processes with compiled code cached, beside an interpreter that does nothing."""
    lines: dict[str, Sequence[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "simctl --help": [SIMCTL, "--help"],
        "simctl run --p 8": [SIMCTL, "run", "--p", "8"],
        "simctl sweep --p 2..64": [SIMCTL, "sweep", "--algo", "ring", "--p", "2..64"],
    }
    seconds = {name: _median(line) for name, line in lines.items()}
    base = seconds["python -c pass"]
    rows = [[name, format_seconds(value), f"{value / base:.1f}"] for name, value in seconds.items()]
    output.say(output.align([["command", "median", "over python"], *rows]))


def crossover() -> None:
    """Where loading compiled code begins to pay: whole sweeps, forced each way."""
    rows = [["sweep", "never compiled", "always compiled", "chosen"]]
    script = (
        "import sys\nfrom topologies import _compile\n_compile.CROSSOVER = {}\nfrom experiments.cli import main\nmain()"
    )
    for last in (8, 12, 16, 20, 24, 32, 48):
        line = ["sweep", "--p", f"2..{last}", "--format", "csv"]
        limits = ("10**12", "-1", "_compile.CROSSOVER")
        times = [_median([sys.executable, "-c", script.format(limit), *line]) for limit in limits]
        rows.append([f"--p 2..{last}", *map(format_seconds, times)])
    output.say(output.align(rows))


def _child(script: str, *arguments: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", script, *arguments], check=True, capture_output=True, text=True)
    return [float(value) for value in done.stdout.split()]


def _median(line: Sequence[str]) -> float:
    """The median time of a command over some runs, after one that warms the caches."""
    seconds = []
    for _ in range(REPEATS + 1):
        begin = perf_counter()
        subprocess.run(line, check=True, capture_output=True)
        seconds.append(perf_counter() - begin)
    return median(seconds[1:])


BENCHMARKS = {"engine": engine, "commands": commands, "crossover": crossover}

if __name__ == "__main__":
    if sys.argv[1:2] == ["accuracy"] and len(sys.argv) == 3:
        from experiments.benchmarks.accuracy import table

        output.say(table(Path(sys.argv[2])))
        sys.exit()
    chosen = sys.argv[1:] or ["engine", "commands"]
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"{unknown[0]!r} is no benchmark: {', '.join(BENCHMARKS)}")
    for name in chosen:
        BENCHMARKS[name]()
