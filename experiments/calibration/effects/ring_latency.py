"""Another latency in rings."""

from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from simulator.profile import Profile

RINGS = ("ring", "ring_all_gather", "ring_reduce_scatter", "neighbor_exchange")
"""Algorithms in which a rank always has the same two peers, and waits for both: for one at each
step, or for both in turn."""


def ring_latency(data: Data, *, protocol: str) -> Effect:
    """A factor on α of one protocol in rings. Only curves that were forced to be rings show it: a
    fit to a library's choice would make rings so slow that they are never chosen."""
    name = f"{protocol} α in rings"
    shown = any(set(RINGS) >= set(curve.algorithms) for curve in data.curves)

    def write(profile: Profile, values: Values) -> Profile:
        factor = e ** values.get(name, 0.0)
        protocols = (
            each.slowed(RINGS, factor) if each.name == protocol else each
            for each in profile.protocols
        )
        return replace(profile, protocols=tuple(protocols))

    return Effect((Parameter(name, 0.0, "power", LIKELY),) if shown else (), write)
