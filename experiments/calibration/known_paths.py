"""The known paths of every measured point, by algorithm and protocol, as padded arrays: the data of
a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import product
from math import inf

import numpy as np
import numpy.typing as npt

from experiments.calibration.libraries import Library
from experiments.calibration.observations import Points
from experiments.calibration.paths import Paths
from simulator.collectives import find
from simulator.effects.jobs import Index, Jobs, jobs, reduces
from topologies.shapes import nodes
from topologies.topology import Floats, Topology

Ints = npt.NDArray[np.int64]
ALL = slice(None)
ENDLESS = 1e30
"""Bytes in units of V."""
ELEMENT = 4
"""Bytes."""
Machine = Callable[[int, int], Topology]
"""From the number of ranks and of ranks a node to the machine."""


def as_nodes(ranks: int, per_node: int) -> Topology:
    """The machine as a library sees it: each rank has a port, and each node has a port."""
    return nodes(ranks, per_node=per_node, bandwidth=1e9, latency=1e-6)


@dataclass(frozen=True, eq=False)
class Place:
    """One algorithm on one number of ranks and nodes, and the sizes that were measured there."""

    job: int
    """Its number in the jobs of `KnownPaths`."""
    algorithm: str
    nodes: int
    paths: Paths
    sizes: Floats


@dataclass(frozen=True, eq=False)
class PathTable:
    """The known paths of every point, padded with zeros. The shape is (points, algorithms,
    protocols, paths, kinds), or the first of these."""

    latencies: Floats
    """How often a path has α of each kind."""
    bytes: Floats
    """The bytes that a path has over each kind, in units of V."""
    gaps: Floats
    """How often a path has g of each kind."""
    merged: Floats
    """The bytes that a path merges, in units of V: no kinds."""
    absent: Floats
    """Infinite where a point has no such algorithm, else 0: points and algorithms."""
    excess: Floats
    """The bytes of long exchanges beyond the library's limit: points and algorithms."""
    job: Ints
    """The number of the job in the jobs of `KnownPaths`: points and algorithms."""

    def at(self, keep: Index) -> PathTable:
        """That of the points that `keep` chooses."""
        return PathTable(*(getattr(self, column.name)[keep] for column in fields(self)))


class KnownPaths:
    """The paths of every algorithm that may have made a point, by algorithm, ranks and ranks a
    node."""

    def __init__(self, points: Points, library: Library, machine: Machine) -> None:
        self.points, self.library = points, library
        self.figures: dict[str, tuple[float, float]] = {}
        self.of: dict[tuple[str, int, int], Paths] = {}
        for curve in points.curves:
            for name in self.library.all_of(curve.algorithms + curve.others):
                key = (name, curve.ranks, curve.per_node)
                if key not in self.of:
                    topology = machine(curve.ranks, curve.per_node)
                    self._note(topology)
                    self.of[key] = Paths(find(name), topology, curve.ranks, tuple(self.figures))
        names, ranks, per_node = zip(*self.of, strict=True)
        nodes = [-(-count // width) for _, count, width in self.of]
        reduce = [reduces(find(name).collective.name) for name in names]
        self.jobs: Jobs = jobs(names, ranks, nodes, per_node, reduce)
        kinds = {kind for paths in self.of.values() for kind in paths.kinds}
        self.kinds = tuple(kind for kind in self.figures if kind in kinds)
        self.version = 0
        self.beyond = inf
        """The bytes of a message from which on it is a long exchange."""
        self._table: tuple[int, PathTable] | None = None

    def _note(self, topology: Topology) -> None:
        """α and 1/β of the kinds of link that have a β."""
        for kind in dict.fromkeys(topology.link_kinds):
            links = np.flatnonzero(topology.link_kinds.are(kind))
            if kind not in self.figures and np.isfinite(topology.bandwidth[links]).all():
                slowest = float(topology.bandwidth[links].min())
                self.figures[kind] = float(np.median(topology.latency[links])), 1 / slowest

    def places(self) -> Iterator[Place]:
        """Every algorithm where it was measured."""
        for job, ((name, ranks, per_node), paths) in enumerate(self.of.items()):
            curves = [
                curve
                for curve in self.points.curves
                if curve.ranks == ranks and curve.per_node == per_node
            ]
            sizes = [
                curve.sizes
                for curve in curves
                if name in self.library.all_of(curve.algorithms + curve.others)
            ]
            yield Place(job, name, -(-ranks // per_node), paths, np.unique(np.concatenate(sizes)))

    def table(self) -> PathTable:
        """All known paths; made anew when there are more."""
        count = self.version
        if self._table is None or self._table[0] != count:
            self._table = count, self._build()
        return self._table[1]

    def _build(self) -> PathTable:
        points, kinds = self.points, len(self.kinds)
        most = max(
            len(self.library.all_of(curve.algorithms + curve.others)) for curve in points.curves
        )
        deep = max(1, *(len(rows) for paths in self.of.values() for rows in paths.found.values()))
        shape = (len(points), most, len(self.library.protocols), deep)
        latencies, crossed, gaps, merged = (
            *(np.zeros((*shape, kinds)) for _ in range(3)),
            np.zeros(shape),
        )
        absent, excess = np.full((len(points), most), np.inf), np.zeros((len(points), most))
        job = np.zeros((len(points), most), dtype=np.int64)
        for c, curve in enumerate(points.curves):
            on_curve = points.curve == c
            for a, name in enumerate(self.library.all_of(curve.algorithms + curve.others)):
                paths = self.of[name, curve.ranks, curve.per_node]
                columns = [self.kinds.index(kind) for kind in paths.kinds]
                for q, point in product(range(shape[2]), np.flatnonzero(on_curve)):
                    if path_rows := paths.rows(q, float(points.size[point])):
                        rows = np.array(path_rows)
                        place = point, a, q, slice(len(rows))
                        counts = np.split(rows[:, :-1], 3, axis=1)
                        for column, count in zip((latencies, crossed, gaps), counts, strict=True):
                            column[(*place, columns)] = count.T
                        merged[place] = rows[:, -1]
                barred = [
                    q
                    for q, prior in enumerate(self.library.protocols)
                    if prior.name not in curve.protocols
                ]
                crossed[np.ix_(on_curve, [a], barred if curve.protocols else [])] = ENDLESS
                job[on_curve, a] = list(self.of).index((name, curve.ranks, curve.per_node))
                excess[on_curve, a] = [
                    paths.exchanged(float(size), self.beyond) for size in points.size[on_curve]
                ]
            absent[on_curve] = self.absent(c, curve.algorithms, most)
        return PathTable(latencies, crossed, gaps, merged, absent, excess, job)

    def absent(self, c: int, algorithms: tuple[str, ...], most: int) -> Floats:
        """Infinite where an algorithm cannot have made a point of a curve that took one of
        `algorithms`, else 0, shape (points of the curve, most)."""
        on_curve, curve = self.points.curve == c, self.points.curves[c]
        seconds = np.full((np.count_nonzero(on_curve), most), np.inf)
        for a, name in enumerate(self.library.all_of(curve.algorithms + curve.others)):
            seconds[:, a] = self._absent(name, algorithms, self.points, on_curve)
        return seconds

    def _absent(
        self, name: str, algorithms: tuple[str, ...], points: Points, on_curve: np.ndarray
    ) -> Floats:
        """Infinite where the algorithm is not what runs: instead of those that need an element a
        rank, the other."""
        short = points.size[on_curve] / ELEMENT < points.ranks[on_curve]
        if name in algorithms:
            return np.where(short & (name in self.library.few), np.inf, 0.0)
        return np.where(short & (name in self.library.all_of(algorithms)), 0.0, np.inf)
