"""Latency in collectives with a root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import SURE, Data, Effect, Parameter
from simulator.profile import Profile


class Roots(Effect):
    """A factor on α in collectives with a root. A benchmark that takes the mean over ranks counts
    about half of a tree's levels, as ranks near the root finish early. Data show it where some
    curves have a root and others do not."""

    def __init__(self, data: Data) -> None:
        from simulator.collectives import find

        rooted = {
            name: find(name).collective.root is not None
            for name in dict.fromkeys((*data.paths.jobs.names, *data.library.known))
        }
        self.algorithms = [name for name, has_root in rooted.items() if has_root]
        if len({rooted[name] for name in data.paths.jobs.names}) > 1:
            self.parameters = (Parameter("α of roots", 0.0, "power", SURE),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The factor of each algorithm with a root."""
        if not self.parameters:
            return profile
        factor = e ** values["α of roots"]
        protocols = (protocol.slowed(self.algorithms, factor) for protocol in profile.protocols)
        return replace(profile, protocols=tuple(protocols))
