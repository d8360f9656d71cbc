"""Latency in collectives with a root."""

from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import SURE, Data, Effect, Parameter, Values
from simulator.collectives import find
from simulator.profile import Profile


def rooted_latency(data: Data) -> Effect:
    """A factor on α in collectives with a root. A benchmark that takes the mean over ranks counts
    about half of a tree's levels, as ranks near the root finish early. Data show it where some
    curves have a root and others do not."""
    algorithms = [name for name in data.algorithms if find(name).collective.root is not None]
    if len({name in algorithms for name in data.jobs.names}) < 2:
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        factor = e ** values["α of roots"]
        protocols = (protocol.slowed(algorithms, factor) for protocol in profile.protocols)
        return replace(profile, protocols=tuple(protocols))

    return Effect((Parameter("α of roots", 0.0, "power", SURE),), write)
