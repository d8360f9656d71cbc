"""What is to be measured: a list of points, made of what the user asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache
from math import lcm

from experiments.measure.patterns import PROMISES, largest
from experiments.measure.slot_layout import granularity
from simulator.collectives import Algorithm, algorithms
from simulator.schedules.schedule import Schedule
from topologies.errors import InputError
from topologies.units import format_bytes

BACKENDS = ("gloo", "nccl", "mpi")
DEVICES = ("cpu", "cuda")
ITEMS = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}
"""Bytes of an element."""
IN_PLACE = ("all_reduce", "broadcast", "reduce")
"""The library's collectives that we call with one buffer for input and output."""
START = 120.0
"""Seconds that the start of a process takes at most."""
MEETING = 10.0
"""Seconds that ranks have at least to meet: they do not start at the same moment."""
LEAST = 3
"""Repetitions of a point, however long they take."""
_CUT = ("all_gather", "reduce_scatter", "scatter", "gather", "all_to_all")


@dataclass(frozen=True)
class Point:
    """A collective at a size; `algorithm` is ours, or empty for the library's own. `elements` are
    those of V."""

    collective: str
    algorithm: str
    elements: int
    size_bytes: int

    def __str__(self) -> str:
        name = self.algorithm or self.collective
        return f"{name} of {format_bytes(self.size_bytes)}" if self.size_bytes else name


@dataclass(frozen=True)
class Plan:
    """All that a rank has to know. Times are in seconds; `init` is a URL of torch.distributed."""

    backend: str
    device: str
    dtype: str
    ranks: int
    init: str
    points: tuple[Point, ...]
    repetitions: int = 100
    warmup: int = 2
    budget: float = 1.0
    timeout: float = 60.0
    seed: int = 0

    @property
    def meeting(self) -> float:
        """Seconds in which all ranks have to come."""
        return max(MEETING, self.timeout)

    @property
    def patience(self) -> float:
        """Seconds after which something is wrong if nobody has said a word."""
        return START + self.budget + (self.warmup + LEAST + 1) * self.timeout

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote."""
        fields = json.loads(text)
        return cls(**fields | {"points": tuple(Point(**point) for point in fields["points"])})


def parse_names(text: str) -> list[str]:
    """Collectives of the library and algorithms of ours, comma-separated. Raises InputError with
    the nearest name."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in PROMISES:
            _ours(name)
    return names


def points(
    names: Iterable[str], sizes: Sequence[float], ranks: int, dtype: str
) -> tuple[Point, ...]:
    """What to measure, in order, once each.

    Sizes are in bytes and rounded down to what cuts into whole chunks, to one element a chunk at
    least. A barrier has the size 0.
    """
    if ranks < 2 and "send_recv" in names:
        raise InputError(f"send_recv on {ranks} rank: it takes 2 or more")
    largest(ranks, dtype)
    return tuple(
        dict.fromkeys(
            point for name in names for point in _points(name, sizes, ranks, ITEMS[dtype])
        )
    )


@cache
def schedule_of(algorithm: str, ranks: int, nbytes: float) -> Schedule:
    """The schedule of an algorithm of ours."""
    return algorithms()[algorithm].build(ranks, nbytes)


def _points(name: str, sizes: Sequence[float], ranks: int, item: int) -> list[Point]:
    if name == "barrier":
        return [Point(name, "", 0, 0)]
    if name in PROMISES:
        unit = ranks if name in _CUT else 1
        return [_point(name, "", size, unit, item) for size in sizes]
    collective = _ours(name).collective.name
    units = [granularity(schedule_of(name, ranks, size)) for size in sizes]
    units = [lcm(unit, ranks) if collective in _CUT else unit for unit in units]
    return [
        _point(collective, name, size, unit, item) for size, unit in zip(sizes, units, strict=True)
    ]


def _point(collective: str, algorithm: str, size: float, unit: int, item: int) -> Point:
    elements = max(int(size) // (item * unit), 1) * unit
    return Point(collective, algorithm, elements, elements * item)


def _ours(name: str) -> Algorithm:
    """The algorithm called `name`. Raises InputError unless its workers can run it by
    themselves."""
    known = algorithms()
    if name not in known:
        near = get_close_matches(name.lower(), [*PROMISES, *known], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{name[:40]!r} cannot be measured: {hint}(one of {', '.join(PROMISES)}, or of "
            f"simctl algos)"
        )
    if known[name].servers or schedule_of(name, 2, 2.0**20).switches:
        raise InputError(
            f"{name} cannot be measured: it needs a server beside its workers, or a switch that "
            f"reduces"
        )
    return known[name]
