"""CPU seconds of the parts of simctl: schedules, machines, engines and training steps."""

from __future__ import annotations

from experiments import output
from experiments.studies.process_usage import environment, parts_of, work
from topologies.units import format_seconds

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


def main(repeats: int = 7) -> str:
    """A row for each work: the least time of each part over the runs."""
    rows = [["work", "counted", "parts", "in all", "a second", "peak"]]
    for name, parts in WORKS.items():
        runs = [parts_of(work(name), environment()) for _ in range(repeats)]
        seconds = [min(each) for each in zip(*(run.seconds for run in runs), strict=True)]
        named = zip(parts.split(", "), seconds, strict=True)
        counted, total = runs[0].counted, sum(seconds)
        cells = [
            name,
            f"{counted:.0f}",
            ", ".join(f"{part} {format_seconds(s)}" for part, s in named),
        ]
        peak = min(run.peak for run in runs)
        rows.append(
            [*cells, format_seconds(total), f"{counted / total:.3g}", f"{peak / 1e6:.0f}MB"]
        )
    return output.align(rows)
