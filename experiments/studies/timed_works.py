"""Works that run in a process of their own: `python timed_works.py WORK ARGUMENT...`.

A process prints a count, its bytes before the first part and at its peak, and the CPU seconds of
each part. It runs this file by its path, so it can measure the packages of an older revision: what
an older one may have elsewhere is imported where it is needed.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from time import process_time

import numpy as np

from simulator.collectives import find
from simulator.engines import Engine, simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.columns import plain_rows
from topologies.shapes import SHAPES, star

Parts = Iterator[int]
"""A work yields 0 when it is prepared, then a count after each part."""


def ring(ranks: str, shape: str = "ring", engine: Engine = "compiled") -> Parts:
    """Build a ring all-reduce of 64 MiB, and simulate it. Counts transfers."""
    if engine == "compiled":
        warm()
    yield 0
    schedule = find("ring").build(int(ranks), 2.0**26)
    yield len(schedule)
    machine = SHAPES[shape](int(ranks), bandwidth=5e10, latency=1e-6)
    simulate(schedule, machine, engine)
    yield len(schedule)


def fair(ranks: str) -> Parts:
    """Simulate an all-to-all of distinct sizes on a star under fair sharing. Counts flows."""
    simulate(_exchange(4), star(4, bandwidth=1e9), "compiled", sharing="fair")
    schedule, switch = _exchange(int(ranks)), star(int(ranks), bandwidth=1e9, latency=1e-6)
    yield 0
    simulate(schedule, switch, "compiled", sharing="fair")
    yield len(schedule)


def _exchange(ranks: int) -> Schedule:
    builder = ScheduleBuilder(ranks, 1.0)
    pairs = np.argwhere(~np.eye(ranks, dtype=bool))
    sizes = 1e6 * (1 + np.random.default_rng(0).permutation(len(pairs)) / len(pairs))
    for (rank, peer), size in plain_rows(pairs, sizes):
        builder.signal(rank, peer, nbytes=size)
    return builder.build()


def calibration(count: str) -> Parts:
    """Calibrate on a curve of many sizes, with 3% noise. Counts sizes."""
    from experiments.calibration.calibrated_profile import calibrate
    from experiments.calibration.libraries import NCCL
    from experiments.calibration.observations import FitCurve, FitPoints

    sizes = np.geomspace(2.0**10, 2.0**30, int(count))
    noise = np.exp(0.03 * np.random.default_rng(1).normal(size=len(sizes)))
    seconds = (4e-5 + (sizes / 1e15) ** 0.5 + sizes / 2e11) * noise
    curve = FitCurve("made up", "all_reduce", ("ring", "double_tree"), 16, 2, sizes, seconds)
    yield 0
    calibrate(FitPoints([curve]), NCCL)
    yield len(sizes)


def warm() -> None:
    """Load the compiled code."""
    switch = star(200, bandwidth=5e10, latency=1e-6)
    simulate(find("ring").build(200, 1.0), switch, "compiled")


def run(parts: Parts) -> list[float]:
    """The last count, bytes before and at the peak, and CPU seconds of each part."""
    count = next(parts)
    before, marks = _peak(), [process_time()]
    for count in parts:  # noqa: B007 - the last one counts
        marks.append(process_time())
    return [count, before, _peak(), *np.diff(marks).tolist()]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    works = ring, fair, calibration
    chosen = next(work for work in works if work.__name__ == sys.argv[1])
    sys.stdout.write(" ".join(map(str, run(chosen(*sys.argv[2:])))))
