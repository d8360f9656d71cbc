"""Times of a collective under a profile at many sizes, with one schedule and few simulations.

A large schedule is simulated at the smallest and at the largest size at which a protocol may be the
fastest. If both have the same critical path, so have the sizes in between, and its counts give
their times. Otherwise the size in the middle is simulated, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from experiments.calibration.paths import LARGE_SCHEDULE, NEAR_FASTEST
from simulator.analysis.critical_path import Sensitivities, sensitivities
from simulator.collectives import Algorithm
from simulator.engines import run
from simulator.predictions import ProfiledPath, interval_of, prediction
from simulator.profile import Profile, Protocol
from simulator.schedules.routed import Routed, route
from simulator.schedules.timeline import ProfileRun
from simulator.uncertainty.interval import Interval
from topologies.topology import Topology

SAME_TIME = 1e-6
"""A path is the critical path of a simulation if their times differ by at most this share."""


class ProfileTime(NamedTuple):
    """A run under a profile."""

    seconds: float
    protocol: str
    """The fastest protocol."""
    interval: Interval | None
    """None if the profile does not say how sure it is."""


def times(
    profile: Profile, algorithm: Algorithm, topology: Topology, ranks: int, sizes: Sequence[float]
) -> dict[float, ProfileTime]:
    """A run for each size in bytes."""
    if not sizes:
        return {}
    schedule, topology, _, _ = algorithm.on(topology, ranks, 1.0)
    routed = route(schedule, topology)
    if len(schedule) > LARGE_SCHEDULE:
        return _Large(profile, algorithm, routed).times(sorted(sizes))
    runs = {size: profile.simulate(routed.scaled(size), algorithm) for size in sizes}
    return {size: _timed(profile, result, algorithm) for size, result in runs.items()}


def _timed(profile: Profile, run: ProfileRun | ProfiledPath, algorithm: Algorithm) -> ProfileTime:
    predicted = prediction(profile, run, algorithm)
    return ProfileTime(run.seconds, run.protocol, predicted and interval_of(predicted))


class _Large:
    """A schedule of many operations, routed once, and the critical paths that its simulations
    had."""

    def __init__(self, profile: Profile, algorithm: Algorithm, routed: Routed) -> None:
        self.profile, self.algorithm, self.routed = profile, algorithm, routed
        self.paths: list[Sensitivities] = []
        self.path_of: dict[tuple[str, float], Sensitivities] = {}
        self.known: dict[tuple[str, float], float] = {}

    def times(self, sizes: Sequence[float]) -> dict[float, ProfileTime]:
        """As :func:`times`, of ascending sizes."""
        protocols = self.profile.protocols
        self.simulate(protocols[0], sizes[0])
        self.simulate(protocols[-1], sizes[-1])
        seem = {
            size: {protocol.name: self.seems(protocol, size) for protocol in self.carrying(size)}
            for size in sizes
        }
        result: dict[float, dict[str, float]] = {size: {} for size in sizes}
        for protocol in protocols:
            near = [
                size
                for size in sizes
                if seem[size].get(protocol.name, inf) <= NEAR_FASTEST * min(seem[size].values())
            ]
            for size, seconds in self.between(protocol, near).items():
                result[size][protocol.name] = seconds
        overheads = {size: sum(self.overheads(size).values()) for size in sizes}
        best = {size: min(by, key=lambda name: by[name]) for size, by in result.items()}
        return {
            size: self.timed(name, size, overheads[size] + result[size][name])
            for size, name in best.items()
        }

    def carrying(self, size: float) -> Sequence[Protocol]:
        """The protocols that carry all messages."""
        return self.profile.carrying(self.routed.schedule.scaled(size))

    def timed(self, name: str, size: float, seconds: float) -> ProfileTime:
        """A run whose critical path is known, by the name of its protocol."""
        protocol = next(each for each in self.profile.protocols if each.name == name)
        path = ProfiledPath(seconds, name, self.machine(protocol, size), self.path_of[name, size])
        return _timed(self.profile, path, self.algorithm)

    def between(self, protocol: Protocol, sizes: Sequence[float]) -> dict[float, float]:
        """Seconds of ascending sizes. Simulations of some of them tell the others."""
        ends = list(dict.fromkeys((*sizes[:1], *sizes[-1:])))
        return self.inside(protocol, sizes, {size: self.simulate(protocol, size) for size in ends})

    def inside(
        self, protocol: Protocol, sizes: Sequence[float], seconds_by_size: dict[float, float]
    ) -> dict[float, float]:
        """Seconds of all sizes; the first and the last are known."""
        if len(sizes) <= 2:
            return seconds_by_size
        ends = {size: self.machine(protocol, size) for size in (sizes[0], sizes[-1])}
        for path in self.paths:
            if all(
                abs(path.seconds(ends[size]) / seconds_by_size[size] - 1) < SAME_TIME
                for size in ends
            ):
                inside = sizes[1:-1]
                self.path_of |= {(protocol.name, size): path for size in inside}
                return seconds_by_size | {
                    size: path.seconds(self.machine(protocol, size)) for size in inside
                }
        middle = len(sizes) // 2
        seconds_by_size |= {sizes[middle]: self.simulate(protocol, sizes[middle])}
        halves = (
            self.inside(protocol, part, seconds_by_size)
            for part in (sizes[: middle + 1], sizes[middle:])
        )
        return {size: seconds for half in halves for size, seconds in half.items()}

    def seems(self, protocol: Protocol, size: float) -> float:
        """Seconds of the longest path known."""
        machine = self.machine(protocol, size)
        return max(path.seconds(machine) for path in self.paths)

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
        """The routes of a size on the machine as a protocol finds it."""
        return self.profile.laid(self.routed.scaled(size), [protocol], self.algorithm)[0]

    def overheads(self, size: float) -> dict[str, float]:
        """Seconds that no link takes."""
        return self.profile.overheads(
            self.routed.schedule.scaled(size), self.routed.machine, self.algorithm
        )
