"""Sends and receives with channels of their own."""

from collections.abc import Mapping
from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.profile import Profile


class Sends(Effect):
    """Factors on launch, α and 1/β in algorithms of sends and receives, for which a library has
    other channels. Data show them where some curves are of such algorithms and others are not."""

    def __init__(self, data: Data, *, algorithms: tuple[str, ...]) -> None:
        self.algorithms, self.kinds = algorithms, data.paths.kinds
        curves = data.points.curves
        if len({set(curve.algorithms).isdisjoint(algorithms) for curve in curves}) > 1:
            slowness = (f"{kind} 1/β of sends" for kind in self.kinds)
            self.parameters = tuple(
                Parameter(name, 0.0, "power", LIKELY)
                for name in ("launch of sends", "α of sends", *slowness)
            )

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The launch, α and 1/β of each of the algorithms."""
        if not self.parameters:
            return profile
        latency, launch = e ** values["α of sends"], e ** values["launch of sends"]
        slower = {kind: e ** values[f"{kind} 1/β of sends"] for kind in self.kinds}
        return replace(
            profile,
            protocols=tuple(
                protocol.slowed(self.algorithms, latency) for protocol in profile.protocols
            ),
            slower=dict.fromkeys(self.algorithms, slower),
            launches=dict.fromkeys(self.algorithms, profile.launch * launch),
        )
