"""The launch of collectives that reduce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import SURE, Data, Effect, Parameter
from simulator.effects.jobs import reduces
from simulator.profile import Profile


class Reductions(Effect):
    """A factor on the launch of collectives that reduce: they get scratch memory, and V on a GPU
    is copied to the host and back (ompi/mca/coll/cuda/coll_cuda_allreduce.c). Data show it where
    some curves reduce and others do not."""

    def __init__(self, data: Data) -> None:
        from simulator.collectives import find

        names = dict.fromkeys((*data.paths.jobs.names, *data.library.known))
        self.algorithms = [name for name in names if reduces(find(name).collective.name)]
        if len({reduces(curve.collective) for curve in data.points.curves}) > 1:
            self.parameters = (Parameter("launch of reductions", 0.0, "power", SURE),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The launch of each algorithm that reduces."""
        if not self.parameters:
            return profile
        launch = profile.launch * e ** values["launch of reductions"]
        return replace(profile, launches=dict.fromkeys(self.algorithms, launch))
