"""All-reduces by switches in a node that reduce and multicast."""

from collections.abc import Mapping
from dataclasses import replace
from math import e, log

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from experiments.calibration.effects.protocols import reach
from simulator.profile import Profile, Protocol


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
        *(Parameter(name, -log(efficiency), "power", LIKELY, kind) for name, kind in rates.items()),
    )

    def write(profile: Profile, values: Values) -> Profile:
        slower = {kind: e ** values[name] for name, kind in rates.items()}
        return multicasting(profile, algorithm, values[f"latency of {word}"], slower)

    return Effect(parameters, write)


def multicasting(
    profile: Profile, algorithm: str, latency: float, slower: Mapping[str, float]
) -> Profile:
    """The profile with an algorithm whose `latency` in seconds counts once instead of the α of the
    links in `slower`. Their 1/β is longer by the factors of `slower`, by kind of link. Other links,
    as those between nodes, have α of the last protocol, as no other protocol does this."""
    last = profile.protocols[-1].links

    def factors(protocol: Protocol) -> Mapping[str, float]:
        return {
            kind: 0.0 if kind in slower else last[kind].latency / link.latency
            for kind, link in protocol.links.items()
        }

    return replace(
        profile,
        protocols=tuple(
            replace(one, factors={**one.factors, algorithm: factors(one)})
            for one in profile.protocols
        ),
        slower={**profile.slower, algorithm: slower},
        launches={**profile.launches, algorithm: profile.launch + latency},
    )
