"""What a profile says of measured curves: every size simulated, with every algorithm and protocol that may have run."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np

from experiments.calibration.libraries import Library
from experiments.calibration.observations import Series
from experiments.calibration.times import times
from simulator.collectives import find
from simulator.profile import Profile
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
    running = {
        float(size): library.running(curve.algorithms, float(size) / curve.elements, curve.ranks)
        for size in curve.sizes
    }
    fastest: dict[float, tuple[float, str, str]] = {}
    for name in library.all_of(curve.algorithms):
        sizes = [size for size, names in running.items() if name in names]
        for size, (seconds, protocol) in times(profile, find(name), topology, curve.ranks, sizes).items():
            fastest[size] = min(fastest.get(size, (inf, "", "")), (seconds, name, protocol), key=lambda one: one[0])
    return [
        Predicted(float(size), float(measured), *fastest[float(size)])
        for size, measured in zip(curve.sizes, curve.seconds, strict=True)
    ]


def errors(rows: list[Predicted]) -> Floats:
    """|error| of every row."""
    return np.asarray(np.abs([row.error for row in rows]))
