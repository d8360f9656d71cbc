"""Memory that is pinned for the network."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.profile import Profile


class PinnedMemory(Effect):
    """A constant time for each time that fresh memory is pinned. Only curves that were forced to be
    of algorithms that allocate memory show it."""

    def __init__(self, data: Data, *, algorithms: Collection[str]) -> None:
        forced = [set(curve.algorithms) for curve in data.points.curves]
        if any(names <= set(algorithms) for names in forced):
            self.parameters = (Parameter("memory pinned", 1e-4, "s", LIKELY),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The time to pin memory."""
        if not self.parameters:
            return profile
        return replace(profile, memory=profile.memory._replace(pinned=values["memory pinned"]))
