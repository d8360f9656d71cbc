"""Ways to serve a model on some GPUs, and the loads that they bear under limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from experiments.serving.deployment import Cut, Deployment
from experiments.serving.operating_point import Load, Point, point
from topologies.errors import InputError
from topologies.topology import Topology

MOST = 4096
"""Sequences of an instance at most."""


class Served(NamedTuple):
    """A way to serve, under a load of each instance."""

    deployment: Deployment
    instances: int
    load: Load
    point: Point
    curve: Sequence[tuple[float, float]] = ()
    """Tokens a second of a user and of a GPU under each load that was tried."""

    @property
    def gpus(self) -> int:
        """The GPUs of all instances."""
        return self.instances * self.deployment.cut.tp

    @property
    def tokens(self) -> float:
        """Tokens a second of a GPU."""
        return self.point.tokens(self.load).expected / self.deployment.cut.tp


class Limits(NamedTuple):
    """What a user waits at most, in seconds."""

    ttft: float
    tpot: float

    def met_by(self, found: Point) -> bool:
        """Whether a point is within both."""
        return found.ttft.expected <= self.ttft and found.tpot.expected <= self.tpot


def cuts(deployment: Deployment, gpus: int) -> Iterator[Cut]:
    """The cuts of a model for instances that share `gpus` GPUs evenly: attention whole or of groups
    of its own, experts cut or of groups of their own."""
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
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Sequence[Served]:
    """The most tokens a second of each cut within the limits, the best cut first. The concurrency
    of `load` does not count.

    Raises InputError if no cut fits, or none is within the limits even with one sequence.
    """
    found, refused, chosen = list[Served](), "", list(cuts(deployment, gpus))
    for done, cut in enumerate(chosen):
        progress(done, len(chosen))
        try:
            served, topology = replace(deployment, cut=cut), machine(cut.tp)
            points = [
                (one, point(served, topology, one, level=level))
                for one in _loads(load, served.fits(load.isl + load.osl))
            ]
        except InputError as error:
            refused = str(error)
            continue
        curve = [(1 / each.tpot.expected, _rate((one, each)) / cut.tp) for one, each in points]
        best = [(one, each) for one, each in points if limits.met_by(each)]
        if best:
            found.append(Served(served, gpus // cut.tp, *max(best, key=_rate), curve))
        elif points:
            least = points[0][1]
            refused = (
                f"with one sequence {cut or 'one GPU'} has a TTFT of {least.ttft.expected:.3g} s "
                f"and a TPOT of {least.tpot.expected:.3g} s"
            )
    progress(len(chosen), len(chosen))
    if not found:
        raise InputError(f"no way to serve {deployment.model} on {gpus} GPUs: {refused}")
    return sorted(found, key=lambda each: -each.tokens)


def _rate(pair: tuple[Load, Point]) -> float:
    load, found = pair
    return found.tokens(load).expected


def _loads(load: Load, fits: float) -> Iterator[Load]:
    """Loads of more and more sequences, until no more fit."""
    number = 1
    while number <= min(max(fits, 1), MOST):
        yield load._replace(concurrency=float(number))
        number *= 2
