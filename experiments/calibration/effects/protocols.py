"""The cost of each kind of link by each protocol of a library."""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import numpy as np

from experiments.calibration.effects.effect import (
    LIKELY,
    LOOSE,
    Data,
    Effect,
    Parameter,
    Prior,
    Values,
)
from simulator.profile import Profile, Protocol
from topologies.link import NETWORKS, Link

LEAST_LATENCY = 1e-13
"""Seconds: the least α that is simulated."""
GAP_START = 0.1
"""Where a g starts, in units of α."""
FED = 25e9
"""A job has as many channels as a network of this β in bytes/s feeds, or more: two channels at
least."""
BETWEEN = ("network", *NETWORKS)
"""Kinds of link that lead from node to node."""


def reach(kind: str) -> str:
    """Whether links of a kind are inside a "node" or in the "network" between them."""
    return "network" if kind in BETWEEN else "node"


def protocols(data: Data, *, weight: float = LOOSE) -> Effect:
    """α and 1/β of each kind of link by each protocol, and g if the data identify it. `weight` is
    that of the start of each α.

    Protocols keep their roles. A protocol has at least the α of the protocols for shorter messages,
    unless they are a form of another protocol. No protocol is faster than its share of the β of
    the last protocol.
    """
    parameters = (each for prior in data.priors for each in _parameters(data, prior, weight))

    def write(profile: Profile, values: Values) -> Profile:
        written = (
            Protocol(prior.name, _links(data, number, values), _factors(data, prior), longest)
            for number, (prior, longest) in enumerate(zip(data.priors, data.longest, strict=True))
        )
        return replace(profile, protocols=tuple(written))

    return Effect(tuple(parameters), write)


def _parameters(data: Data, prior: Prior, weight: float) -> Iterator[Parameter]:
    starts = {kind: _start(data, prior, kind) for kind in data.kinds}
    for kind, (latency, _) in starts.items():
        yield Parameter(f"{prior.name} {kind} α", latency, "s", weight, kind)
        if (prior.name, kind) in data.gaps:
            yield Parameter(f"{prior.name} {kind} g", latency * GAP_START, "s", LIKELY, kind)
    rates = {prior.rate(kind): (kind, slowness) for kind, (_, slowness) in starts.items()}
    for name, (kind, slowness) in rates.items():
        of_kind = "" if prior.one_rate else kind
        reached = prior.reached.get(reach(kind), 1.0)
        yield Parameter(
            name, slowness, "s/B", prior.weight, of_kind, bool(prior.reached), reached=reached
        )


def _start(data: Data, prior: Prior, kind: str) -> tuple[float, float]:
    """α and 1/β of a kind of link: those of the prior, or the machine's in proportion."""
    if kind in prior.latency:
        return prior.latency[kind], prior.slowness[kind]
    latency, slowness = data.figures[kind]
    longer = prior.latency[reach(kind)] / data.priors[0].latency[reach(kind)]
    if prior is not data.priors[-1]:
        slowness = min(slowness, 1 / FED)
    slowness /= prior.reached.get(reach(kind), 1.0)
    return max(LEAST_LATENCY, latency * longer), max(slowness, prior.slowness["node"])


def _links(data: Data, number: int, values: Values) -> dict[str, Link]:
    """The links of a protocol, by its number."""
    prior, last, links = data.priors[number], data.priors[-1], dict[str, Link]()
    shorter = [one.name for one in data.priors[:number] if not one.kind_of]
    for kind in data.kinds:
        slowness = np.maximum(values[prior.rate(kind)], values[last.rate(kind)] / prior.share)
        latencies = (values[f"{name} {kind} α"] for name in (*shorter, prior.name))
        latency = reduce(np.maximum, latencies)
        gap = values[f"{prior.name} {kind} g"] if (prior.name, kind) in data.gaps else 0.0
        links[kind] = Link(1 / slowness, latency, gap)
    return links


def _factors(data: Data, prior: Prior) -> dict[str, dict[str, float]]:
    """The factors on α in single algorithms, by kind of link."""
    return {
        name: {kind: factors.get(reach(kind), 1.0) for kind in data.kinds}
        for name, factors in prior.factors.items()
    }
