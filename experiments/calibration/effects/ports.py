"""Ports of a node that its ranks share."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from experiments.calibration.effects.crowding import crowded
from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.profile import Profile


class Ports(Effect):
    """A library opens as many channels as its network feeds, so links inside nodes have the β of
    those between nodes. That changes with the ranks a node by a power, which data show where jobs
    over several nodes had different numbers of ranks there."""

    def __init__(self, data: Data) -> None:
        self.data, points = data, data.points
        widths = np.array([curve.per_node for curve in points.curves])[points.curve]
        between = widths[points.nodes > 1]
        if len({curve.per_node for curve in points.curves if curve.nodes > 1}) > 1:
            self.typical = float(np.exp(np.log(between).mean()))
            name = "network 1/β by ranks a node"
            self.parameters = (Parameter(name, -1.0, "power", LIKELY, "network", specified=True),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """Links inside nodes that are paced, and the power."""
        profile = replace(profile, paced=True)
        if not self.parameters:
            return profile
        shared = values["network 1/β by ranks a node"]
        return crowded(profile, self.data, per_node=self.typical, shared=shared)
