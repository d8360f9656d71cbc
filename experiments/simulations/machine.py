"""The options that describe a machine and the rules of time, as every command takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from typing import cast

from experiments.simulations.sweep import Rules
from simulator.collectives import Algorithm
from simulator.engines import Engine
from simulator.profile import Profile
from topologies.catalogue import Blueprint, find
from topologies.errors import InputError
from topologies.placement import parse_placement
from topologies.units import parse_bandwidth, parse_seconds

LINKS = {"bandwidth": "50GB/s", "latency": "1us", "gap": "0us"}
"""A shape's links where nobody says."""
USUAL = "ring"
"""The topology of a sweep or run where nobody says."""


@dataclass(frozen=True)
class Machine:
    """The options as the user writes them; `blueprint` and `rules` are their values.

    `bandwidth`, `latency` and `gap` are of a shape's links: where they are None, 50 GB/s, 1 us and
    0 us.
    """

    topology: str
    bandwidth: str | None = None
    latency: str | None = None
    gap: str | None = None
    reduction: str | None = None
    placement: str = "node"
    sharing: str = "fifo"
    store_and_forward: bool = False

    @cached_property
    def blueprint(self) -> Blueprint:
        """The machine. Raises InputError for a name or a quantity that is none."""
        blueprint = find(self.topology)
        for name in ("bandwidth", "latency", "gap"):
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
        return replace(
            linked,
            reduction=None if reduction is None else 1 / reduction,
            placement=parse_placement(self.placement),
        )

    @property
    def parameters(self) -> dict[str, str | bool | None]:
        """What describes the machine, defaults included: what a result is stored with."""
        usual = LINKS if self.blueprint.kind == "shape" else {}
        return {
            name: value if value is not None else usual.get(name)
            for name, value in asdict(self).items()
        }

    def rules(self, engine: str) -> Rules:
        """How `simulate` is asked to simulate."""
        if self.store_and_forward and self.sharing == "fair":
            raise InputError("--store-and-forward goes with --sharing fifo: leave one of them out")
        return Rules(
            cast(Engine, engine),
            "fair" if self.sharing == "fair" else "fifo",
            self.store_and_forward,
        )


def machine_of(
    name: str | None,
    topology: str,
    links: tuple[str | None, str | None, str | None, str | None],
    placement: str,
    sharing: str,
    store_and_forward: bool,
) -> tuple[Machine, Profile | None]:
    """The machine that the options describe, and the profile of a name: by default that is of its
    own machine.

    Raises InputError for links that the profile has itself.
    """
    if name is None:
        return Machine(topology, *links, placement, sharing, store_and_forward), None
    from experiments.profiles import find as find_profile

    for option, value in zip(
        ("--bandwidth", "--latency", "--gap", "--reduction"), links, strict=True
    ):
        if value is not None:
            raise InputError(
                f"{option} {value}: --profile {name} has links of its own, leave one of the two out"
            )
    profile = find_profile(name).simulated()
    return Machine(
        profile.machine if topology == USUAL else topology,
        *links,
        placement,
        sharing,
        store_and_forward,
    ), profile


def ignored(
    profile: Profile | None, algorithms: Iterable[Algorithm], ranks: Iterable[int]
) -> Iterator[str]:
    """A line for each algorithm that the machine's library did not run although it was told to, by
    its profile."""
    if profile is None or not profile.ineffective:
        return
    for algorithm, p in product(algorithms, ranks):
        if known := profile.ignored(algorithm.name, algorithm.collective.name, p):
            who = f"with {known.library} " if known.library else ""
            said = (
                f"{profile.name}: told to take {algorithm.name} on {p} ranks, a run {who}took "
                f"the fastest of"
            )
            yield f"{said} {', '.join(known.ran)}: this simulates {algorithm.name}"


def _quantity(parse: Callable[[str], float], text: str | None) -> float | None:
    return None if text is None else parse(text)
