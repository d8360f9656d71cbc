"""Sends and receives with channels of their own."""

from collections.abc import Mapping
from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.profile import Profile


class Sends(Effect):
    """Factors on launch, α and 1/β in algorithms of sends and receives, for which a library has
    other channels. Data show them where some curves are of such algorithms and others are not.

    A message to one peer has few channels, and an all-to-all has those of all peers. So each
    algorithm has a 1/β of its own, if a curve shows it. They share launch and α.
    """

    def __init__(self, data: Data, *, algorithms: Mapping[str, str]) -> None:
        """`algorithms`: what the algorithms are called in the names of parameters."""
        curves = data.points.curves
        kinds = {len(set(curve.algorithms) - algorithms.keys()) > 0 for curve in curves}
        if len(kinds) > 1:
            shown = {name for curve in curves for name in curve.algorithms}
            self.called, self.kinds = algorithms, data.paths.kinds
            self.rates = [name for name in algorithms if name in shown]
            slowness = {
                f"{kind} 1/β of {algorithms[name]}": kind
                for name in self.rates
                for kind in self.kinds
            }
            names = {"launch of sends": "", "α of sends": ""} | slowness
            self.parameters = tuple(
                Parameter(name, 0.0, "power", LIKELY, kind) for name, kind in names.items()
            )

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The launch, α and 1/β of each of the algorithms."""
        if not self.parameters:
            return profile
        latency, launch = e ** values["α of sends"], e ** values["launch of sends"]
        return replace(
            profile,
            protocols=tuple(
                protocol.slowed(tuple(self.called), latency) for protocol in profile.protocols
            ),
            slower={
                name: {
                    kind: e ** values[f"{kind} 1/β of {self.called[name]}"] for kind in self.kinds
                }
                for name in self.rates
            },
            launches=dict.fromkeys(self.called, profile.launch * launch),
        )
