"""The works whose speed has a goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from experiments.studies.process_usage import (
    SIMCTL,
    ProcessUsage,
    in_process,
    usage,
    with_empty_cache,
)
from experiments.studies.process_usage import work as work_line
from topologies.errors import InputError

MB, GB = 1e6, 1e9


class Goal(NamedTuple):
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
    run: Callable[[Sequence[str], Mapping[str, str] | None], ProcessUsage] = usage
    """Measures the command."""
    clock: str = "cpu"
    """"cpu", or "elapsed" where several processes run at once."""
    is_long: bool = False
    """Whether it takes more than a minute."""


def _simctl(
    work: str, must: float, aim: float | None = None, must_bytes: float | None = None
) -> Goal:
    return Goal(work, (*SIMCTL, *work.split()), must, aim, must_bytes)


def _in_process(work: str, arguments: str, must: float, aim: float) -> Goal:
    return Goal(f"{work}, in process", work_line(arguments), must, aim, run=in_process)


POINTS = (
    "sweep --algo ring,naive,binary_tree,double_tree,recursive_doubling,rings --p 2..64 "
    "--size 1KiB..64GiB:x2 --jobs 2 --format csv"
)
LLAMA = "train --model llama_7b:device=h200 --topology"
IN_NODES = "--strategy ddp:algo=two_level"
"""Rings inside nodes, and across them."""
GOALS = (
    _simctl("sweep --algo ring --p 1024", 0.8, 0.5, 150 * MB),
    _simctl("sweep --algo ring --p 1024 --symmetry off", 2.5, 1.5, 500 * MB),
    _simctl("run --algo ring --p 1024", 1.0, 0.6),
    _in_process("build and simulate a ring of 1024", "ring 1024", 0.6, 0.35),
    _simctl("sweep --algo ring --p 64", 0.4, 0.3),
    _simctl("sweep --algo ring --p 2..64", 1.0, 0.7),
    _simctl("run --algo ring --p 8", 0.3),
    _simctl("--help", 0.1),
    _simctl("sweep --algo ring --p 4096 --symmetry off", 20, 10, 6 * GB)._replace(is_long=True),
    _simctl("sweep --algo ring --p 65536", 1, 0.6),
    _simctl("sweep --algo ring --p 1048576", 6, 3),
    _simctl("sweep --algo two_level --topology nodes:per_node=8 --p 131072", 2, 1),
    _simctl("sweep --algo rings --topology hgx_h100:nodes=128", 2, 1),
    _in_process("fair all-to-all of 64 ranks", "fair 64", 0.2, 0.12),
    _in_process("fair all-to-all of 128 ranks", "fair 128", 1.5, 0.8),
    _in_process("calibrate on 1,000 sizes of a curve", "calibration 1000", 10, 5),
    _simctl(POINTS, 40, 20)._replace(
        work="sweep of 10,206 points, --jobs 2", clock="elapsed", is_long=True
    ),
    _simctl("sweep --algo ring --p 64", 12, 8)._replace(
        work="compile all, then sweep --algo ring --p 64", run=with_empty_cache, clock="elapsed"
    ),
    _simctl("train --model bert_large --topology hgx_h100:nodes=16", 2, 1),
    _simctl(f"{LLAMA} hgx_h100:nodes=128", 3),
    _simctl(f"{LLAMA} hgx_h100:nodes=128 {IN_NODES}", 3),
    _simctl(f"{LLAMA} hgx_h100:nodes=2048 {IN_NODES}", 10),
    _simctl("train --model resnet50 --topology hgx_h100:nodes=128", 50)._replace(is_long=True),
    _simctl(f"{LLAMA} nodes:per_node=8 --p 16384 {IN_NODES}", 10),
)


def select(words: Sequence[str], with_long: bool) -> list[Goal]:
    """The goals whose names contain one of `words`, or all; long ones only if asked for."""
    for word in words:
        if not any(word in goal.work for goal in GOALS):
            raise InputError(f"no row has {word[:80]!r} in its name: --list prints the rows")
    chosen = [goal for goal in GOALS if not words or any(word in goal.work for word in words)]
    kept = [goal for goal in chosen if with_long or not goal.is_long]
    if not kept:
        raise InputError(f"{chosen[0].work!r} takes more than a minute: add --long")
    return kept
