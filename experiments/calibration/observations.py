"""Measured curves as data of a fit: what may have run, sizes, times, and the sizes to simulate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from experiments.calibration.decisions import Rule
from experiments.measurements import Curve
from simulator.collectives import find
from simulator.effects.jobs import Index
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Longs

OWN = "default"
"""The label of a run whose library chose the algorithm."""


@dataclass(frozen=True, eq=False)
class FitCurve:
    """One measured curve."""

    name: str
    collective: str
    algorithms: tuple[str, ...]
    """The forced algorithm, or those that the library may have chosen from."""
    ranks: int
    nodes: int
    sizes: Floats
    """Ascending sizes in bytes."""
    seconds: Floats
    protocols: tuple[str, ...] = ()
    """The protocols that the library was told to use. None if it chose."""
    forced: str = ""
    ignored: bool = False
    """Whether it is known that `forced` had no effect."""
    instead: tuple[tuple[str, ...], ...] = ()
    """Sets of algorithms that may have run where `forced` had no effect. The library took the
    fastest of one set."""
    library: str = ""
    """The name and version of the library in words."""
    rule: Rule | None = None
    """The library's rule, from V in bytes to the algorithm, if the library chose."""

    @property
    def per_node(self) -> int:
        """Ranks of a node."""
        return -(-self.ranks // self.nodes)

    @property
    def label(self) -> str:
        """The properties that curves share if they differ only in ranks."""
        names = "by rule" if self.rule else "|".join(self.algorithms)
        return f"{self.collective} {names}"

    @property
    def segmented(self) -> bool:
        """Whether the library's rule sends V in segments that follow one another."""
        names = self.algorithms if self.rule else ()
        return any(find(name).options.get("segments", 1) > 1 for name in names)

    def at(self, keep: Flags | Longs) -> FitCurve:
        """The same curve with only the sizes that `keep` chooses."""
        return FitCurve(**(vars(self) | {"sizes": self.sizes[keep], "seconds": self.seconds[keep]}))


def forced(curve: Curve) -> str:
    """The algorithm that a run asked for, even if that had no effect; empty if it asked for
    none."""
    return curve.algorithm or curve.ignored_algorithm


class FitPoints:
    """The points of several series, one after the other, as columns."""

    def __init__(self, curves: Iterable[FitCurve]) -> None:
        self.curves = tuple(curves)
        if not self.curves:
            raise InputError("no curve to fit: expected at least one with a known number of ranks")
        self.curve = np.repeat(
            np.arange(len(self.curves)), [len(curve.sizes) for curve in self.curves]
        )
        self.size = np.concatenate([curve.sizes for curve in self.curves])
        self.seconds = np.concatenate([curve.seconds for curve in self.curves])
        self.ranks = np.array([curve.ranks for curve in self.curves])[self.curve]
        self.nodes = np.array([curve.nodes for curve in self.curves])[self.curve]
        self.label = np.array([curve.label for curve in self.curves])[self.curve]

    def __len__(self) -> int:
        return len(self.size)

    @property
    def width(self) -> float:
        """The usual number of ranks a node in jobs over several nodes; 0 without any."""
        widths = np.array([curve.per_node for curve in self.curves])[self.curve]
        between = widths[self.nodes > 1]
        return float(np.exp(np.log(between).mean())) if len(between) else 0.0

    @property
    def largest(self) -> Flags:
        """The largest size of every curve."""
        last = np.zeros(len(self), dtype=np.bool_)
        last[np.flatnonzero(np.diff(self.curve, append=len(self.curves)))] = True
        return last


def evenly(points: FitPoints, count: int) -> Flags:
    """Points of the first curve on the most ranks: its smallest and largest size, and others
    between, equally far in log."""
    longest = max(curve.ranks for curve in points.curves)
    curve = next(c for c, one in enumerate(points.curves) if one.ranks == longest)
    indices = np.flatnonzero(points.curve == curve)
    chosen = np.zeros(len(points), dtype=np.bool_)
    chosen[indices[equally_far(points.size[indices], count)]] = True
    return chosen


def equally_far(sizes: Floats, count: int) -> Longs:
    """The numbers of the smallest and the largest of ascending sizes, and of others between them,
    about equally far in log: at most `count`."""
    logs = np.log(sizes)
    wanted = np.linspace(logs[0], logs[-1], count)
    return np.asarray(np.unique(np.abs(logs[:, None] - wanted).argmin(axis=0)))


SIMULATED_SIZES = 64
"""A fit simulates at most so many sizes of a curve."""


class SimulatedSizes:
    """The simulated points among measured points, and where the others are between them."""

    def __init__(self, measured: FitPoints) -> None:
        self.all = all(len(curve.sizes) <= SIMULATED_SIZES for curve in measured.curves)
        """Whether every measured point is simulated."""
        chosen, places = zip(*map(_spread, measured.curves), strict=True)
        simulated = map(FitCurve.at, measured.curves, chosen)
        self.points = measured if self.all else FitPoints(simulated)
        """The simulated points."""
        first = np.cumsum([0, *map(len, chosen[:-1])])
        self.place: Floats = np.concatenate(list(map(np.add, places, first)))
        """Where each measured point is among the simulated points: 2.5 is half way between numbers
        2 and 3, in log(size)."""

    def rows(self, keep: Index) -> Index:
        """The simulated points that say the times of the measured points that `keep` chooses."""
        return keep if self.all else slice(None)

    def between(self, values: Floats, keep: Index) -> Floats:
        """The values of the measured points that `keep` chooses, linear in log(size) between
        those of the simulated points `rows(keep)`. Shape (points, ...)."""
        if self.all:
            return values
        place = self.place[keep]
        low, high = values[np.floor(place).astype(int)], values[np.ceil(place).astype(int)]
        return np.asarray(low + ((high - low).T * (place % 1)).T)

    def seconds(self, simulated: Floats, keep: Index) -> Floats:
        """The times of the measured points that `keep` chooses, from those of `rows(keep)`: a power
        of the size from one simulated size to the next."""
        return simulated if self.all else np.exp(self.between(np.log(simulated), keep))

    @property
    def nearest(self) -> Longs:
        """The simulated point nearest to each measured point."""
        return np.rint(self.place).astype(np.int64)


def _spread(curve: FitCurve) -> tuple[Longs, Floats]:
    """The numbers of the sizes of a curve to simulate, and where each size is among them."""
    every, logs = np.arange(len(curve.sizes)), np.log(curve.sizes)
    if len(every) <= SIMULATED_SIZES:
        return every, every.astype(np.float64)
    chosen = equally_far(curve.sizes, SIMULATED_SIZES)
    return chosen, np.interp(logs, logs[chosen], every[: len(chosen)])
