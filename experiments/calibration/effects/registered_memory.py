"""Memory that is registered with the network again."""

from collections.abc import Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from simulator.profile import Profile

AGAIN = Parameter("memory registered again", 1 / 40e9, "s/B", LIKELY)


def registered_memory(data: Data, *, joined: Mapping[str, float]) -> Effect:
    """Blocks of fresh memory that share pages are registered together, anew. Only curves that were
    forced to be of such algorithms show it. `joined` is the memory that an algorithm has registered
    again, in units of V and ranks."""
    shown = any(joined.keys() >= set(curve.algorithms) for curve in data.curves)

    def write(profile: Profile, values: Values) -> Profile:
        memory = profile.memory
        if shown:
            memory = memory._replace(registered=values[AGAIN.name])
        return replace(profile, memory=memory, joined=dict(joined))

    return Effect((AGAIN,) if shown else (), write)
