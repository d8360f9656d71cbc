"""Ways to serve a model on some GPUs, and the loads that they bear under limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from experiments.output import counted
from experiments.serving.deployment import Cut, Deployment, PrefillWorkers
from experiments.serving.operating_point import Load, Point, point
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import format_seconds

MOST = 4096
"""Sequences of an instance at most."""
CLOSE = 0.03
"""The most sequences within the limits are found to within this share."""


class Served(NamedTuple):
    """A way to serve, under a load of each instance."""

    deployment: Deployment
    instances: int
    point: Point
    curve: Sequence[tuple[float, float]] = ()
    """Tokens a second of a user and of a GPU under each load that was tried."""
    workers: PrefillWorkers | None = None
    """Those that prefill in an instance, if others decode."""

    @property
    def decoders(self) -> int:
        """The workers of an instance that decode."""
        return self.workers.decoders if self.workers else 1

    @property
    def gpus(self) -> int:
        """The GPUs of an instance."""
        prefilling = self.workers.gpus if self.workers else 0
        return self.decoders * self.deployment.cut.gpus + prefilling

    @property
    def tokens(self) -> float:
        """Tokens a second of a GPU."""
        return self.point.tokens.expected / self.gpus


class Limits(NamedTuple):
    """What a user waits at most, in seconds."""

    ttft: float
    tpot: float

    def met_by(self, point: Point) -> bool:
        """Whether a point is within both."""
        return point.ttft.expected <= self.ttft and point.tpot.expected <= self.tpot


def cuts(deployment: Deployment, gpus: int) -> Iterator[Cut]:
    """The cuts of a model for instances of 1, 2, 4, ... GPUs that share `gpus` evenly: attention
    whole or of groups of its own, experts cut or of groups of their own."""
    shape = deployment.shape
    for tp in (size for size in range(1, gpus + 1) if gpus % size == 0 and size & (size - 1) == 0):
        for dp in dict.fromkeys((1, tp if shape.latent else 1)):
            for ep in dict.fromkeys((1, tp if shape.experts else 1)):
                yield Cut(tp, dp, ep)


def search(
    deployment: Deployment,
    machine: Callable[[int], Topology],
    gpus: int,
    load: Load,
    limits: Limits,
    level: float,
    chunk: float = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Sequence[Served]:
    """The most tokens a second of each cut within the limits, the best cut first. The concurrency
    of `load` does not count.

    Raises InputError if no cut fits, or none is within the limits even with one sequence.
    """
    ways, chosen = list[Served](), list(cuts(deployment, gpus))
    too_large, too_slow = "", dict[float, str]()
    for done, cut in enumerate(chosen):
        progress(done, len(chosen))
        try:
            served, topology = replace(deployment, cut=cut), machine(cut.tp)
            points = _points(served, topology, load, limits, level, chunk)
        except InputError as error:
            too_large = str(error)
            continue
        curve = [(1 / each.tpot.expected, each.tokens.expected / cut.tp) for each in points]
        if inside := [each for each in points if limits.met_by(each)]:
            best = max(inside, key=lambda each: each.tokens.expected)
            ways.append(Served(served, gpus // cut.tp, best, curve))
        else:
            least = points[0]
            missed = max(least.ttft.expected / limits.ttft, least.tpot.expected / limits.tpot)
            too_slow[missed] = (
                f"with one sequence {str(cut) or 'one GPU'} has a TTFT of "
                f"{format_seconds(least.ttft.expected)} and a TPOT of "
                f"{format_seconds(least.tpot.expected)}"
            )
    progress(len(chosen), len(chosen))
    if not ways:
        why = too_slow[min(too_slow)] if too_slow else too_large
        raise InputError(f"no way to serve {deployment.model} on {counted(gpus, 'GPU')}: {why}")
    return sorted(ways, key=lambda each: -each.tokens)


def _points(
    served: Deployment, machine: Topology, load: Load, limits: Limits, level: float, chunk: float
) -> list[Point]:
    """Points of more and more sequences, until no more fit, and between the last within the limits
    and the first beyond them."""

    def at(number: int) -> Point:
        asked = load._replace(concurrency=float(number))
        return point(served, machine, asked, level=level, chunk=chunk)

    first = at(1)
    most = int(min(first.fits, MOST))
    numbers = [1 << power for power in range(most.bit_length())]
    points = {1: first} | {number: at(number) for number in [*numbers[1:], most]}
    inside = [number for number, each in points.items() if limits.met_by(each)]
    if inside and max(inside) < most:
        low = max(inside)
        high = min(number for number in points if number > low)
        while high - low > max(1, CLOSE * low):
            middle = (low + high) // 2
            points[middle] = at(middle)
            low, high = (middle, high) if limits.met_by(points[middle]) else (low, middle)
    return [points[number] for number in sorted(points)]
