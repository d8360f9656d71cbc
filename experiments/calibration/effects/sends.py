"""Sends and receives with channels of their own."""

from collections.abc import Mapping
from dataclasses import replace
from math import e

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from simulator.profile import Profile


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
