"""A library on a machine as a profile that knows what the library chooses there."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from experiments.calibration.libraries import choices, runs
from experiments.calibration.library import Library
from experiments.calibration.population.library_profile import LIBRARIES, Described, profile_for
from simulator.profile import Profile
from topologies.catalogue import Blueprint


def library_on(machine: Blueprint, name: str, memory: float | None) -> Described:
    """The library `name` of LIBRARIES on a machine that nobody has measured. `memory` is β of a
    GPU's memory in bytes/s, if it is known."""
    several = machine.whole()
    if machine.size is None:
        per_node = machine.options.get("per_node")
        node = max(several.ranks, per_node if isinstance(per_node, int) else 1)
        several = machine.build(2 * node)
    p2p = machine.options.get("p2p")
    described = profile_for(name, several, memory, p2p=None if p2p is None else bool(p2p))
    profile = choosing(described.profile, LIBRARIES[name], machine, specified=True, version=name)
    return described._replace(profile=profile)


def choosing(
    profile: Profile,
    library: Library,
    machine: Blueprint,
    *,
    specified: bool,
    version: str = "",
) -> Profile:
    """The profile with the choices of its library on a machine. `specified`: whether the links of
    the machine are."""
    specialised = library.on(machine).with_figures(profile.launches)
    chosen = partial(choices, specialised, version)
    return replace(profile, choices=chosen, runs=partial(runs, specialised), specified=specified)
