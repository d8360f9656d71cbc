"""Links between nodes that slow down as a job grows."""

from dataclasses import replace
from typing import Any

from experiments.calibration.effects.effect import SURE, Data, Effect, Parameter, Values
from experiments.calibration.effects.protocols import BETWEEN
from simulator.effects.crowded_links import Crowding
from simulator.profile import Profile


def growth(data: Data) -> Effect:
    """Powers of the number of nodes, by which α and 1/β between nodes grow."""
    if not data.crowding:
        return Effect()
    parameters = tuple(
        Parameter(f"network {what} by nodes", 0.0, "power", SURE) for what in ("α", "1/β")
    )

    def write(profile: Profile, values: Values) -> Profile:
        latency, bandwidth = (values[parameter.name] for parameter in parameters)
        return crowded(profile, data, latency=latency, bandwidth=bandwidth)

    return Effect(parameters, write)


def crowded(profile: Profile, data: Data, **changes: Any) -> Profile:
    """The profile with changed crowding of all links between nodes."""
    start = Crowding(data.typical, most=data.most)
    crowding = {
        kind: profile.crowding.get(kind, start)._replace(**changes)
        for kind in data.kinds
        if kind in BETWEEN
    }
    return replace(profile, crowding=crowding)
