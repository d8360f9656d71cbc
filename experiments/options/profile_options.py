"""The options that say under which library collectives run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from experiments.options.machine_options import MachineOptions, RuleOptions, library_of
from experiments.options.options import Level, PopulationName, ProfileName, refuse, values_of

if TYPE_CHECKING:
    from simulator.profile import Profile
    from topologies.catalogue import Blueprint

Machine = TypeVar("Machine", bound=MachineOptions)


@dataclass(frozen=True)
class ProfileOptions:
    """A calibrated machine, or a library on a machine that nobody has measured."""

    profile: ProfileName = None
    library: PopulationName = None
    level: Level = None

    def calibrated(
        self, machine: Machine, rules: RuleOptions = RuleOptions()
    ) -> tuple[Machine, Profile | None]:
        """The machine and the profile under the rules. Without --topology, it is the profile's
        machine. Raises InputError for options that contradict."""
        chosen, profile = machine.under(self.profile, self.level, self.library)
        return chosen, rules.sure(profile)

    def usual_algorithms(self, machine: MachineOptions) -> tuple[str, ...]:
        """The all-reduces from which the library may choose on a machine; none without one."""
        library = library_of(self.profile, self.library)
        if library is None:
            return ()
        return library.on(machine.blueprint).algorithms("all_reduce", multicast=True)

    @property
    def library_parameters(self) -> dict[str, str]:
        """The options that the user wrote, to be stored with a result."""
        values = values_of(self, ProfileOptions).items()
        return {name: str(value) for name, value in values if value is not None}

    def refuse_library(self, why: str, *names: str) -> None:
        """Raise InputError if one of the options is there; by default any of them."""
        refuse(self, names or values_of(self, ProfileOptions), f": {why}")


@dataclass(frozen=True)
class SimulationOptions(MachineOptions, RuleOptions, ProfileOptions):
    """What is simulated under which rules, without what runs there."""

    @cached_property
    def _chosen(self) -> tuple[MachineOptions, Profile | None]:
        return self.calibrated(self, self)

    @cached_property
    def machine(self) -> Blueprint:
        """The machine, by default that of the profile."""
        return replace(self._chosen[0].blueprint, force=self.force)

    @property
    def calibration(self) -> Profile | None:
        """The profile or the library; None without one."""
        return self._chosen[1]

    @property
    def library_choices(self) -> tuple[str, ...]:
        """The all-reduces from which the library may choose here; none without one."""
        return self.usual_algorithms(self._chosen[0])

    @property
    def simulation_parameters(self) -> dict[str, str | bool | None]:
        """The options with their defaults, to be stored with a result."""
        return {
            **self._chosen[0].machine_parameters,
            **self.rule_parameters,
            "engine": self.engine.value,
            **self.library_parameters,
        }
