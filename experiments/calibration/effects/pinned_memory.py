"""Memory that is pinned for the network."""

from collections.abc import Collection
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from simulator.effects.memory_costs import CONNECTED_RANKS
from simulator.profile import Profile


def pinned_memory(data: Data, *, algorithms: Collection[str]) -> Effect:
    """A constant time for each time that fresh memory is pinned, and one for scratch in jobs of
    many ranks. Only curves that were forced to be of algorithms that allocate memory show them."""
    forced = [curve for curve in data.curves if {*curve.algorithms} <= {*algorithms}]
    names = {"pinned": "memory pinned"} if forced else {}
    if any(curve.ranks > CONNECTED_RANKS for curve in forced):
        names["pinned_on_many"] = "memory pinned on many ranks"

    def write(profile: Profile, values: Values) -> Profile:
        times = {field: values[name] for field, name in names.items()}
        return replace(profile, memory=profile.memory._replace(**times))

    return Effect(tuple(Parameter(name, 1e-4, "s", LIKELY) for name in names.values()), write)
