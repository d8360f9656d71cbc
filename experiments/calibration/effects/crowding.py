"""Links between nodes that slow down as a job grows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from experiments.calibration.effects.effect import SURE, Data, Effect, Parameter
from experiments.calibration.effects.protocols import BETWEEN
from simulator.effects.crowded_links import Crowding
from simulator.profile import Profile


class Growth(Effect):
    """Powers of the number of nodes, by which α and 1/β between nodes grow."""

    def __init__(self, data: Data) -> None:
        self.data = data
        if data.crowding:
            self.parameters = tuple(
                Parameter(f"network {what} by nodes", 0.0, "power", SURE) for what in ("α", "1/β")
            )

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """Both powers."""
        if not self.parameters:
            return profile
        latency, bandwidth = values["network α by nodes"], values["network 1/β by nodes"]
        return crowded(profile, self.data, latency=latency, bandwidth=bandwidth)


def crowded(profile: Profile, data: Data, **changes: Any) -> Profile:
    """The profile with changed crowding of all links between nodes."""
    start = Crowding(data.typical, most=data.most)
    crowding = {
        kind: profile.crowding.get(kind, start)._replace(**changes)
        for kind in data.paths.kinds
        if kind in BETWEEN
    }
    return replace(profile, crowding=crowding)
