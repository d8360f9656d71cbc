"""The options that describe a machine and the rules of time, as every command takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from typing import cast

import numpy as np

from experiments.simulations.sweep import Rules
from simulator.collectives import Algorithm
from simulator.engines import Engine
from simulator.profile import Profile
from topologies.catalogue import Blueprint, Figures, find
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import parse_bandwidth, parse_seconds

LINKS = {"bandwidth": "50GB/s", "latency": "1us", "gap": "0us"}
"""A shape's links where nobody says."""
USUAL = "ring"
"""The topology of a sweep or run where nobody says."""


@dataclass(frozen=True)
class Machine:
    """The options as text; calling it with numbers of ranks and of servers builds the machine.

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

    def __call__(self, ranks: int, servers: int = 0) -> Topology:
        """The machine. Raises InputError for a name or a quantity that is none."""
        return self.build(ranks, servers)

    def build(
        self,
        ranks: int,
        servers: int = 0,
        latency: float | None = None,
        bandwidth: float | None = None,
        server_kind: str | None = None,
    ) -> Topology:
        """The machine with other α (seconds) or β (bytes/s) than the options say."""
        figures = self.figures
        if bandwidth is not None:
            figures = replace(figures, bandwidth=bandwidth)
        if latency is not None:
            figures = replace(figures, latency=latency)
        return self.blueprint.build(ranks, servers, figures, self.placement, server_kind)

    @property
    def figures(self) -> Figures:
        """What the options say of links and ranks. Raises InputError for text that is no
        quantity."""
        return Figures(
            bandwidth=_quantity(parse_bandwidth, self.bandwidth),
            latency=_quantity(parse_seconds, self.latency),
            gap=_quantity(parse_seconds, self.gap),
            reduction=None if self.reduction is None else 1 / parse_bandwidth(self.reduction),
        )

    def check(self) -> None:
        """Raise InputError for a topology or a quantity that is none."""
        _ = self.blueprint, self.figures

    @cached_property
    def size(self) -> int | None:
        """The number of ranks, where the topology says how many it has: a file, nodes=4 or
        dims=4x4x4."""
        sized = self.blueprint.kind == "file" or self.blueprint.options.keys() & {"nodes", "dims"}
        return self.blueprint.whole().ranks if sized else None

    def laid_out(self, ranks: int, nodes: int) -> Machine:
        """The machine with as many nodes as took part, and their first GPUs, unless the options say
        otherwise."""
        if self.blueprint.name == "nodes" and nodes > 0:
            return replace(self, topology=f"nodes:per_node={-(-ranks // nodes)}")
        if self.blueprint.kind == "shape" or self.placement != "node" or nodes < 2 or ranks % nodes:
            return self
        here, whole = ranks // nodes, self.blueprint.whole()
        size = whole.ranks // max(len(np.unique(whole.node)) - int((whole.node < 0).any()), 1)
        if here >= size:
            return self
        places = ",".join(
            str(node * size + place) for node in range(nodes) for place in range(here)
        )
        if "nodes" in self.blueprint.options:
            return replace(self, placement=places)
        text = f"{self.topology}{',' if self.blueprint.options else ':'}nodes={nodes}"
        return replace(self, topology=text, placement=places)

    @property
    def parameters(self) -> dict[str, str | bool | None]:
        """What describes the machine, defaults included: what a result is stored with."""
        usual = LINKS if self.blueprint.kind == "shape" else {}
        return {
            name: value if value is not None else usual.get(name)
            for name, value in asdict(self).items()
        }

    @property
    def is_unnamed(self) -> bool:
        """Whether it is a shape of which nobody said how fast its links are."""
        return self.blueprint.kind == "shape" and not (
            self.bandwidth
            or self.latency
            or self.blueprint.options.keys() & {"bandwidth", "latency"}
        )

    @cached_property
    def blueprint(self) -> Blueprint:
        """What `--topology` names."""
        return find(self.topology)

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
