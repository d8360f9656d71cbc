"""Predictions of a profile for measured curves: every size, with every algorithm and protocol that
may have run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np

from experiments.calibration.library import Library
from experiments.calibration.observations import FitCurve
from experiments.calibration.paths import LARGE_SCHEDULE, NEAR_FASTEST
from simulator.analysis.critical_path import Sensitivities, sensitivities
from simulator.collectives import Algorithm, find
from simulator.engines import run
from simulator.predictions import LaidRoutes, ProfiledPath, interval_of, prediction
from simulator.profile import Profile, Protocol
from simulator.schedules.routed import Routed, route
from simulator.schedules.timeline import ProfileRun, common
from simulator.uncertainty.interval import Interval
from topologies.topology import Floats, Topology

FEW_SIZES = 64
"""Up to so many sizes are each simulated. Of more, the critical paths of some tell the others."""


class ProfileTime(NamedTuple):
    """A run under a profile."""

    seconds: float
    protocol: str
    interval: Interval | None
    """None if the profile does not say how sure it is."""
    common: float
    """Seconds of them that every algorithm of the collective takes, beside any bound."""


def times(
    profile: Profile, algorithm: Algorithm, topology: Topology, ranks: int, sizes: Sequence[float]
) -> dict[float, ProfileTime]:
    """A run for each size in bytes."""
    if not sizes:
        return {}
    schedule, topology, _, _ = algorithm.on(topology, ranks, 1.0)
    routed = route(schedule, topology)
    if len(schedule) > LARGE_SCHEDULE or len(sizes) > FEW_SIZES:
        return _Large(profile, algorithm, routed).times(sorted(sizes))
    laid = LaidRoutes(algorithm)
    runs = {size: profile.simulate(routed.scaled(size), algorithm) for size in sizes}
    return {size: _timed(profile, result, algorithm, laid) for size, result in runs.items()}


def _timed(
    profile: Profile,
    run: ProfileRun | ProfiledPath,
    algorithm: Algorithm,
    laid: LaidRoutes | None = None,
) -> ProfileTime:
    predicted = prediction(profile, run, algorithm, laid)
    sure = predicted and interval_of(predicted)
    return ProfileTime(run.seconds, run.protocol, sure, common(run.overheads))


class _Large:
    """A schedule of many operations, routed once, and the critical paths that its simulations
    had."""

    def __init__(self, profile: Profile, algorithm: Algorithm, routed: Routed) -> None:
        self.profile, self.algorithm, self.routed = profile, algorithm, routed
        self.laid = LaidRoutes(algorithm)
        self.paths: list[Sensitivities] = []
        self.path_of: dict[tuple[str, float], Sensitivities] = {}
        self.known: dict[tuple[str, float], float] = {}

    def times(self, sizes: Sequence[float]) -> dict[float, ProfileTime]:
        protocols = self.profile.protocols
        self.simulate(protocols[0], sizes[0])
        self.simulate(protocols[-1], sizes[-1])
        seem = {size: self.seem(self.routed.scaled(size)) for size in sizes}
        result: dict[float, dict[str, float]] = {size: {} for size in sizes}
        for protocol in protocols:
            near = [
                size
                for size in sizes
                if seem[size].get(protocol.name, inf) <= NEAR_FASTEST * min(seem[size].values())
            ]
            for size, seconds in self.between(protocol, near).items():
                result[size][protocol.name] = seconds
        best = {size: min(by, key=lambda name: by[name]) for size, by in result.items()}
        return {size: self.timed(name, size, result[size][name]) for size, name in best.items()}

    def timed(self, name: str, size: float, seconds: float) -> ProfileTime:
        """A run whose critical path takes so many seconds, by the name of its protocol."""
        protocol = next(each for each in self.profile.protocols if each.name == name)
        routed = self.machine(protocol, size)
        overheads = self.profile.overheads(routed.schedule, self.routed.machine, self.algorithm)
        whole, counts = seconds + sum(overheads.values()), self.path_of[name, size]
        path = ProfiledPath(whole, name, routed, counts, overheads)
        return _timed(self.profile, path, self.algorithm, self.laid)

    def between(self, protocol: Protocol, sizes: Sequence[float]) -> dict[float, float]:
        """Seconds of ascending sizes. Simulations of some of them tell the others."""
        ends = list(dict.fromkeys((*sizes[:1], *sizes[-1:])))
        return self.inside(protocol, sizes, {size: self.simulate(protocol, size) for size in ends})

    def inside(
        self, protocol: Protocol, sizes: Sequence[float], seconds_by_size: dict[float, float]
    ) -> dict[float, float]:
        """Seconds of all sizes; the first and the last are known. A path that explains both, and
        a size in the middle, explains those between."""
        if len(sizes) <= 2:
            return seconds_by_size
        middle = len(sizes) // 2
        seconds_by_size |= {sizes[middle]: self.simulate(protocol, sizes[middle])}
        known = {
            size: self.machine(protocol, size) for size in (sizes[0], sizes[middle], sizes[-1])
        }
        for path in self.paths:
            # a path is the critical path of a simulation that takes as long
            if all(
                abs(path.seconds(known[size]) / seconds_by_size[size] - 1) < 1e-6 for size in known
            ):
                inside = [size for size in sizes if size not in known]
                self.path_of |= {(protocol.name, size): path for size in inside}
                return seconds_by_size | {
                    size: path.seconds(self.machine(protocol, size)) for size in inside
                }
        halves = (
            self.inside(protocol, part, seconds_by_size)
            for part in (sizes[: middle + 1], sizes[middle:])
        )
        return {size: seconds for half in halves for size, seconds in half.items()}

    def seem(self, routed: Routed) -> dict[str, float]:
        """Seconds of the longest path known, by each protocol that carries the messages."""
        names = [protocol.name for protocol in self.profile.carrying(routed.schedule)]
        machines = {name: self.laid(self.profile, name, routed) for name in names}
        return {
            name: max(path.seconds(machine) for path in self.paths)
            for name, machine in machines.items()
        }

    def simulate(self, protocol: Protocol, size: float) -> float:
        """Seconds of a simulation, whose critical path is kept; no size is simulated twice."""
        if (protocol.name, size) not in self.known:
            self.known[protocol.name, size] = self._simulated(protocol, size)
        return self.known[protocol.name, size]

    def _simulated(self, protocol: Protocol, size: float) -> float:
        timeline = run(self.machine(protocol, size))
        self.paths.append(sensitivities(timeline))
        self.path_of[protocol.name, size] = self.paths[-1]
        return timeline.makespan

    def machine(self, protocol: Protocol, size: float) -> Routed:
        return self.laid(self.profile, protocol.name, self.routed.scaled(size))


class PredictedPoint(NamedTuple):
    """What a profile says of one point."""

    size: float
    measured: float
    seconds: float
    algorithm: str
    """The fastest algorithm, by the profile."""
    protocol: str
    interval: Interval | None = None
    """None if the profile does not say how sure it is."""

    @property
    def inside(self) -> bool | None:
        """Whether the measured time is inside the interval; None without one."""
        if self.interval is None:
            return None
        return self.interval.low <= self.measured <= self.interval.high

    @property
    def error(self) -> float:
        """predicted / measured - 1."""
        return self.seconds / self.measured - 1


class CurveJob(NamedTuple):
    """A simulation that several curves may need."""

    algorithm: str
    ranks: int
    nodes: int
    protocols: tuple[str, ...]
    """The protocols that the run was told to use. None if it chose."""


def predict(
    profile: Profile, library: Library, curve: FitCurve, topology: Topology
) -> list[PredictedPoint]:
    """Simulate every size of a curve. If the library chose the algorithm, the fastest of its
    algorithms counts."""
    return predict_all(profile, library, [curve], lambda _: topology)[0]


def predict_all(
    profile: Profile,
    library: Library,
    curves: Sequence[FitCurve],
    machine: Callable[[CurveJob], Topology],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[list[PredictedPoint]]:
    """As :func:`predict`, for several curves. A simulation that several curves need runs once."""
    jobs: dict[CurveJob, set[float]] = {}
    for curve in curves:
        for size in curve.sizes.tolist():
            for job in _running(library, curve, size):
                jobs.setdefault(job, set()).add(size)
    best_times: dict[CurveJob, dict[float, ProfileTime]] = {}
    for done, (job, sizes) in enumerate(jobs.items()):
        progress(done, len(jobs))
        protocols = tuple(
            protocol for protocol in profile.protocols if protocol.name in job.protocols
        )
        simulated = replace(profile, protocols=protocols or profile.protocols)
        best_times[job] = times(
            simulated, find(job.algorithm), machine(job), job.ranks, sorted(sizes)
        )
    progress(len(jobs), len(jobs))
    return [_rows(library, curve, best_times) for curve in curves]


def _rows(
    library: Library, curve: FitCurve, best_times: Mapping[CurveJob, Mapping[float, ProfileTime]]
) -> list[PredictedPoint]:
    rows = []
    for size, measured in zip(curve.sizes.tolist(), curve.seconds.tolist(), strict=True):
        best = min(_running(library, curve, size), key=lambda job: best_times[job][size].seconds)
        timed = best_times[best][size]
        about = timed.seconds, best.algorithm, timed.protocol, timed.interval
        rows.append(PredictedPoint(size, measured, *about))
    return rows


def _running(library: Library, curve: FitCurve, size: float) -> list[CurveJob]:
    names = library.ran(curve, size)
    return [CurveJob(name, curve.ranks, curve.nodes, curve.protocols) for name in names]


def coverage(rows: Sequence[PredictedPoint]) -> float | None:
    """The share of rows inside their intervals; None if they have none."""
    inside = [row.inside for row in rows if row.inside is not None]
    return sum(inside) / len(inside) if inside else None


def errors(rows: list[PredictedPoint]) -> Floats:
    """|error| of every row."""
    return np.asarray(np.abs([row.error for row in rows]))
