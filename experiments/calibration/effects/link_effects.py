"""Effects on the cost of links."""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from math import e, log
from typing import Any

import numpy as np

from experiments.calibration.effects.effect import (
    LIKELY,
    LOOSE,
    SURE,
    Data,
    Effect,
    Parameter,
    Prior,
    Values,
)
from simulator.effects.link_slowdowns import Crowding, Exchanges, NodeCorrection, alike
from simulator.profile import Profile, Protocol
from topologies.link import NETWORKS, Link

LEAST_LATENCY = 1e-13
"""Seconds: the least α that is simulated."""
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
        gap = prior.gap.get(reach(kind), 0.0)
        if gap or (prior.name, kind) in data.gaps:
            # a g without a start of its own starts at a tenth of α
            yield Parameter(f"{prior.name} {kind} g", gap or latency * 0.1, "s", LIKELY, kind)
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
    prior, last, links = data.priors[number], data.priors[-1], dict[str, Link]()
    shorter = [one.name for one in data.priors[:number] if not one.kind_of]
    for kind in data.kinds:
        slowness = np.maximum(values[prior.rate(kind)], values[last.rate(kind)] / prior.share)
        latencies = (values[f"{name} {kind} α"] for name in (*shorter, prior.name))
        latency = reduce(np.maximum, latencies)
        gap = values.get(f"{prior.name} {kind} g", 0.0)
        links[kind] = Link(1 / slowness, latency, gap)
    return links


def _factors(data: Data, prior: Prior) -> dict[str, dict[str, float]]:
    return {
        name: {kind: factors.get(reach(kind), 1.0) for kind in data.kinds}
        for name, factors in prior.factors.items()
    }


def message_gaps(data: Data, *, waits: str, node: float, network: float) -> Effect:
    """One g of each kind of link for protocols that buffer messages, and one for the protocol that
    `waits` for the receiver: its sender is busy until the receiver answers.

    Data show them where a published rule of the library sends V in segments. Segments follow each
    other without a wait, so a chain goes by the time that each segment holds a rank's port. `node`
    and `network` are where the fit of g starts, in seconds.
    """
    if not any(curve.segmented for curve in data.curves):
        return Effect()
    starts = {"node": node, "network": network}
    # where the g of a protocol that waits starts, in units of the other g
    parameters = tuple(
        Parameter(f"{kind} g{of_protocol}", starts[reach(kind)] * longer, "s", LIKELY)
        for of_protocol, longer in (("", 1.0), (f" of {waits}", 4.0))
        for kind in data.kinds
    )

    def slowed(protocol: Protocol, values: Values) -> Protocol:
        of_protocol = f" of {waits}" if protocol.name == waits else ""
        links = {
            kind: replace(link, gap=link.gap + values[f"{kind} g{of_protocol}"])
            for kind, link in protocol.links.items()
        }
        return replace(protocol, links=links)

    def write(profile: Profile, values: Values) -> Profile:
        protocols = tuple(slowed(protocol, values) for protocol in profile.protocols)
        return replace(profile, protocols=protocols)

    return Effect(parameters, write)


def growth(data: Data) -> Effect:
    """Powers of the number of nodes, by which α and 1/β between nodes grow."""
    if not data.crowding:
        return Effect()
    parameters = tuple(
        Parameter(f"network {what} by nodes", 0.0, "power", SURE) for what in ("α", "1/β")
    )

    def write(profile: Profile, values: Values) -> Profile:
        latency, bandwidth = (values[parameter.name] for parameter in parameters)
        return crowded(profile, data, latency=latency, bandwidth=bandwidth)

    return Effect(parameters, write)


def crowded(profile: Profile, data: Data, **changes: Any) -> Profile:
    """The profile with changed crowding of all links between nodes."""
    start = Crowding(data.typical, most=data.most)
    crowding = {
        kind: profile.crowding.get(kind, start)._replace(**changes)
        for kind in data.kinds
        if kind in BETWEEN
    }
    return replace(profile, crowding=crowding)


WEIGHT = 0.25
"""The weight of a correction's start: it has none."""


def node_corrections(data: Data) -> Effect:
    """A factor on α and one on 1/β between nodes for each number of nodes.

    Near numbers of nodes have similar factors. So the fit counts only the difference to the factors
    of fewer nodes: its matrix is the root of the likeness of numbers of nodes, for α and for 1/β.
    """
    if not data.crowding:
        return Effect(of_machine=True)
    counts = np.unique(data.points.nodes)
    names = [[f"network {what} at {count} nodes" for count in counts] for what in ("α", "1/β")]
    parameters = tuple(Parameter(name, 0.0, "power", WEIGHT) for column in names for name in column)

    def write(profile: Profile, values: Values) -> Profile:
        corrections = tuple(
            NodeCorrection(int(count), values[latency], values[bandwidth])
            for count, latency, bandwidth in zip(counts, *names, strict=True)
        )
        return crowded(profile, data, corrections=corrections)

    root = np.kron(np.eye(2), np.linalg.cholesky(alike(counts, counts)))
    return Effect(parameters, write, np.asarray(root), of_machine=True)


def copied_messages(data: Data, *, not_copied: str) -> Effect:
    """The host copies the messages of all protocols but `not_copied`, more slowly than the network
    moves them. So a slower network changes 1/β of that protocol only. Curves whose algorithm was
    forced show it."""
    if not any(curve.forced and not curve.ignored for curve in data.curves):
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        return crowded(profile, data, protocol=not_copied) if profile.crowding else profile

    return Effect((), write)


ON_TWO_NODES = Parameter("node β on two nodes", log(2.0), "power", LIKELY)
"""NCCL's search (src/graph/tuning.cc) takes the bandwidth inside nodes for jobs on up to two nodes,
and that between nodes for larger jobs."""
SHARED_PORTS = Parameter(
    "network 1/β by ranks a node", -1.0, "power", LIKELY, "network", specified=True
)


def ports(data: Data) -> Effect:
    """A library opens as many channels as its network feeds, so links inside nodes have the β of
    those between nodes. That changes with the ranks a node by a power, which data show where jobs
    over several nodes had different numbers of ranks there.

    On two nodes there are more channels: trees, whose chains inside nodes carry twice what crosses
    the network, may then be faster than rings. Data show it where jobs had two nodes and more.
    """
    several = [curve for curve in data.curves if curve.nodes > 1]
    has_two = len({curve.nodes > 2 for curve in several}) > 1
    has_widths = len({curve.per_node for curve in several}) > 1

    def write(profile: Profile, values: Values) -> Profile:
        on_two = values.get(ON_TWO_NODES.name, ON_TWO_NODES.start)
        profile = replace(profile, paced=True, pace_on_two=e**on_two)
        if not has_widths:
            return profile
        width, power = data.points.width, values[SHARED_PORTS.name]
        return crowded(profile, data, per_node=width, shared=power)

    shown = ((ON_TWO_NODES, has_two), (SHARED_PORTS, has_widths))
    return Effect(tuple(parameter for parameter, is_shown in shown if is_shown), write)


def long_exchanges(data: Data, *, beyond: float) -> Effect:
    """Bytes after the first `beyond` of a message take longer where two ranks on two nodes send
    to each other. Data show it where every algorithm that may have made a curve does that."""
    if not any(data.exchanges(curve, beyond) for curve in data.curves):
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        return replace(profile, exchanges=Exchanges(values["long exchanges"], beyond))

    return Effect((Parameter("long exchanges", 1 / 40e9, "s/B", LIKELY),), write)
