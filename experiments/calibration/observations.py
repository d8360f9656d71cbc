"""Measured curves as data of a fit: the algorithms that may have run, ranks, nodes, sizes and
times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.calibration.decisions import Rule
from experiments.calibration.libraries import ELEMENT, Library
from experiments.measurements import Curve
from topologies.errors import InputError
from topologies.topology import Floats

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
OWN = "default"
"""The label of a run whose library chose the algorithm."""


@dataclass(frozen=True, eq=False)
class Series:
    """One measured curve."""

    name: str
    """The file of the curve."""
    collective: str
    """The collective."""
    algorithms: tuple[str, ...]
    """The forced algorithm, or those that the library may have chosen from."""
    ranks: int
    """The number of ranks."""
    nodes: int
    """The number of nodes that they are in."""
    sizes: Floats
    """Ascending sizes in bytes."""
    seconds: Floats
    """The measured time of each size."""
    protocols: tuple[str, ...] = ()
    """The protocols that the library was told to use. None if it chose."""
    forced: str = ""
    """The algorithm that the library was told to take."""
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
        from simulator.collectives import find

        names = self.algorithms if self.rule else ()
        return any(find(name).options.get("segments", 1) > 1 for name in names)

    def ran(self, library: Library, nbytes: float, names: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The algorithms that may have run at a size if `names` were chosen. Without names, those
        of the label or of the library's rule."""
        names = names or ((self.rule(nbytes),) if self.rule else self.algorithms)
        return library.running(names, nbytes / ELEMENT, self.ranks)

    def at(self, keep: Flags | Ints) -> Series:
        """The same curve with only the sizes that `keep` chooses."""
        return Series(**(vars(self) | {"sizes": self.sizes[keep], "seconds": self.seconds[keep]}))


def forced(curve: Curve) -> str:
    """The algorithm that a run asked for, even if that had no effect; empty if it asked for
    none."""
    return curve.algorithm or curve.ignored_algorithm


def series(
    curve: Curve,
    library: Library,
    *,
    in_place: bool = False,
    ran: tuple[str, ...] = (),
    multicast: bool = False,
) -> Series:
    """A curve as data of a fit.

    Its algorithms are those in `ran` if the caller knows them. Otherwise they are the forced
    algorithm, or those that `library` chooses from if the switches of a node multicast or do not.
    Raises InputError if the curve lacks something
    that a fit needs.
    """
    collective = curve.pattern
    algorithms = ran or library.algorithms(collective, curve.algorithm, multicast=multicast)
    word = forced(curve)
    rule = (
        None if ran or word else library.rule(collective, curve.ranks, curve.library, curve.nodes)
    )
    if not algorithms:
        choice = curve.algorithm or f"whatever {library.name} chooses"
        raise InputError(
            f"{curve.source}: nothing here simulates {collective} by {choice}: leave it out"
        )
    if not curve.ranks or curve.ranks < 2:
        raise InputError(
            f"{curve.source}: {curve.ranks or 'an unknown number of'} ranks: a fit needs at least 2"
        )
    measured = curve.in_place if in_place else curve.points or curve.in_place
    points = [point for point in measured if not point.wrong]
    sizes = np.array([float(point.size) for point in points])
    seconds = np.array([point.time_s for point in points])
    chosen = library.algorithms(collective)
    substitutes = tuple(
        name for name in chosen if library.deviates and name not in algorithms and not ran
    )
    ignored = bool(word) and (not curve.algorithm or bool(ran))
    instead: tuple[tuple[str, ...], ...] = tuple(
        (name,) for name in algorithms if ignored and not ran and len(algorithms) > 1
    )
    instead += (algorithms + substitutes,) if substitutes else ()
    if rule:
        instead = (algorithms,)
        algorithms = tuple(dict.fromkeys(map(rule, sizes.tolist())))
    nodes = _nodes(curve, curve.ranks)
    protocols = library.forced_protocols(curve.protocol)
    return Series(
        curve.source,
        collective,
        algorithms,
        curve.ranks,
        nodes,
        sizes,
        seconds,
        protocols,
        word,
        ignored,
        instead,
        curve.library,
        rule,
    )


def _nodes(curve: Curve, ranks: int) -> int:
    """The number of nodes. If the file does not say it, each rank counts as a node.

    Raises InputError if that many nodes cannot have had the ranks: as many on each, and the rest on
    the last.
    """
    nodes = curve.nodes or ranks
    if nodes > ranks:
        raise InputError(
            f"{curve.source}: {nodes} nodes for {ranks} ranks: there is a rank or more on each, "
            f"correct it"
        )
    if -(-ranks // -(-ranks // nodes)) != nodes:
        raise InputError(
            f"{curve.source}: {ranks} ranks cannot fill {nodes} nodes alike: correct one of the two"
        )
    return nodes


class Points:
    """The points of several series, one after the other, as columns."""

    def __init__(self, curves: Iterable[Series]) -> None:
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


def evenly(points: Points, count: int) -> Flags:
    """Points of the first curve on the most ranks: its smallest and largest size, and others
    between, equally far in log."""
    longest = max(curve.ranks for curve in points.curves)
    curve = next(c for c, one in enumerate(points.curves) if one.ranks == longest)
    indices = np.flatnonzero(points.curve == curve)
    chosen = np.zeros(len(points), dtype=np.bool_)
    chosen[indices[equally_far(points.size[indices], count)]] = True
    return chosen


def equally_far(sizes: Floats, count: int) -> Ints:
    """The numbers of the smallest and the largest of ascending sizes, and of others between them,
    about equally far in log: at most `count`."""
    logs = np.log(sizes)
    wanted = np.linspace(logs[0], logs[-1], count)
    return np.asarray(np.unique(np.abs(logs[:, None] - wanted).argmin(axis=0)))
