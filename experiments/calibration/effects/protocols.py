"""The cost of each kind of link by each protocol of a library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf

import numpy as np

from experiments.calibration.effects.effect import LIKELY, LOOSE, Data, Effect, Parameter
from simulator.profile import Profile, Protocol
from topologies.link import Link
from topologies.link_kinds import NETWORKS

NEGLIGIBLE = 1e-13
"""Seconds: the least α that is simulated."""
SHORT = 0.1
"""Where a g starts, in units of α."""
FED = 25e9
"""A job has as many channels as a network of this β in bytes/s feeds, or more: two channels at
least."""
BETWEEN = ("network", *NETWORKS)
"""Kinds of link that lead from node to node."""


def reach(kind: str) -> str:
    """Whether links of a kind are inside a "node" or in the "network" between them."""
    return "network" if kind in BETWEEN else "node"


@dataclass(frozen=True)
class Prior:
    """Where the fit of a protocol starts. Keys are kinds of link, or "node" and "network"."""

    name: str
    """The protocol."""
    latency: Mapping[str, float]
    """α of one link, in seconds."""
    slowness: Mapping[str, float]
    """1/β, in s/B."""
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The factors on α in single algorithms."""
    one_rate: bool = False
    """Whether 1/β is one number for all links, as a single warp's stores limit it."""
    kind_of: str = ""
    """The protocol that this one is a form of."""
    share: float = 1.0
    """The share of a link's β that the protocol's flags leave."""
    longest: Mapping[str, float] = field(default_factory=dict)
    """The bytes of its longest message, by the library's name in words, in lower case."""
    reached: Mapping[str, float] = field(default_factory=dict)
    """The usual share of a specified β. Empty: the links of a machine do not limit the protocol."""
    weight: float = LOOSE
    """The weight of the start of 1/β."""

    def rate(self, kind: str) -> str:
        """The name of the parameter that is 1/β of links of `kind`."""
        return f"{self.name} 1/β" if self.one_rate else f"{self.name} {kind} 1/β"

    def most(self, libraries: Iterable[str]) -> float:
        """The bytes of its longest message in all `libraries`, names and versions in words."""
        names = [library.lower() for library in libraries]
        limits = (
            limit for words, limit in self.longest.items() if all(words in name for name in names)
        )
        return min(limits, default=inf)

    def factor(self, algorithm: str, reach: str) -> float:
        """The factor on α in `algorithm`, inside a "node" or in the "network"."""
        return self.factors.get(algorithm, {}).get(reach, 1.0)


class Protocols(Effect):
    """α and 1/β of each kind of link by each protocol, and g if the data identify it.

    Protocols keep their roles. A protocol has at least the α of the protocols for shorter messages,
    unless they are a form of another protocol. No protocol is faster than its share of the β of
    the last protocol.
    """

    def __init__(self, data: Data, *, weight: float = LOOSE) -> None:
        """`weight`: that of the start of each α."""
        self.data, self.kinds = data, data.paths.kinds
        self.priors: tuple[Prior, ...] = data.library.protocols
        self.most = data.paths.most
        self.parameters = tuple(
            parameter for prior in self.priors for parameter in self._parameters(prior, weight)
        )

    def _parameters(self, prior: Prior, weight: float) -> Iterator[Parameter]:
        starts = {kind: self._start(prior, kind) for kind in self.kinds}
        for kind, (latency, _) in starts.items():
            yield Parameter(f"{prior.name} {kind} α", latency, "s", weight, kind)
            if (prior.name, kind) in self.data.gaps:
                yield Parameter(f"{prior.name} {kind} g", latency * SHORT, "s", LIKELY, kind)
        rates = {prior.rate(kind): (kind, slowness) for kind, (_, slowness) in starts.items()}
        for name, (kind, slowness) in rates.items():
            of_kind = "" if prior.one_rate else kind
            reached = prior.reached.get(reach(kind), 1.0)
            yield Parameter(
                name, slowness, "s/B", prior.weight, of_kind, bool(prior.reached), reached=reached
            )

    def _start(self, prior: Prior, kind: str) -> tuple[float, float]:
        """α and 1/β of a kind of link: those of the prior, or the machine's in proportion."""
        if kind in prior.latency:
            return prior.latency[kind], prior.slowness[kind]
        latency, slowness = self.data.paths.figures[kind]
        longer = prior.latency[reach(kind)] / self.priors[0].latency[reach(kind)]
        if prior is not self.priors[-1]:
            slowness = min(slowness, 1 / FED)
        slowness /= prior.reached.get(reach(kind), 1.0)
        return max(NEGLIGIBLE, latency * longer), max(slowness, prior.slowness["node"])

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The protocols, with the factors of their priors."""
        protocols = (
            Protocol(prior.name, self._links(number, values), self._factors(prior), most)
            for number, (prior, most) in enumerate(zip(self.priors, self.most, strict=True))
        )
        return replace(profile, protocols=tuple(protocols))

    def _links(self, number: int, values: Mapping[str, float]) -> dict[str, Link]:
        """The links of a protocol, by its number."""
        prior, last, links = self.priors[number], self.priors[-1], dict[str, Link]()
        shorter = [one.name for one in self.priors[:number] if not one.kind_of]
        for kind in self.kinds:
            slowness = np.maximum(values[prior.rate(kind)], values[last.rate(kind)] / prior.share)
            latencies = (values[f"{name} {kind} α"] for name in (*shorter, prior.name))
            latency = reduce(np.maximum, latencies)
            gap = values[f"{prior.name} {kind} g"] if (prior.name, kind) in self.data.gaps else 0.0
            links[kind] = Link(1 / slowness, latency, gap)
        return links

    def _factors(self, prior: Prior) -> dict[str, dict[str, float]]:
        return {
            name: {kind: prior.factor(name, reach(kind)) for kind in self.kinds}
            for name in prior.factors
        }
