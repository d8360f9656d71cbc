"""The options of a machine and of its simulation, the same for all commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from experiments.options.completion import complete_machines, completer, placement_orders
from experiments.options.options import Engines, Force, LibraryName, Options, option
from topologies.errors import InputError
from topologies.units import parse_bandwidth, parse_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from experiments.calibration.library import Library
    from experiments.output import Value
    from experiments.simulations.rules import Rules
    from simulator.profile import Profile
    from topologies.catalogue import Blueprint
    from topologies.readers.placements import Hosts

TOPOLOGY_HELP = (
    "NAME or FILE, with options: hgx_h100:nodes=2, topo.txt. See `simctl list machines`."
)
DEFAULT_TOPOLOGY = "star"
"""The machine of each command, if the user names none: a switch with a port for each rank."""
LINKS = {"bandwidth": "50GB/s", "latency": "1us", "gap": "0us"}
"""The links of a shape, if the user does not say."""
SHARING = ("fifo", "store-and-forward", "fair")


@dataclass(frozen=True)
class MachineOptions(Options):
    """A machine as the user writes it."""

    topology: str | None = option(
        f"{TOPOLOGY_HELP}  [default: star, where a machine is needed]",
        autocompletion=complete_machines,
    )
    bandwidth: str | None = option("β of a shape's links, like 400Gbit/s.  [default: 50GB/s]")
    latency: str | None = option("α of a shape's links, like 2us.  [default: 1us]")
    gap: str | None = option(
        "g of a shape's links: extra time of each message, like 1us.", hidden=True
    )
    reduction: str | None = option(
        "1/γ: how fast a rank adds up the data that it receives, like 1TB/s. "
        "[default: infinitely fast]",
        hidden=True,
    )
    placement: str = option(
        "The GPU of each rank: node (node after node), round-robin over nodes, a list: "
        "0,8,1,9, or the job's hosts: topology.conf:n[1-4,9] of SLURM, or `nvidia-smi -q` of all "
        "hosts in one file.",
        default="node",
        autocompletion=completer(placement_orders),
    )

    @cached_property
    def blueprint(self) -> Blueprint:
        """The machine. Raises InputError for a name or a quantity that has no meaning."""
        from topologies.catalogue import find

        blueprint = find(DEFAULT_TOPOLOGY if self.topology is None else self.topology)
        for name in LINKS:
            if getattr(self, name) is not None and name in blueprint.options:
                raise InputError(
                    f"{name} is given twice: as an option of {blueprint.name}, and as --{name}"
                )
        reduction = _quantity(parse_bandwidth, self.reduction)
        linked = blueprint.with_links(
            _quantity(parse_bandwidth, self.bandwidth),
            _quantity(parse_seconds, self.latency),
            _quantity(parse_seconds, self.gap),
        )
        return self._placed(replace(linked, reduction=None if reduction is None else 1 / reduction))

    def _placed(self, machine: Blueprint) -> Blueprint:
        from topologies.host_machines import on_hosts
        from topologies.variants import parse_placement

        if (hosts := self.hosts) is None:
            return replace(machine, placement=parse_placement(self.placement))
        for name in ("nodes", "nodes_per_leaf"):
            if name in machine.options:
                raise InputError(
                    f"{machine.text} and --placement {self.placement}: the hosts say how many "
                    f"nodes there are, leave {name} out"
                )
        return on_hosts(machine, hosts)

    @cached_property
    def hosts(self) -> Hosts | None:
        """The hosts of --placement; None if it names no file."""
        from topologies.catalogue import exists
        from topologies.readers.placements import read_hosts

        file, chosen = self.placement, ""
        if not exists(file):
            file, _, chosen = file.partition(":")
        if not re.search("[/.]", file) and not exists(file):
            return None
        hosts = read_hosts(file, chosen)
        if hosts.levels > 2:
            from experiments import output

            output.note(
                f"{file} has {hosts.levels} levels of switches: here one level of spines joins "
                f"the leaves"
            )
        return hosts

    @property
    def optional_blueprint(self) -> Blueprint | None:
        """The machine, or None without --topology. Raises InputError for other options
        without it."""
        if self.topology is not None:
            return self.blueprint
        why = ": give --topology as well, or leave it out"
        self.refuse(self.values_of(MachineOptions), why)
        return None

    @property
    def resolved(self) -> Mapping[str, Value]:
        """The machine, and the links of a shape that the user does not describe."""
        links = LINKS if self.blueprint.kind == "shape" else {}
        usual = {name: text for name, text in links.items() if name not in self.blueprint.options}
        return {"topology": self.blueprint.text, **usual}


def library_of(profile: str | None, name: LibraryName | None) -> Library | None:
    """The library of a profile, or of that name. None without both."""
    if profile is not None:
        from experiments.calibration.libraries import library
        from experiments.profiles import find as find_profile

        return library(find_profile(profile).library)
    if name is not None:
        from experiments.calibration.population.library_profile import LIBRARIES

        return LIBRARIES[name]
    return None


@dataclass(frozen=True)
class RuleOptions(Options):
    """The rules of a simulation."""

    sharing: str = option(
        "How transfers share a link: fifo, one after the other; store-and-forward, so that "
        "switches receive a whole message before they forward it; fair, max-min fair rates; "
        "fair:tolerance=1e-3 rounds the end of each message to a multiple of this share of the "
        "busiest link's time: faster, but not exact.",
        default="fifo",
        autocompletion=completer(lambda: [*SHARING]),
    )
    engine: Engines = "auto"
    symmetry: Literal["auto", "off"] = option(
        "auto: simulate one rank for all ranks that do the same. Same results.",
        default="auto",
        hidden=True,
    )
    force: Force = False

    @property
    def rules(self) -> Rules:
        """The rules for `simulate`."""
        from experiments.simulations.rules import Rules

        name, colon, tolerance = self.sharing.partition(":")
        if name not in SHARING or (colon and name != "fair"):
            raise InputError(
                f"--sharing {self.sharing[:40]!r}: choose one of {', '.join(SHARING)} and "
                f"fair:tolerance=1e-3"
            )
        return Rules(
            self.engine,
            "fair" if name == "fair" else "fifo",
            name == "store-and-forward",
            self.symmetry,
            self.force,
            self._share(tolerance) if colon else 0.0,
        )

    def sure(self, profile: Profile | None) -> Profile | None:
        """The profile; under fair sharing without intervals, which need the counts of a critical
        path."""
        if profile is None or self.rules.sharing != "fair":
            return profile
        from experiments import output

        if profile.uncertainty is not None:
            output.note("--sharing fair: no intervals, they go with --sharing fifo")
        return replace(profile, uncertainty=None)

    def _share(self, text: str) -> float:
        """The share of the time by which messages may end early or late, like "tolerance=1e-3"."""
        known = re.fullmatch(r"tolerance=(\d*\.?\d+(?:e-?\d\d?)?)", text, re.ASCII)
        share = float(known[1]) if known else 0.0
        if not 1e-9 <= share <= 0.1:
            raise InputError(
                f"--sharing {self.sharing[:40]!r}: expected a tolerance from 1e-9 to 0.1, like "
                f"fair:tolerance=1e-3"
            )
        return share


def _quantity(parse: Callable[[str], float], text: str | None) -> float | None:
    return None if text is None else parse(text)
