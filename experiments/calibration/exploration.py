"""Simulate measured points at the parameters of a fit, and keep the paths that explain them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.calibration.effects.protocols import LEAST_LATENCY
from experiments.calibration.known_paths import JobSizes
from experiments.calibration.paths import NEAR_FASTEST, PathCosts
from simulator.effects.jobs import Jobs
from simulator.profile import Profile


class Exploration:
    """Simulations of places under a profile, whose jobs and kinds of link are those of a fit."""

    def __init__(self, profile: Profile, jobs: Jobs, kinds: Sequence[str]) -> None:
        self.profile, self.kinds = profile, tuple(kinds)
        self.links = profile.link_costs(jobs, profile.protocols, kinds)

    def explore(self, place: JobSizes, doubt: float) -> float:
        """The greatest relative error of the known paths of a place.

        Places that were wrong by less than `doubt` the last time are not simulated.
        """
        paths = place.paths
        if paths.wrong < doubt:
            return 0.0
        if paths.large:
            ends = (0, place.sizes[0]), (len(self.profile.protocols) - 1, place.sizes[-1])
            paths.wrong = max(self._wrong(place, number, float(size)) for number, size in ends)
        else:
            paths.wrong = max(self._settle(place, float(size)) for size in place.sizes)
        return paths.wrong

    def _settle(self, place: JobSizes, size: float) -> float:
        """Simulate the protocols that come near the fastest at a size, according to the known
        paths."""
        most = [protocol.most for protocol in self.profile.protocols]
        numbers = np.flatnonzero(place.paths.carried(size, most)).tolist()
        known = {q: place.paths.longest(self.costs(place, q, size), size, q) for q in numbers}
        near = NEAR_FASTEST * min(known.values())
        return max(self._wrong(place, q, size) for q in numbers if known[q] <= near)

    def _wrong(self, place: JobSizes, number: int, size: float) -> float:
        costs = self.costs(place, number, size)
        before = place.paths.longest(costs, size, number)
        return abs(1 - before / place.paths.simulate(costs, size, number))

    def costs(self, place: JobSizes, number: int, size: float) -> PathCosts:
        """The costs of a place by a protocol, by its number, at a size in bytes."""
        columns = [self.kinds.index(kind) for kind in place.paths.kinds]
        latency, bandwidth, gap = (column[number, columns, place.job] for column in self.links)
        merge = float(self.profile.memory.merge(size))
        return PathCosts(np.maximum(LEAST_LATENCY, latency), 1 / bandwidth, gap, merge)
