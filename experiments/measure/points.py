"""The points to measure, by the collectives, algorithms and sizes that the user asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import lcm
from typing import Any

from experiments.measure.patterns import PROMISES, largest
from experiments.measure.program import granularity
from simulator.collectives import Algorithm, algorithms
from simulator.schedules.schedule import Schedule
from topologies.errors import InputError, nearest_name
from topologies.option_text import Parser, parse_pairs
from topologies.units import format_bytes, parse_seconds, parse_whole

ELEMENT_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}
"""Bytes of an element."""
IN_PLACE = ("all_reduce", "broadcast", "reduce")
"""The library's collectives that have one buffer for input and output."""
START_SECONDS = 120.0
"""The most seconds that the start of a process takes."""
MEETING_SECONDS = 10.0
"""The least seconds that ranks have to meet: they do not start at the same moment."""
FEWEST_REPETITIONS = 3
"""The least repetitions of a point, however long they take."""
_CUT = ("all_gather", "reduce_scatter", "scatter", "gather", "all_to_all")


@dataclass(frozen=True)
class MeasurementPoint:
    """A collective at a size."""

    collective: str
    """The collective."""
    algorithm: str
    """simctl's algorithm; empty for the library's collective."""
    elements: int
    """Elements of V."""
    size_bytes: int
    """V in bytes."""

    def __str__(self) -> str:
        name = self.algorithm or self.collective
        return f"{name} of {format_bytes(self.size_bytes)}" if self.size_bytes else name


@dataclass(frozen=True)
class MeasurementPlan:
    """All that a rank has to know."""

    backend: str
    """Of torch.distributed: gloo, nccl or mpi."""
    device: str
    """cpu or cuda."""
    dtype: str
    """The type of an element."""
    ranks: int
    """The number of ranks."""
    init: str
    """The URL at which torch.distributed lets ranks meet."""
    points: tuple[MeasurementPoint, ...]
    """The points, in their order."""
    repetitions: int = 100
    """The most repetitions of a point."""
    warmup: int = 2
    """Repetitions before the timed ones."""
    budget: float = 1.0
    """Seconds for the repetitions of a point."""
    timeout: float = 60.0
    """Seconds that a rank waits for another rank."""
    seed: int = 0
    """The seed of the test data."""

    @property
    def meeting(self) -> float:
        """Seconds in which all ranks have to meet."""
        return max(MEETING_SECONDS, self.timeout)

    @property
    def patience(self) -> float:
        """Seconds after which silent ranks count as failed."""
        return START_SECONDS + self.budget + (self.warmup + FEWEST_REPETITIONS + 1) * self.timeout


def parse_names(text: str) -> list[str]:
    """Collectives of the library and simctl's algorithms, separated by commas.

    Raises InputError with the nearest name.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in PROMISES:
            _algorithm(name)
    return names


def parse_effort(text: str) -> dict[str, Any]:
    """The fields of a plan that "repetitions=100,warmup=2,budget=1s,timeout=60s" or some of it
    names."""
    example = "repetitions=100,warmup=2,budget=1s,timeout=60s"
    parsers: dict[str, Parser] = dict.fromkeys(("repetitions", "warmup"), parse_whole)
    parsers |= dict.fromkeys(("budget", "timeout"), parse_seconds)
    expected = f"--effort {text[:60]!r}: write some of {example}"
    values = parse_pairs(text, "--effort", parsers, unknown=lambda _: expected, example=example)
    if not all(values.get(key, 1) >= 1 for key in ("repetitions", "warmup")):
        raise InputError(f"--effort {text[:60]}: 1 or more repetitions, and for warmup")
    for key in ("budget", "timeout"):
        _check_wait(f"--effort {text[:60]}: {key}", values.get(key, 1.0))
    return values


def _check_wait(name: str, seconds: float) -> None:
    if not 0.1 <= seconds <= 86_400.0:
        raise InputError(f"{name}: 100ms to 86400s")


def points(
    names: Iterable[str], sizes: Sequence[float], ranks: int, dtype: str
) -> tuple[MeasurementPoint, ...]:
    """What to measure, in order, once each.

    Sizes are in bytes. They are rounded down to whole chunks, with at least one element a chunk. A
    barrier has the size 0.
    """
    if ranks < 2 and "send_recv" in names:
        raise InputError(f"send_recv on {ranks} rank: it takes 2 or more")
    largest(ranks, dtype)
    return tuple(
        dict.fromkeys(
            point for name in names for point in _points(name, sizes, ranks, ELEMENT_BYTES[dtype])
        )
    )


@cache
def schedule_of(algorithm: str, ranks: int, nbytes: float) -> Schedule:
    """The schedule of simctl's algorithm."""
    return algorithms()[algorithm].build(ranks, nbytes)


def _points(name: str, sizes: Sequence[float], ranks: int, item: int) -> list[MeasurementPoint]:
    if name == "barrier":
        return [MeasurementPoint(name, "", 0, 0)]
    if name in PROMISES:
        unit = ranks if name in _CUT else 1
        return [_point(name, "", size, unit, item) for size in sizes]
    collective = _algorithm(name).collective.name
    units = [granularity(schedule_of(name, ranks, size)) for size in sizes]
    units = [lcm(unit, ranks) if collective in _CUT else unit for unit in units]
    return [
        _point(collective, name, size, unit, item) for size, unit in zip(sizes, units, strict=True)
    ]


def _point(collective: str, algorithm: str, size: float, unit: int, item: int) -> MeasurementPoint:
    elements = max(int(size) // (item * unit), 1) * unit
    return MeasurementPoint(collective, algorithm, elements, elements * item)


def _algorithm(name: str) -> Algorithm:
    """simctl's algorithm `name`. Raises InputError if it needs servers or switches that reduce, or
    if nothing here checks the results of its collective."""
    algorithms_by_name = algorithms()
    if name not in algorithms_by_name:
        choices = f"one of {', '.join(PROMISES)}, or of simctl list algos"
        hint = nearest_name(name, [*PROMISES, *algorithms_by_name], choices)
        raise InputError(f"{name[:40]!r} cannot be measured: {hint}")
    if algorithms_by_name[name].servers or schedule_of(name, 2, 2.0**20).switches:
        raise InputError(
            f"{name} cannot be measured: it needs a server beside its workers, or a switch that "
            f"reduces"
        )
    collective = algorithms_by_name[name].collective
    if collective.name not in PROMISES or collective.causal:
        raise InputError(
            f"{name} cannot be measured: it is {collective.name}, and algorithms of "
            f"{', '.join(each for each in PROMISES if each != 'barrier')} can be"
        )
    return algorithms_by_name[name]
