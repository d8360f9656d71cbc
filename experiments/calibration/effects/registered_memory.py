"""Memory that is registered with the network again."""

from collections.abc import Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.profile import Profile


class RegisteredMemory(Effect):
    """Blocks of fresh memory that share pages are registered together, anew. Only curves that were
    forced to be of such algorithms show it."""

    def __init__(self, data: Data, *, joined: Mapping[str, float]) -> None:
        """`joined`: the memory that an algorithm has registered again, in units of V and ranks."""
        self.joined = dict(joined)
        if any(joined.keys() >= set(curve.algorithms) for curve in data.points.curves):
            self.parameters = (Parameter("memory registered again", 1 / 40e9, "s/B", LIKELY),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The memory of each algorithm, and its rate."""
        memory = profile.memory
        if self.parameters:
            memory = memory._replace(registered=values["memory registered again"])
        return replace(profile, memory=memory, joined=self.joined)
