"""Merging, copying and fresh memory on the host."""

from collections.abc import Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, LOOSE, Data, Effect, Parameter, Values
from simulator.effects.memory_costs import HostMemory
from simulator.profile import Profile

NO_SCRATCH: Mapping[str, float] = {}
RATES = {
    "reduction": Parameter("γ", 1 / 8e9, "s/B", LOOSE),
    "reduction_beyond": Parameter("γ beyond cache", 1 / 5e9, "s/B", LOOSE),
    "copy": Parameter("copy", 1 / 15e9, "s/B", LIKELY),
    "copy_beyond": Parameter("copy beyond cache", 1 / 8e9, "s/B", LIKELY),
    "fresh": Parameter("fresh memory", 1 / 4e9, "s/B", LIKELY),
}
"""The rates that are always fitted, by the field of Memory."""


def host_memory(
    data: Data,
    *,
    scratch: Mapping[str, float] = NO_SCRATCH,
    mapped: float = 2.0**25,
    trimmed: float = 2.0**19,
) -> Effect:
    """Ranks merge and copy on the host, and algorithms write memory that the allocator maps anew or
    gives back.

    `scratch` is the memory that an algorithm allocates in each call, in units of V. `mapped` and
    `trimmed` are the sizes in bytes from which the allocator maps a block, and gives some back.
    """
    rates = dict(RATES)
    if any(scratch.get(name, 0.0) > 1 for name in data.jobs.names):
        rates["back"] = Parameter("memory given back", 1 / 4e9, "s/B", LIKELY)

    def write(profile: Profile, values: Values) -> Profile:
        fitted = {name: values[parameter.name] for name, parameter in rates.items()}
        memory = HostMemory(mapped=mapped, trimmed=trimmed)._replace(**fitted)
        return replace(profile, memory=memory, scratch=dict(scratch))

    return Effect(tuple(rates.values()), write)
