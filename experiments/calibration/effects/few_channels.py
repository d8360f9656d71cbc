"""Messages to one peer in a node, for which a library opens few channels."""

from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from experiments.calibration.effects.protocols import reach
from simulator.effects.channels import PeerChannels
from simulator.profile import Profile

CHANNEL = "1/β of a channel"


def few_channels(data: Data, *, algorithm: str, slowness: float) -> Effect:
    """The 1/β of one channel. Data show it where an algorithm, in which a rank sends to one peer,
    ran on one node. `slowness`, 1/β of a channel in s/B, is where the fit starts."""
    kind = next((kind for kind in data.kinds if reach(kind) == "node"), "")
    if not kind or not any(
        curve.nodes == 1 and algorithm in curve.algorithms for curve in data.curves
    ):
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        return replace(profile, channels={algorithm: PeerChannels(kind, values[CHANNEL])})

    return Effect((Parameter(CHANNEL, slowness, "s/B", LIKELY),), write)
