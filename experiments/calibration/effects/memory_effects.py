"""Effects of the host's memory."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, LOOSE, Data, Effect, Parameter, Values
from simulator.effects.software_costs import CONNECTED_RANKS, HostMemory
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


AGAIN = Parameter("memory registered again", 1 / 40e9, "s/B", LIKELY)


def registered_memory(data: Data, *, joined: Mapping[str, float]) -> Effect:
    """Blocks of fresh memory that share pages are registered together, anew. Only curves that were
    forced to be of such algorithms show it. `joined` is the memory that an algorithm has registered
    again, in units of V and ranks."""
    shown = any(joined.keys() >= set(curve.algorithms) for curve in data.curves)

    def write(profile: Profile, values: Values) -> Profile:
        memory = profile.memory
        if shown:
            memory = memory._replace(registered=values[AGAIN.name])
        return replace(profile, memory=memory, joined=dict(joined))

    return Effect((AGAIN,) if shown else (), write)


def pinned_memory(data: Data, *, algorithms: Collection[str]) -> Effect:
    """A constant time for each time that fresh memory is pinned, and one for scratch in jobs of
    many ranks. Only curves that were forced to be of algorithms that allocate memory show them."""
    forced = [curve for curve in data.curves if {*curve.algorithms} <= {*algorithms}]
    names = {"pinned": "memory pinned"} if forced else {}
    if any(curve.ranks > CONNECTED_RANKS for curve in forced):
        names["pinned_on_many"] = "memory pinned on many ranks"

    def write(profile: Profile, values: Values) -> Profile:
        times = {field: values[name] for field, name in names.items()}
        return replace(profile, memory=profile.memory._replace(**times))

    return Effect(tuple(Parameter(name, 1e-4, "s", LIKELY) for name in names.values()), write)
