"""Long messages that two nodes send each other at once."""

from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from simulator.effects.exchanges import Exchanges
from simulator.profile import Profile


def long_exchanges(data: Data, *, beyond: float) -> Effect:
    """Bytes after the first `beyond` of a message take longer where two ranks on two nodes send
    to each other. Data show it where every algorithm that may have made a curve does that."""
    if not any(data.exchanges(curve, beyond) for curve in data.curves):
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        return replace(profile, exchanges=Exchanges(values["long exchanges"], beyond))

    return Effect((Parameter("long exchanges", 1 / 40e9, "s/B", LIKELY),), write)
