"""Messages to one peer in a node, for which a library opens few channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from experiments.calibration.effects.protocols import reach
from simulator.effects.channels import Channels
from simulator.profile import Profile

CHANNEL = "1/β of a channel"


class FewChannels(Effect):
    """The 1/β of one channel. Data show it where an algorithm, in which a rank sends to one peer,
    ran on one node."""

    def __init__(self, data: Data, *, algorithm: str, slowness: float) -> None:
        """`slowness`, 1/β of a channel in s/B, is where the fit starts."""
        self.algorithm = algorithm
        self.kind = next((kind for kind in data.paths.kinds if reach(kind) == "node"), "")
        curves = data.points.curves
        if self.kind and any(one.nodes == 1 and algorithm in one.algorithms for one in curves):
            self.parameters = (Parameter(CHANNEL, slowness, "s/B", LIKELY),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The channels of the algorithm."""
        if not self.parameters:
            return profile
        return replace(profile, channels={self.algorithm: Channels(self.kind, values[CHANNEL])})
