"""The works whose speed has a goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from experiments.benchmarks.parts import FAIR
from experiments.benchmarks.process_usage import (
    PYTHON,
    SIMCTL,
    Usage,
    in_process,
    usage,
    with_empty_cache,
)
from topologies.errors import InputError

MB, GB = 1e6, 1e9
FULL = """
import resource, sys, time
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import ring
ranks, warm, peak = int(sys.argv[1]), find("ring"), resource.RUSAGE_SELF
simulate(warm.build(200, 1.0), ring(200, bandwidth=5e10, latency=1e-6), "compiled")
before = resource.getrusage(peak).ru_maxrss if sys.argv[2:] else 0
begin = time.process_time()
schedule = warm.build(ranks, 2.0**26)
simulate(schedule, ring(ranks, bandwidth=5e10, latency=1e-6), "compiled")
end = time.process_time()
print(len(schedule), end - begin, (resource.getrusage(peak).ru_maxrss - before) * 1024)
"""
"""Build and simulate a ring of all ranks. With a second argument it prints the bytes above those
before."""
CALIBRATE = """
import resource, sys, time
import numpy as np
from experiments.calibration.calibrated_profile import calibrate
from experiments.calibration.libraries import NCCL
from experiments.calibration.observations import FitCurve, FitPoints
sizes = np.geomspace(2.0**10, 2.0**30, int(sys.argv[1]))
noise = np.exp(0.03 * np.random.default_rng(1).normal(size=len(sizes)))
seconds = (4e-5 + (sizes / 1e15) ** 0.5 + sizes / 2e11) * noise
curve = FitCurve("made up", "all_reduce", ("ring", "double_tree"), 16, 2, sizes, seconds)
begin = time.process_time()
calibrate(FitPoints([curve]), NCCL)
end = time.process_time()
print(len(sizes), end - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
"""Calibrate on a curve of many sizes, with 3% noise."""
Runner = Callable[[Sequence[str], Mapping[str, str] | None], Usage]


class Row(NamedTuple):
    """A work, and its goals on a machine whose y is 0.45."""

    work: str
    """Its name in the table."""
    line: tuple[str, ...]
    """The command."""
    must: float
    """Seconds that it must reach."""
    aim: float | None = None
    """Seconds that would be good."""
    must_bytes: float | None = None
    """Bytes of memory that it must reach."""
    run: Runner = usage
    """What measures the command."""
    clock: str = "cpu"
    """"cpu", or "elapsed" where several processes run at once."""
    is_long: bool = False
    """Whether it takes more than a minute."""


def _simctl(
    work: str, must: float, aim: float | None = None, must_bytes: float | None = None
) -> Row:
    return Row(work, (*SIMCTL, *work.split()), must, aim, must_bytes)


def _script(work: str, script: str, ranks: int, must: float, aim: float) -> Row:
    return Row(work, (*PYTHON, "-c", script, str(ranks)), must, aim, run=in_process)


POINTS = (
    "sweep --algo ring,naive,binary_tree,double_tree,recursive_doubling,rings --p 2..64 "
    "--size 1KiB..64GiB:x2 --jobs 2 --format csv"
)
IN_NODES = "--strategy ddp:algo=two_level"
"""Rings inside nodes, and across them."""
ROWS = (
    _simctl("sweep --algo ring --p 1024", 0.8, 0.5, 150 * MB),
    _simctl("sweep --algo ring --p 1024 --symmetry off", 2.5, 1.5, 500 * MB),
    _simctl("run --algo ring --p 1024", 1.0, 0.6),
    _script("build and simulate a ring of 1024, in process", FULL, 1024, 0.6, 0.35),
    _simctl("sweep --algo ring --p 64", 0.4, 0.3),
    _simctl("sweep --algo ring --p 2..64", 1.0, 0.7),
    _simctl("run --algo ring --p 8", 0.3),
    _simctl("--help", 0.1),
    _simctl("sweep --algo ring --p 4096 --symmetry off", 20, 10, 6 * GB)._replace(is_long=True),
    _simctl("sweep --algo ring --p 65536", 1, 0.6),
    _simctl("sweep --algo ring --p 1048576", 6, 3),
    _simctl("sweep --algo two_level --topology nodes:per_node=8 --p 131072", 2, 1),
    _simctl("sweep --algo rings --topology hgx_h100:nodes=128", 2, 1),
    _script("fair all-to-all of 64 ranks, in process", FAIR, 64, 0.2, 0.12),
    _script("fair all-to-all of 128 ranks, in process", FAIR, 128, 1.5, 0.8),
    _script("calibrate on 1,000 sizes of a curve, in process", CALIBRATE, 1000, 10, 5),
    _simctl(POINTS, 40, 20)._replace(
        work="sweep of 10,206 points, --jobs 2", clock="elapsed", is_long=True
    ),
    _simctl("sweep --algo ring --p 64", 12, 8)._replace(
        work="compile all, then sweep --algo ring --p 64", run=with_empty_cache, clock="elapsed"
    ),
    _simctl("train --model bert_large --topology hgx_h100:nodes=16", 2, 1),
    _simctl("train --model llama_7b:device=h200 --topology hgx_h100:nodes=128", 3),
    _simctl(f"train --model llama_7b:device=h200 --topology hgx_h100:nodes=128 {IN_NODES}", 3),
    _simctl(f"train --model llama_7b:device=h200 --topology hgx_h100:nodes=2048 {IN_NODES}", 10),
    _simctl("train --model resnet50 --topology hgx_h100:nodes=128", 50)._replace(is_long=True),
    _simctl(
        f"train --model llama_7b:device=h200 --topology nodes:per_node=8 --p 16384 {IN_NODES}", 10
    ),
)


def select(words: Sequence[str], with_long: bool) -> list[Row]:
    """The rows whose names contain one of `words`, or all; long ones only if asked for."""
    for word in words:
        if not any(word in row.work for row in ROWS):
            raise InputError(f"no row has {word[:80]!r} in its name: --list prints the rows")
    chosen = [row for row in ROWS if not words or any(word in row.work for word in words)]
    kept = [row for row in chosen if with_long or not row.is_long]
    if not kept:
        raise InputError(f"{chosen[0].work!r} takes more than a minute: add --long")
    return kept
