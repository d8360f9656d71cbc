"""The options that say under which library collectives run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from experiments.options.machine_options import MachineOptions, RuleOptions, library_of
from experiments.options.options import Level, LibraryName, Options, PopulationName, ProfileName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.output import Value
    from simulator.profile import Profile
    from topologies.catalogue import Blueprint


@dataclass(frozen=True)
class ProfileOptions(Options):
    """A calibrated machine, or a library on a machine that nobody has measured."""

    profile: ProfileName = None
    library: PopulationName = None
    level: Level = None

    def refuse_library(self, why: str, *names: str) -> None:
        """Raise InputError if one of the options is there; by default any of them."""
        self.refuse(names or self.values_of(ProfileOptions), f": {why}")


def _described(library: LibraryName, machine: MachineOptions) -> Profile:
    """The profile of a library on a machine. Notes say where its figures are from."""
    from experiments import output
    from experiments.calibration.population.library_profile import library_on
    from experiments.models.accelerators import memory_of

    why = f": --library {library} has its own, leave one of the two out"
    machine.refuse(("latency", "gap", "reduction"), why)
    described = library_on(machine.blueprint, library, memory_of(machine.blueprint.name))
    output.note(*described.notes)
    return described.profile


@dataclass(frozen=True)
class SimulationOptions(MachineOptions, RuleOptions, ProfileOptions):
    """What is simulated under which rules, without what runs there."""

    @cached_property
    def chosen(self) -> tuple[SimulationOptions, Profile | None]:
        """The options on the machine of the profile, if they name none, and the profile under the
        rules. With a library, the profile is of that on this machine.

        Raises InputError for options that contradict, and for links that the profile has itself.
        """
        name, level = self.profile, self.level
        if self.library is not None:
            self.refuse(("profile",), ": leave one of them out", f"--library {self.library} and ")
            return self, self.sure(_described(self.library, self).at_level(level))
        if name is None:
            self.refuse(("level",), " goes with --profile or --library: write both")
            return self, None
        from experiments.calibration.population.library_profile import choosing
        from experiments.profiles import find as find_profile
        from experiments.profiles.interval_levels import at_level

        why = f": --profile {name} has links of its own, leave one of the two out"
        self.refuse(("bandwidth", "latency", "gap", "reduction"), why)
        profile = at_level(find_profile(name).simulated(), level)
        chosen = replace(self, topology=profile.machine) if self.topology is None else self
        known, blueprint = library_of(name, None), chosen.blueprint
        assert known is not None
        specified = not blueprint.has_default_links
        return chosen, self.sure(choosing(profile, known, blueprint, specified=specified))

    @cached_property
    def machine(self) -> Blueprint:
        """The machine, by default that of the profile."""
        return replace(self.chosen[0].blueprint, force=self.force)

    @property
    def calibration(self) -> Profile | None:
        """The profile or the library; None without one."""
        return self.chosen[1]

    @property
    def library_choices(self) -> tuple[str, ...]:
        """The all-reduces from which the library may choose here; none without one."""
        library = library_of(self.profile, self.library)
        if library is None:
            return ()
        return library.on(self.chosen[0].blueprint).algorithms("all_reduce", multicast=True)

    @property
    def resolved(self) -> Mapping[str, Value]:
        """The machine, by default that of the profile, which has links of its own."""
        return super().resolved if self.profile is None else {"topology": self.machine.text}
