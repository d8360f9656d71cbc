"""The launch of collectives that reduce."""

from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import SURE, Data, Effect, Parameter, Values
from simulator.collectives import find
from simulator.effects.jobs import reduces
from simulator.profile import Profile


def reductions(data: Data) -> Effect:
    """A factor on the launch of collectives that reduce: they get scratch memory, and V on a GPU
    is copied to the host and back (ompi/mca/coll/cuda/coll_cuda_allreduce.c). Data show it where
    some curves reduce and others do not."""
    if len({reduces(curve.collective) for curve in data.curves}) < 2:
        return Effect()
    algorithms = [name for name in data.algorithms if reduces(find(name).collective.name)]

    def write(profile: Profile, values: Values) -> Profile:
        factor = e ** values["launch of reductions"]
        return replace(profile, launches=dict.fromkeys(algorithms, profile.launch * factor))

    return Effect((Parameter("launch of reductions", 0.0, "power", SURE),), write)
