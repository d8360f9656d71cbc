"""The options that say under which library collectives run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from experiments.cli.machine_options import MachineOptions, RuleOptions, library_of
from experiments.cli.options import Level, PopulationName, ProfileName
from topologies.errors import InputError

if TYPE_CHECKING:
    from simulator.profile import Profile


@dataclass(frozen=True)
class ProfileOptions:
    """A calibrated machine, or a library on a machine that nobody has measured."""

    profile: ProfileName = None
    library: PopulationName = None
    level: Level = None

    def of(
        self, machine: MachineOptions, rules: RuleOptions = RuleOptions()
    ) -> tuple[MachineOptions, Profile | None]:
        """The machine and the profile under the rules. Without --topology, it is the profile's
        machine. Raises InputError for options that contradict."""
        chosen, profile = machine.under(self.profile, self.level, self.library)
        return chosen, rules.sure(profile)

    def usual(self, machine: MachineOptions) -> tuple[str, ...]:
        """The all-reduces from which the library may choose on a machine; none without one."""
        library = library_of(self.profile, self.library)
        if library is None:
            return ()
        return library.on(machine.blueprint).algorithms("all_reduce", multicast=True)

    @property
    def parameters(self) -> dict[str, str]:
        """The options that the user wrote, to be stored with a result."""
        return {name: str(value) for name, value in asdict(self).items() if value is not None}

    def refuse(self, why: str, *names: str) -> None:
        """Raise InputError if one of the options is there; by default any of them."""
        for name, value in asdict(self).items():
            if value is not None and name in (names or asdict(self)):
                raise InputError(f"--{name} {value}: {why}")
