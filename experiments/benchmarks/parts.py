"""Medians of times of parts of simctl."""

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
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(len(schedule), built - begin, end - built, peak)
"""

CLUSTER = """
import resource, sys, time
from simulator.collectives import find
from simulator.engines import simulate
from topologies.clusters import cluster
from topologies.shapes import star
nodes = int(sys.argv[1])
if nodes <= 128:
    simulate(find("ring").build(200, 1.0), star(200, bandwidth=5e10, latency=1e-6), "compiled")
begin = time.perf_counter()
machine = cluster("hgx_h100", nodes)
built = time.perf_counter()
if nodes <= 128:
    simulate(find("ring").build(machine.ranks, 2.0**30), machine, "compiled")
end = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(machine.ranks, built - begin, end - built, peak)
"""
FAIR = """
import resource, sys, time
import numpy as np
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.engines import simulate
from topologies.shapes import star
def exchange(ranks):
    builder = ScheduleBuilder(ranks, 1.0)
    pairs = np.argwhere(~np.eye(ranks, dtype=bool))
    sizes = 1e6 * (1 + np.random.default_rng(0).permutation(len(pairs)) / len(pairs))
    for (rank, peer), size in zip(pairs.tolist(), sizes.tolist()):
        builder.signal(rank, peer, nbytes=size)
    return builder.build()
ranks = int(sys.argv[1])
simulate(exchange(4), star(4, bandwidth=1e9), "compiled", sharing="fair")
schedule, machine = exchange(ranks), star(ranks, bandwidth=1e9, latency=1e-6)
begin = time.process_time()
simulate(schedule, machine, "compiled", sharing="fair")
end = time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(len(schedule), end - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""

STEPS = """
import resource, sys, time
from experiments.models.model_catalogue import find
from experiments.training.strategy_options import find as strategy
from simulator.engines import simulate
from simulator.training.measures import measure
from simulator.training.plan import Setting
from topologies.shapes import star
chosen, ranks, steps = strategy(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
model = find("bert_large")
machine = star(ranks + chosen.servers(ranks), bandwidth=12e9, latency=2e-6)
for run in range(2):
    begin = time.perf_counter()
    plan = chosen.plan(model, Setting(machine, ranks, steps))
    built = time.perf_counter()
    timeline = simulate(plan.schedule, machine, "compiled")
    simulated = time.perf_counter()
    measure(plan, timeline)
    end = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(len(plan.schedule), built - begin, simulated - built, end - simulated, peak)
"""


def engine() -> None:
    """Ring all-reduce, schedule built and simulated: the compiled engine warm, and the
    reference."""
    rows = [
        [
            "engine",
            "ranks",
            "topology",
            "transfers",
            "build",
            "simulate",
            "both",
            "transfers/s",
            "peak",
        ]
    ]
    for name, ranks, shape in (
        ("reference", 96, "ring"),
        ("compiled", 96, "ring"),
        ("compiled", 1024, "ring"),
        ("compiled", 1024, "star"),
    ):
        transfers, build, simulate, peak = _medians(ENGINE, ranks, shape, name)
        times = [format_seconds(value) for value in (build, simulate, build + simulate)]
        rate = f"{transfers / (build + simulate):.3g}"
        rows.append(
            [name, str(ranks), shape, f"{transfers:.0f}", *times, rate, f"{peak / 1e6:.0f}MB"]
        )
    output.say(output.align(rows))


def machines() -> None:
    """HGX H100 nodes on rails, with a ring all-reduce of 1 GiB up to 1024 GPUs; all-to-alls of
    distinct sizes, shared fairly, on a star. Compiled and warm."""
    rows = [["machine", "GPUs", "build", "ring", "both", "peak"]]
    for nodes in (16, 128, 16384):
        gpus, build, ring, peak = _medians(CLUSTER, nodes)
        times = [
            format_seconds(build),
            *([format_seconds(ring), format_seconds(build + ring)] if gpus <= 1024 else ["", ""]),
        ]
        rows.append([f"hgx_h100:nodes={nodes}", f"{gpus:.0f}", *times, f"{peak / 1e6:.0f}MB"])
    output.say(f"{output.align(rows)}\n\n{output.align(_fair_rows())}")


def _fair_rows() -> list[list[str]]:
    """All-to-alls under fair sharing: flows and CPU seconds at two numbers of ranks, and both as
    ratios."""
    rows, medians = [["fair all-to-all", "flows", "simulate, CPU", "peak"]], []
    for ranks in (64, 128):
        flows, seconds, peak = _medians(FAIR, ranks)
        medians.append((flows, seconds))
        rows.append(
            [f"{ranks} ranks", f"{flows:.0f}", format_seconds(seconds), f"{peak / 1e6:.0f}MB"]
        )
    ratios = [f"{large / small:.1f}" for small, large in zip(*medians, strict=True)]
    return [*rows, ["128 over 64", *ratios, ""]]


def steps() -> None:
    """Training of BERT-large on a star: the second run in a process."""
    rows = [
        [
            "strategy",
            "workers",
            "steps",
            "operations",
            "build",
            "simulate",
            "both",
            "measure",
            "peak",
        ]
    ]
    for strategy, ranks, count in (("ddp:algo=ring", 64, 1), ("asgd", 64, 16), ("asgd", 64, 1000)):
        operations, build, simulate, measure, peak = _medians(STEPS, strategy, ranks, count)
        times = [format_seconds(value) for value in (build, simulate, build + simulate, measure)]
        rows.append(
            [strategy, str(ranks), str(count), f"{operations:.0f}", *times, f"{peak / 1e6:.0f}MB"]
        )
    output.say(output.align(rows))


def commands() -> None:
    """Whole processes with compiled code cached, and an interpreter that does nothing."""
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
    """From when on it pays to load compiled code: whole sweeps, forced each way."""
    rows = [["sweep", "never compiled", "always compiled", "chosen"]]
    script = (
        "import sys\nfrom topologies import _compile\n_compile.CROSSOVER = {}\nfrom "
        "experiments.cli import main\nmain()"
    )
    for last in (8, 12, 16, 20, 24, 32, 48):
        line = ["sweep", "--p", f"2..{last}", "--format", "csv"]
        limits = ("10**12", "-1", "_compile.CROSSOVER")
        times = [_median([sys.executable, "-c", script.format(limit), *line]) for limit in limits]
        rows.append([f"--p 2..{last}", *map(format_seconds, times)])
    output.say(output.align(rows))


def _medians(script: str, *arguments: object) -> list[float]:
    """The medians of what a script prints."""
    line = [sys.executable, "-c", script, *map(str, arguments)]
    done = [subprocess.run(line, check=True, capture_output=True) for _ in range(REPEATS)]
    return [
        median(map(float, column))
        for column in zip(*(run.stdout.split() for run in done), strict=True)
    ]


def _median(line: Sequence[str]) -> float:
    """The median time of a command over some runs, after one that warms the caches."""
    seconds = []
    for _ in range(REPEATS + 1):
        begin = perf_counter()
        subprocess.run(line, check=True, capture_output=True)
        seconds.append(perf_counter() - begin)
    return median(seconds[1:])


BENCHMARKS = {
    "engine": engine,
    "machines": machines,
    "steps": steps,
    "commands": commands,
    "crossover": crossover,
}
