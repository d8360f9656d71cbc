"""Effects on single algorithms and on the launch of a collective."""

from collections.abc import Mapping
from dataclasses import replace
from math import e, log

from experiments.calibration.effects.effect import LIKELY, SURE, Data, Effect, Parameter, Values
from experiments.calibration.effects.link_effects import reach
from simulator.collectives import find
from simulator.effects.jobs import reduces
from simulator.effects.link_slowdowns import PeerChannels
from simulator.profile import Profile, Protocol


def launch(data: Data, *, start: float) -> Effect:
    """A constant time before the first operation of a collective."""
    return Effect(
        (Parameter("launch", start, "s", LIKELY),),
        lambda profile, values: replace(profile, launch=values["launch"]),
    )


def reductions(data: Data) -> Effect:
    """A factor on the launch of collectives that reduce: they get scratch memory, and V on a GPU
    is copied to the host and back (ompi/mca/coll/cuda/coll_cuda_allreduce.c). Data show it where
    some curves reduce and others do not."""
    if len({reduces(curve.collective) for curve in data.curves}) < 2:
        return Effect()
    algorithms = [name for name in data.algorithms if reduces(find(name).collective.name)]

    def write(profile: Profile, values: Values) -> Profile:
        factor = e ** values["launch of reductions"]
        return replace(profile, launches=dict.fromkeys(algorithms, profile.launch * factor))

    return Effect((Parameter("launch of reductions", 0.0, "power", SURE),), write)


def rooted_latency(data: Data) -> Effect:
    """A factor on α in collectives with a root. A benchmark that takes the mean over ranks counts
    about half of a tree's levels, as ranks near the root finish early. Data show it where some
    curves have a root and others do not."""
    algorithms = [name for name in data.algorithms if find(name).collective.root is not None]
    if len({name in algorithms for name in data.jobs.names}) < 2:
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        factor = e ** values["α of roots"]
        protocols = (protocol.slowed(algorithms, factor) for protocol in profile.protocols)
        return replace(profile, protocols=tuple(protocols))

    return Effect((Parameter("α of roots", 0.0, "power", SURE),), write)


RINGS = ("ring", "ring_all_gather", "ring_reduce_scatter", "neighbor_exchange")
"""Algorithms in which a rank always has the same two peers, and waits for both: for one at each
step, or for both in turn."""


def ring_latency(data: Data, *, protocol: str) -> Effect:
    """A factor on α of one protocol in rings. Only curves that were forced to be rings show it: a
    fit to a library's choice would make rings so slow that they are never chosen."""
    name = f"{protocol} α in rings"
    shown = any(set(RINGS) >= set(curve.algorithms) for curve in data.curves)

    def write(profile: Profile, values: Values) -> Profile:
        factor = e ** values.get(name, 0.0)
        protocols = (
            each.slowed(RINGS, factor) if each.name == protocol else each
            for each in profile.protocols
        )
        return replace(profile, protocols=tuple(protocols))

    return Effect((Parameter(name, 0.0, "power", LIKELY),) if shown else (), write)


def sends(data: Data, *, algorithms: Mapping[str, str]) -> Effect:
    """Factors on launch, α and 1/β in algorithms of sends and receives, for which a library has
    other channels. Data show them where some curves are of such algorithms and others are not.

    A message to one peer has few channels, and an all-to-all has those of all peers. So each
    algorithm has a 1/β of its own, if a curve shows it. They share launch and α. `algorithms` are
    the names by which parameters call the algorithms.
    """
    if len({bool(set(curve.algorithms) - algorithms.keys()) for curve in data.curves}) < 2:
        return Effect()
    shown = {name for curve in data.curves for name in curve.algorithms}
    rates = {
        name: {kind: f"{kind} 1/β of {word}" for kind in data.kinds}
        for name, word in algorithms.items()
        if name in shown
    }
    names = {"launch of sends": "", "α of sends": ""}
    names |= {name: kind for row in rates.values() for kind, name in row.items()}

    def write(profile: Profile, values: Values) -> Profile:
        latency, launch = e ** values["α of sends"], e ** values["launch of sends"]
        protocols = (each.slowed(tuple(algorithms), latency) for each in profile.protocols)
        return replace(
            profile,
            protocols=tuple(protocols),
            slower={
                name: {kind: e ** values[rate] for kind, rate in row.items()}
                for name, row in rates.items()
            },
            launches=dict.fromkeys(algorithms, profile.launch * launch),
        )

    parameters = (Parameter(name, 0.0, "power", LIKELY, kind) for name, kind in names.items())
    return Effect(tuple(parameters), write)


CHANNEL = "1/β of a channel"
NEVER = 1e6
"""A protocol whose α takes so many times as long is never the fastest."""


def few_channels(data: Data, *, algorithm: str, slowness: float) -> Effect:
    """The 1/β of one channel. Data show it where an algorithm, in which a rank sends to one peer,
    ran on one node. `slowness`, 1/β of a channel in s/B, is where the fit starts."""
    kind = next((kind for kind in data.kinds if reach(kind) == "node"), "")
    if not kind or not any(
        curve.nodes == 1 and algorithm in curve.algorithms for curve in data.curves
    ):
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        return replace(profile, channels={algorithm: PeerChannels(kind, values[CHANNEL])})

    return Effect((Parameter(CHANNEL, slowness, "s/B", LIKELY),), write)


def multicast(data: Data, *, algorithm: str, latency: float, efficiency: float) -> Effect:
    """A latency, and a factor on 1/β, of an algorithm in which switches reduce and multicast.

    Its pieces follow one another without waiting, so the latency counts once and α not at all. Data
    show it where some curves may be of the algorithm. Rings keep their own 1/β, as do collectives
    in which the switches do not reduce. `latency` in seconds, and `efficiency`, the share of β that
    the switches reach, are where the fit starts.
    """
    if not any(algorithm in curve.algorithms for curve in data.curves):
        return Effect()
    word = algorithm.upper()
    rates = {f"{kind} 1/β of {word}": kind for kind in data.kinds if reach(kind) == "node"}
    parameters = (
        Parameter(f"latency of {word}", latency, "s", LIKELY),
        *(
            Parameter(name, -log(efficiency), "power", LIKELY, kind, specified=True)
            for name, kind in rates.items()
        ),
    )

    def write(profile: Profile, values: Values) -> Profile:
        slower = {kind: e ** values[name] for name, kind in rates.items()}
        return multicasting(profile, algorithm, values[f"latency of {word}"], slower)

    return Effect(parameters, write)


def multicasting(
    profile: Profile, algorithm: str, latency: float, slower: Mapping[str, float]
) -> Profile:
    """The profile with an algorithm whose `latency` in seconds counts once instead of the α of the
    links in `slower`. Their 1/β is longer by the factors of `slower`, by kind of link. The last
    protocol alone runs it between nodes."""

    def factors(protocol: Protocol) -> Mapping[str, float]:
        between = 1.0 if protocol is profile.protocols[-1] else NEVER
        return {kind: 0.0 if kind in slower else between for kind in protocol.links}

    return replace(
        profile,
        protocols=tuple(
            replace(one, factors={**one.factors, algorithm: factors(one)})
            for one in profile.protocols
        ),
        slower={**profile.slower, algorithm: slower},
        launches={**profile.launches, algorithm: profile.launch + latency},
    )
