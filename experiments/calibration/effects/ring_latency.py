"""Another latency in rings."""

from collections.abc import Mapping
from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.profile import Profile

RINGS = ("ring", "ring_all_gather", "ring_reduce_scatter", "neighbor_exchange")
"""Algorithms in which a rank always has the same two peers, and waits for both: for one at each
step, or for both in turn."""


class Rings(Effect):
    """A factor on α of one protocol in rings. Only curves that were forced to be rings show it: a
    fit to a library's choice would make rings so slow that they are never chosen."""

    def __init__(self, data: Data, *, protocol: str) -> None:
        self.protocol, self.name = protocol, f"{protocol} α in rings"
        if any(set(RINGS) >= set(curve.algorithms) for curve in data.points.curves):
            self.parameters = (Parameter(self.name, 0.0, "power", LIKELY),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The protocol with the factor in each ring."""
        factor = e ** values[self.name] if self.parameters else 1.0
        protocols = tuple(
            protocol.slowed(RINGS, factor) if protocol.name == self.protocol else protocol
            for protocol in profile.protocols
        )
        return replace(profile, protocols=protocols)
