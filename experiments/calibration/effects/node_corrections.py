"""Numbers of nodes that were measured in another allocation of the machine."""

from collections.abc import Mapping

import numpy as np

from experiments.calibration.effects.crowding import crowded
from experiments.calibration.effects.effect import Data, Effect, Parameter
from simulator.effects.crowded_links import NodeCorrection, alike
from simulator.profile import Profile
from topologies.topology import Floats

WEIGHT = 0.25
"""The weight of a correction's start: it has none."""


class NodeCorrections(Effect):
    """A factor on α and one on 1/β between nodes for each number of nodes.

    Near numbers of nodes have similar factors. So the fit counts only the difference to the factors
    of fewer nodes.
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        self.counts = np.unique(data.points.nodes) if data.crowding else np.zeros(0)
        self.parameters = tuple(
            Parameter(f"network {what} at {count} nodes", 0.0, "power", WEIGHT)
            for what in ("α", "1/β")
            for count in self.counts
        )

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """A correction for each number of nodes."""
        if not self.parameters:
            return profile
        corrections = tuple(
            NodeCorrection(
                int(count),
                values[f"network α at {count} nodes"],
                values[f"network 1/β at {count} nodes"],
            )
            for count in self.counts
        )
        return crowded(profile, self.data, corrections=corrections)

    def mixing(self) -> Floats:
        """The root of the likeness of numbers of nodes, for α and for 1/β."""
        if not self.parameters:
            return np.zeros((0, 0))
        root = np.linalg.cholesky(alike(self.counts, self.counts))
        return np.asarray(np.kron(np.eye(2), root))
