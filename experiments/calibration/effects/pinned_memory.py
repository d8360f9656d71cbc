"""Memory that is pinned for the network."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.effects.memory_costs import FEW
from simulator.profile import Profile


class PinnedMemory(Effect):
    """A constant time for each time that fresh memory is pinned, and one for scratch in jobs of
    many ranks. Only curves that were forced to be of algorithms that allocate memory show them."""

    def __init__(self, data: Data, *, algorithms: Collection[str]) -> None:
        forced = [curve for curve in data.points.curves if {*curve.algorithms} <= {*algorithms}]
        self.names = {"pinned": "memory pinned"} if forced else {}
        if any(curve.ranks > FEW for curve in forced):
            self.names["pinned_on_many"] = "memory pinned on many ranks"
        self.parameters = tuple(Parameter(name, 1e-4, "s", LIKELY) for name in self.names.values())

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The times to pin memory."""
        times = {field: values[name] for field, name in self.names.items()}
        return replace(profile, memory=profile.memory._replace(**times))
