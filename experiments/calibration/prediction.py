"""What a profile says of measured curves: every size simulated, with every algorithm and protocol that may have run."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.calibration.libraries import Library
from experiments.calibration.observations import Series
from simulator.collectives import Algorithm, find
from simulator.profile import Profile
from simulator.schedule import Schedule
from topologies.topology import Floats, Topology


class Predicted(NamedTuple):
    """A size in bytes, what was measured and what is predicted in seconds, and by what algorithm and protocol."""

    size: float
    measured: float
    seconds: float
    algorithm: str
    protocol: str

    @property
    def error(self) -> float:
        """predicted / measured - 1."""
        return self.seconds / self.measured - 1


def predict(profile: Profile, library: Library, curve: Series, topology: Topology) -> list[Predicted]:
    """Simulate every size of a curve; where the library chose, the fastest of its algorithms is taken."""
    told = tuple(one for one in profile.protocols if one.name in curve.protocols)
    profile = replace(profile, protocols=told or profile.protocols)
    built = {name: _built(find(name), topology, curve.ranks) for name in library.all_of(curve.algorithms)}
    rows = []
    for size, measured in zip(curve.sizes, curve.seconds, strict=True):
        names = library.running(curve.algorithms, float(size) / curve.elements, curve.ranks)
        runs = {
            name: profile.simulate(built[name][0].scaled(float(size)), built[name][1], find(name)) for name in names
        }
        best = min(runs, key=lambda name: runs[name].seconds)
        rows.append(Predicted(float(size), float(measured), runs[best].seconds, best, runs[best].protocol))
    return rows


def errors(rows: list[Predicted]) -> Floats:
    """|error| of every row."""
    return np.asarray(np.abs([row.error for row in rows]))


def _built(algorithm: Algorithm, topology: Topology, ranks: int) -> tuple[Schedule, Topology]:
    if algorithm.fit is None:
        return algorithm.build(ranks, 1.0), topology
    fitted = algorithm.fit(topology, ranks, 1.0)
    return fitted.schedule, fitted.topology
