"""The known paths of every measured point, by algorithm and protocol, as padded arrays: the data of
a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from math import inf

import numpy as np

from experiments.calibration.effects.link_effects import LEAST_LATENCY
from experiments.calibration.library import Library
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.paths import Costs, Paths
from simulator.collectives import find
from simulator.effects.jobs import Index, Jobs, jobs
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.shapes import nodes
from topologies.topology import Floats, Longs, Topology

ALL = slice(None)
ENDLESS = 1e30
"""Bytes in units of V."""
Machine = Callable[[int, int], Topology]
"""From the number of ranks and of ranks a node to the machine."""


def as_nodes(ranks: int, per_node: int, *, multicast: bool = True) -> Topology:
    """The machine as a library sees it: each rank has a port, and each node has a port. The curves
    say whether switches in nodes multicast, so here they can."""
    return nodes(ranks, per_node=per_node, bandwidth=1e9, latency=1e-6, multicast=multicast)


def machine_for(blueprint: Blueprint | None) -> Machine:
    """From numbers of ranks and of ranks a node to the machine, with the nodes of the job. The
    default is nodes with a port each."""
    if blueprint is None or blueprint.name == "nodes":
        return as_nodes
    return partial(_built, blueprint)


def _built(blueprint: Blueprint, ranks: int, per_node: int) -> Topology:
    return blueprint.for_job(ranks, -(-ranks // per_node)).build(ranks)


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
    job: Longs
    """The number of the job in the jobs of `KnownPaths`: points and algorithms."""

    def at(self, keep: Index) -> PathTable:
        """That of the points that `keep` chooses."""
        return PathTable(*(getattr(self, column.name)[keep] for column in fields(self)))


class KnownPaths:
    """The paths of every algorithm that may have made a point, by algorithm, ranks and ranks a
    node."""

    def __init__(self, points: FitPoints, library: Library, machine: Machine) -> None:
        self.points, self.library = points, library
        self.figures: dict[str, tuple[float, float]] = {}
        self.of: dict[tuple[str, int, int], Paths] = {}
        self.candidates = [self._candidates(point) for point in range(len(points))]
        """The algorithms that may have made each point."""
        built = cache(machine)
        places = zip(points.curve, points.size.tolist(), self.candidates, strict=True)
        for c, size, names in places:
            curve = points.curves[c]
            for name in names:
                key = (name, curve.ranks, curve.per_node)
                if key not in self.of:
                    topology = built(curve.ranks, curve.per_node)
                    self._note(topology)
                    self.of[key] = Paths(find(name), topology, curve.ranks, tuple(self.figures))
                self.of[key].sizes.add(size)
        algorithms, ranks, per_node = zip(*self.of, strict=True)
        nodes = [-(-count // width) for _, count, width in self.of]
        candidates = [find(name) for name in algorithms]
        collectives = [algorithm.collective.name for algorithm in candidates]
        listed = [algorithm.listed_name for algorithm in candidates]
        self.jobs: Jobs = jobs(listed, ranks, nodes, per_node, collectives)
        kinds = {kind for paths in self.of.values() for kind in paths.kinds}
        versions = {curve.library for curve in points.curves}
        self.longest = tuple(prior.most(versions) for prior in library.protocols)
        """The bytes of the longest message that each protocol carries."""
        self.further = self._on_the_way(machine) - kinds
        """Kinds of link that no run crosses, but jobs on more nodes do."""
        self.kinds = tuple(kind for kind in self.figures if kind in kinds | self.further)
        self.version = 0
        self.beyond = inf
        """The bytes of a message from which on it is a long exchange."""
        self._table: tuple[int, PathTable] | None = None

    def _candidates(self, point: int) -> tuple[str, ...]:
        curve, size = self.points.curves[self.points.curve[point]], float(self.points.size[point])
        running = (
            name for names in ((), *curve.instead) for name in self.library.ran(curve, size, names)
        )
        return tuple(dict.fromkeys(running))

    def _note(self, topology: Topology) -> None:
        for kind in dict.fromkeys(topology.link_kinds):
            links = np.flatnonzero(topology.link_kinds.are(kind))
            if kind not in self.figures and np.isfinite(topology.bandwidth[links]).all():
                slowest = float(topology.bandwidth[links].min())
                self.figures[kind] = float(np.median(topology.latency[links])), 1 / slowest

    def _on_the_way(self, machine: Machine) -> set[str]:
        """The kinds of link from node to node of a machine that is known. A profile says what they
        cost, even if no run has two nodes."""
        if machine is as_nodes:
            return set()
        width = max(curve.per_node for curve in self.points.curves)
        try:
            topology = machine(2 * width, width)
        except InputError:
            return set()
        self._note(topology)
        return {str(topology.link_kinds[link]) for link in topology.route(0, width)}

    def exchanges(self, curve: FitCurve, beyond: float) -> bool:
        """Whether two ranks on two nodes exchange messages of more than `beyond` bytes in each
        algorithm that may have made the largest size of a curve."""
        largest = float(curve.sizes.max(initial=1.0))
        return all(
            self.of[name, curve.ranks, curve.per_node].exchanged(largest, beyond)
            for name in self.library.ran(curve, largest)
        )

    def explore(self, profile: Profile, doubt: float) -> float:
        """Simulate every algorithm where it was measured, under a profile, and keep the paths that
        explain its times. Returns the greatest relative error of those that were known.

        Paths that were wrong by less than `doubt` the last time are not simulated.
        """
        longest, wrong = [protocol.most for protocol in profile.protocols], 0.0
        for paths, costs in self.costs(profile):
            if paths.wrong >= doubt:
                wrong = max(wrong, paths.explore(costs, longest))
        self.version += 1
        return wrong

    def costs(self, profile: Profile) -> Iterator[tuple[Paths, Costs]]:
        """The paths of each job, and what they cost under a profile."""
        links = profile.link_costs(self.jobs, profile.protocols, self.kinds)

        def each(job: int, columns: Sequence[int], protocol: int, size: float) -> Floats:
            latency, bandwidth, gap = (column[protocol, columns, job] for column in links)
            merge = float(profile.memory.merge(size))
            return np.concatenate((np.maximum(LEAST_LATENCY, latency), 1 / bandwidth, gap, [merge]))

        for job, paths in enumerate(self.of.values()):
            yield paths, partial(each, job, [self.kinds.index(kind) for kind in paths.kinds])

    def table(self) -> PathTable:
        """All known paths; made anew when there are more."""
        count = self.version
        if self._table is None or self._table[0] != count:
            self._table = count, self._build()
        return self._table[1]

    def _build(self) -> PathTable:
        points, kinds = self.points, len(self.kinds)
        most = max(len(names) for names in self.candidates)
        deep = max(1, *(len(rows) for paths in self.of.values() for rows in paths.found.values()))
        shape = (len(points), most, len(self.library.protocols), deep)
        latencies, crossed, gaps, merged = (
            *(np.zeros((*shape, kinds)) for _ in range(3)),
            np.zeros(shape),
        )
        absent, excess = np.full((len(points), most), np.inf), np.zeros((len(points), most))
        job = np.zeros((len(points), most), dtype=np.int64)
        numbers = {key: number for number, key in enumerate(self.of)}
        for point, names in enumerate(self.candidates):
            curve, size = points.curves[points.curve[point]], float(points.size[point])
            forced = [
                not curve.protocols or prior.name in curve.protocols
                for prior in self.library.protocols
            ]
            for a, name in enumerate(names):
                key = (name, curve.ranks, curve.per_node)
                paths = self.of[key]
                columns = [self.kinds.index(kind) for kind in paths.kinds]
                for q in range(shape[2]):
                    if path_rows := paths.rows(q, size):
                        rows = np.array(path_rows)
                        place = point, a, q, slice(len(rows))
                        counts = np.split(rows[:, :-1], 3, axis=1)
                        for column, count in zip((latencies, crossed, gaps), counts, strict=True):
                            column[(*place, columns)] = count.T
                        merged[place] = rows[:, -1]
                carried = paths.carried(size, self.longest)
                crossed[point, a, ~(np.array(forced) & carried)] = ENDLESS
                job[point, a] = numbers[key]
                excess[point, a] = paths.exchanged(size, self.beyond)
        for c in range(len(points.curves)):
            absent[points.curve == c] = self.absent(c, (), most)
        return PathTable(latencies, crossed, gaps, merged, absent, excess, job)

    def absent(self, c: int, algorithms: tuple[str, ...], most: int) -> Floats:
        """Infinite where an algorithm cannot have made a point of a curve that took one of
        `algorithms`, else 0, shape (points of the curve, most). Without algorithms, the curve's
        label, or the library's rule, says what ran."""
        curve, on_curve = self.points.curves[c], np.flatnonzero(self.points.curve == c)
        seconds = np.full((len(on_curve), most), np.inf)
        for row, point in zip(seconds, on_curve, strict=True):
            ran = self.library.ran(curve, float(self.points.size[point]), algorithms)
            row[[a for a, name in enumerate(self.candidates[point]) if name in ran]] = 0.0
        return seconds
